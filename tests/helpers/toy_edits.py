"""What tests of changed labels look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import toy

TEXTS = toy.dataset(seed=3).texts


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("indptr", "ids", "score"))


def scores(model, k=60):
    """{(row, id): score} of all answers."""
    ranking, ids = model.rank(TEXTS, k), list(model.labels.ids)
    rows = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr))
    return {
        (row, ids[c]): s for row, c, s in zip(rows.tolist(), ranking.ids.tolist(), ranking.score.tolist(), strict=True)
    }


def hashes(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}
