"""The words behind a label, where they stand in the text, and the nearest training texts."""

import treetop

texts = ["a small domestic cat", "a large wild cat", "a domestic dog", "a wolf in the forest"] * 3
labels = [["animal", "cat", "pet"], ["animal", "cat"], ["animal", "dog", "pet"], ["animal", "wild"]] * 3
model = treetop.fit("xr_linear", texts, labels, keep_texts=True)

text = "my domestic cat sleeps"
for found in model.explain(text, k=2):
    step = found.members[0].steps[-1]  # the label's own level; those before it are clusters
    print(f"{found.label}: margin {step.margin:.2f} = {step.base:.2f} without words")
    for word in step.words:
        print(f"  {word.contribution:+.2f}  {[text[start:end] for start, end in word.spans]}")
    total = step.base + sum(word.contribution for word in step.words) + step.gap
    print(f"  contributions and base add up to {total:.2f}")

for near in model.nearest(text, k=2):
    print(f"{near.similarity:.2f}  {near.text}  {near.labels}")
