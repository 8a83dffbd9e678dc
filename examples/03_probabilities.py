"""Probabilities from held-out documents, and thresholds that reach a precision or a recall."""

import numpy as np

import treetop

rows = treetop.Dataset.read("wordnet", "train")
test = treetop.Dataset.read("wordnet", "test").take(np.arange(0, 12900, 26))
train = rows.take(np.arange(0, 78000, 26))
held_out = rows.take(np.arange(1, 78000, 100))  # at least 500, none of them trained on

model = treetop.fit("xr_linear", train, held_out=held_out)
for label in model.predict("a small domestic cat", k=3):
    print(f"score {label.score:.3f}, probability {label.probability:.3f}  {label.name}")

calibration = model.calibration
for precision in (0.5, 0.7, 0.9):
    threshold = calibration.threshold_for_precision(precision)  # None: not reached by any
    if threshold is not None:
        accepted = model.predict(list(test.texts), k=10, threshold=threshold)
        print(f"precision {precision}: accept from {threshold:.2f}, {sum(map(len, accepted))} labels accepted")
f1, recall = calibration.threshold_for_f1(), calibration.threshold_for_recall(0.5)
print(f"best F1: accept from {f1:.2f}; half of the true labels: from {recall:.2f}")
