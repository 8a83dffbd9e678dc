"""One small corpus for all tests: 60 documents about 40 labels with label texts, made by rule."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts

WORDS = "cat dog horse bird fish tree stone river cloud engine wheel lamp paper metal glass bread salt wine".split()
N_DOCUMENTS, N_LABELS = 60, 40


def dataset(seed: int = 0, n: int = N_DOCUMENTS) -> Dataset:
    """Each label is a pair of words; a document speaks of two labels and some noise. One label never occurs."""
    random = np.random.default_rng(seed)
    pairs = [(WORDS[i % len(WORDS)], WORDS[(i * 7 + 3) % len(WORDS)] + "s") for i in range(N_LABELS)]
    texts, rows, columns = [], [], []
    for row in range(n):
        chosen = random.choice(N_LABELS - 1, 2, replace=False, p=_zipf(N_LABELS - 1))
        words = [word for label in chosen for word in pairs[label]]
        words += list(random.choice(WORDS, 2))
        texts.append(" ".join(words))
        rows += [row, row]
        columns += chosen.tolist()
    Y = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (n, N_LABELS))
    names = [f"{a} and {b}" for a, b in pairs]
    labels = LabelSet.of([f"L{i:02d}" for i in range(N_LABELS)], names, [f"about {name}" for name in names])
    return Dataset(Texts.of(texts), Y, labels, name="toy")


def _zipf(n: int) -> np.ndarray:
    weights = 1.0 / (np.arange(n) + 3.0)
    return weights / weights.sum()


def write_rows(data: Dataset, file: Path) -> None:
    """A JSON line with text and label ids for each row."""
    rows = ((text, [data.labels.ids[c] for c in data.Y[row].indices]) for row, text in enumerate(data.texts))
    file.write_text("".join(json.dumps({"text": text, "labels": ids}) + "\n" for text, ids in rows))


def distinct(mark: str = "") -> Dataset:
    """The same data; no two labels have the same text: each ends in its number behind `mark`."""
    data = dataset()
    texts = [f"{text} {mark}{i}{'x' * bool(mark)}" for i, text in enumerate(data.labels.texts)]
    return dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids], [*data.labels.names], texts))


def barred() -> Dataset:
    """Such data; label 4 is barred for its own text (document 6), a label of document 5 for the text of label 11."""
    data = distinct()
    texts = [*data.texts]
    texts[5], texts[6] = data.labels.texts[11], " " + data.labels.texts[4].upper()
    pairs = np.array([[5, int(data.Y[5].indices[0])], [6, 4], [8, 2]])
    return dataclasses.replace(data, texts=Texts.of(texts), filter_pairs=pairs)
