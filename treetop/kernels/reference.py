"""The slow, obvious twin of each fast kernel; tests compare the two on random, empty, tied and huge inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

A = NDArray[Any]

# --- neighbours.py --------------------------------------------------------------------------------------------------


def nearest(queries: A, rows: A, k: int) -> list[list[tuple[int, float]]]:
    """Per query the `k` best (row, inner product) with a product above zero; ties go to the lower row."""
    found = []
    for query in queries:
        pairs = [(r, float(np.dot(query, row))) for r, row in enumerate(rows)]
        found.append(sorted((p for p in pairs if p[1] > 0), key=lambda p: (-p[1], p[0]))[:k])
    return found


def vote(neighbours: list[list[tuple[int, float]]], power: float, Y: A, keep: int) -> list[list[tuple[int, float]]]:
    """Labels by the neighbours' normalised votes, each weighing similarity ** power."""
    answers = []
    for found in neighbours:
        total = sum(s**power for _, s in found)
        scores = sum((s**power * Y[r] for r, s in found), np.zeros(Y.shape[1]))
        ranked = sorted((-scores[label] / total, label) for label in np.flatnonzero(scores))
        answers.append([(int(label), -score) for score, label in ranked][:keep])
    return answers
