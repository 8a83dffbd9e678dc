"""Labels added, renamed, merged and retired without training again, and the log of it."""

import treetop
from treetop.data.frame import from_lists

texts = ["a small domestic cat", "a large wild cat", "a domestic dog", "a wolf in the forest"] * 3
labels = [["animal", "cat", "pet"], ["animal", "cat"], ["animal", "dog", "pet"], ["animal", "wild"]] * 3
model = treetop.fit("xr_linear", texts, labels, out="model/", overwrite=True)  # a model that knows its folder

examples = from_lists(["a horse in the field", "a young horse"], [["horse"], ["horse"]])
model = model.add_labels(examples=examples, who="me", note="new this year")  # linear trees learn from examples
print(model.predict("a horse", k=1)[0].name)

model = model.rename_labels({"dog": "dogs"})
model = model.merge_labels({"pet": "animal"})
model = model.retire_labels(["wild"])
print([label.name for label in model.predict("a domestic dog", k=5)])

model = model.undo_labels()  # `wild` is back
model.save("model/")  # writes the changes only; what was trained stays byte for byte
print([label.name for label in treetop.load("model/").predict("a wolf in the forest", k=2)])
