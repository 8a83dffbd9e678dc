"""Two models joined: by the average of their scores, and by a fusion learned on held-out documents."""

import numpy as np

import treetop

rows = treetop.Dataset.read("wordnet", "train")
test = treetop.Dataset.read("wordnet", "test").take(np.arange(0, 12900, 13))
train, held_out = rows.take(np.arange(0, 78000, 26)), rows.take(np.arange(1, 78000, 100))

tree = treetop.fit("xr_linear", train, calibrate=False)
near = treetop.fit("neighbours", train, calibrate=False)
average = treetop.blend([tree, near], how="rank_average")
fused = treetop.blend([tree, near], held_out=held_out)  # documents that neither has seen

for name, model in {"xr_linear": tree, "neighbours": near, "average": average, "fused": fused}.items():
    scores = model.evaluate(test, resamples=0)
    print(f"{name:10}  P@1 {scores['P@1']:.1f}  P@5 {scores['P@5']:.1f}  PSP@5 {scores['PSP@5']:.1f}")
