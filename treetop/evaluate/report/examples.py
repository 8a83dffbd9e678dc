"""Texts with the answers of one or several models, right ones marked.

Chosen by rule: of one model texts from the worst to the best answered, of several those they differ in most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, Ints, LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.evaluate.match import Matches

TEXTS = 10
SHOWN = 5  # answers per model
RARE = 5  # training texts of a label that counts as rare
LONG = 700  # characters of a text


@dataclass(frozen=True)
class Answer:
    """A label a model gave."""

    name: str
    right: bool
    count: int  # training texts


@dataclass(frozen=True)
class Truth:
    """A true label."""

    name: str
    count: int | None  # training texts; None: no model knows it
    found: int  # models that gave it


@dataclass(frozen=True)
class Example:
    """One text, its true labels and each model's answers, best first."""

    row: int  # place among the documents, from 0
    id: str
    text: str
    left_out: int  # characters cut off
    true: tuple[Truth, ...]
    answers: Mapping[str, tuple[Answer, ...]]


@dataclass(frozen=True)
class Examples:
    """Chosen texts and what they represent."""

    k: int  # answers looked at
    documents: int
    texts: tuple[Example, ...]
    right: Mapping[str, Ints]  # model -> (n_documents,) right ones among the first k
    steps: tuple[tuple[int, int, int], ...]  # (right labels, or their difference; documents; of them chosen)

    @classmethod
    def of(cls, models: Mapping[str, Matches], dataset: Dataset, *, k: int = SHOWN, n: int = TEXTS) -> Examples:
        """Choose up to `n` documents of `dataset`, which every model of `models` was matched with."""
        documents = documents_of(dataset)
        for name, matches in models.items():
            if len(matches) != len(documents):
                raise InputError(f"examples: {name} has answers to {len(matches)} of {len(documents)} documents.")
        k = min(k, SHOWN)
        right = {name: matches.hits[:, :k].sum(1, dtype=np.int64) for name, matches in models.items()}
        table = np.stack(list(right.values()))
        if len(table) == 1:
            tiers, rows = table[0], from_worst_to_best(table[0], documents.texts, n)
        else:
            tiers, rare = _spread(table), _spread(np.stack([_rare_hits(matches, k) for matches in models.values()]))
            rows = differing(tiers * (k + 1) + rare, documents.texts, n)
        chosen = Counter(tiers[rows].tolist())
        whole = sorted(Counter(tiers.tolist()).items(), reverse=len(table) > 1)
        steps = tuple((step, count, chosen[step]) for step, count in whole)
        return cls(k, len(documents), tuple(_example(models, documents, row, k) for row in rows), right, steps)


def differing(keys: Ints, texts: Texts, n: int) -> list[int]:
    """Rows of the `n` largest keys, no text twice; where not all of one key fit, rows lie evenly over the file."""
    chosen: list[int] = []
    seen: set[str] = set()
    for key in np.unique(keys)[::-1].tolist():
        chosen += _evenly(np.flatnonzero(keys == key), texts, n - len(chosen), seen)
        if len(chosen) == n:
            break
    return chosen


def from_worst_to_best(right: Ints, texts: Texts, n: int) -> list[int]:
    """`n` rows evenly along the order by right answers, no text twice: each represents equally many documents."""
    return _evenly(np.argsort(right, kind="stable"), texts, n, set())


def _evenly(rows: Ints, texts: Texts, n: int, seen: set[str]) -> list[int]:
    """Up to `n` of the rows: the middle of each of `n` stretches, or the next one whose text is new."""
    chosen: list[int] = []
    edges = [len(rows) * i // n for i in range(n + 1)] if n else []
    for start, stop in pairwise(edges):
        middle = (start + stop) // 2
        for place in chain(range(middle, stop), range(start, middle)):
            row = int(rows[place])
            text = texts[row]
            if text not in seen or not text:  # texts that came without words are all alike
                seen.add(text)
                chosen.append(row)
                break
    return chosen


def _spread(table: Ints) -> Ints:
    """Largest minus smallest of each column."""
    return table.max(0) - table.min(0)


def _rare_hits(matches: Matches, k: int) -> Ints:
    top, hits = matches.top[:, :k], matches.hits[:, :k]
    return (hits & (matches.counts[np.maximum(top, 0)] <= RARE)).sum(1, dtype=np.int64)


def _example(models: Mapping[str, Matches], documents: Dataset, row: int, k: int) -> Example:
    answers = {name: tuple(_answers(matches, documents.labels, row, k)) for name, matches in models.items()}
    given = [_ids(matches, matches.top[row, :k]) for matches in models.values()]
    start, stop = documents.Y.indptr[row : row + 2]
    columns = documents.Y.indices[start:stop][documents.Y.data[start:stop] > 0]
    true = tuple(
        Truth(
            documents.labels.names[column],
            _count(models.values(), documents.labels.ids[column]),
            sum(documents.labels.ids[column] in ids for ids in given),
        )
        for column in np.sort(columns).tolist()
    )
    short, left_out = excerpt(documents.texts[row], LONG)
    name = documents.ids[row] if documents.ids is not None else ""
    return Example(row, name, short, left_out, true, answers)


def documents_of(dataset: Dataset) -> Dataset:
    """The rows that are evaluated."""
    return dataset if dataset.documents.all() else dataset.take(np.flatnonzero(dataset.documents))


def excerpt(text: str, most: int) -> tuple[str, int]:
    """The beginning of a text in one line, up to a space, and how many characters are left out."""
    text = " ".join(text.split())
    short = text if len(text) <= most else text[:most].rsplit(" ", 1)[0]
    return short, len(text) - len(short)


def _answers(matches: Matches, known: LabelSet, row: int, k: int) -> Iterable[Answer]:
    for column, right in zip(matches.top[row, :k].tolist(), matches.hits[row, :k].tolist(), strict=True):
        if column >= 0:
            yield Answer(name_of(matches, known, column), right, int(matches.counts[column]))


def name_of(matches: Matches, known: LabelSet, column: int) -> str:
    """The name of a label; of a model that was trained without names, that in the data."""
    name, label = matches.labels.names[column], matches.labels.ids[column]
    return known.names[known.columns[label]] if name == label and label in known.columns else name


def _ids(matches: Matches, columns: NDArray[np.int32]) -> set[str]:
    return {matches.labels.ids[column] for column in columns.tolist() if column >= 0}


def _count(models: Iterable[Matches], label: str) -> int | None:
    """Training texts of a label, by the first model that knows it."""
    for matches in models:
        column = matches.labels.columns.get(label)
        if column is not None and column < matches.n_known:
            return int(matches.counts[column])
    return None


def most_right(right: Mapping[str, Ints]) -> dict[str, tuple[int, int]]:
    """Model -> documents in which no other model has as many right labels, and in which none has more."""
    table = np.stack(list(right.values()))
    best = table == table.max(0)
    alone = best & (best.sum(0) == 1)
    return {name: (int(alone[i].sum()), int(best[i].sum())) for i, name in enumerate(right)}
