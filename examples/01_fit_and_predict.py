"""Train on lists of texts and label names, predict, save, load, evaluate."""

import numpy as np

import treetop

train = treetop.Dataset.read("wordnet", "train").take(np.arange(0, 78000, 26))  # a part of the bundled data
test = treetop.Dataset.read("wordnet", "test").take(np.arange(0, 12900, 26))

model = treetop.fit("xr_linear", train)
for label in model.predict("a small domestic cat", k=3):
    print(f"{label.score:.3f}  {label.name}")

model.save("model/", overwrite=True)
model = treetop.load("model/")
scores = model.evaluate(test)
low, high = scores.intervals["P@1"]
print(f"P@1 {scores['P@1']:.1f}, 95 % interval {low:.1f} to {high:.1f}")

texts = ["a small domestic cat", "a large wild cat", "a domestic dog", "a wolf in the forest"]
labels = [["animal", "cat", "pet"], ["animal", "cat"], ["animal", "dog", "pet"], ["animal", "wild"]]
print(treetop.fit("neighbours", texts, labels).predict(["my old cat", "a dog"], k=1))
