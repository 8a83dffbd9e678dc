"""What tests of changed labels look at."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

import toy
from treetop.core.dataset import LabelSet

TEXTS = toy.dataset(seed=3).texts

TINY = {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5}}
HIDDEN = (3, 8, 21)  # labels that a model does not know at first


def cut(data, columns):
    labels = LabelSet.of(*([strings[c] for c in columns] for strings in (data.labels.ids, data.labels.names)))
    return dataclasses.replace(data, Y=data.Y[:, columns], labels=labels)


def without(data):
    return cut(data, [column for column in range(40) if column not in HIDDEN])


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
