"""Feedback as training rows: what people said of each text in the end, laid over the rows there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from treetop.core.dataset import DOCUMENT, Dataset
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.serve.feedback.store import Entry


@dataclass
class Opinion:
    """What is right and wrong for one text; of two verdicts on one label the later counts."""

    right: dict[str, None] = field(default_factory=dict)
    wrong: dict[str, None] = field(default_factory=dict)
    whole: bool = False  # `right` are all labels of the text

    def add(self, entry: Entry) -> None:
        """Take one entry into account."""
        if entry.verdict == "set":
            self.right, self.wrong, self.whole = dict.fromkeys(entry.labels), {}, True
            return
        here, there = (self.wrong, self.right) if entry.verdict == "reject" else (self.right, self.wrong)
        here.update(dict.fromkeys(entry.labels))
        for label in entry.labels:
            there.pop(label, None)


@dataclass
class Effect:
    """What feedback did to the data."""

    entries: int = 0
    texts: int = 0
    new_rows: int = 0
    changed_rows: int = 0
    added: int = 0  # labels in changed rows
    removed: int = 0
    unknown: int = 0  # labels that the data do not have
    nothing_right: int = 0  # new texts of which nothing but rejections is known
    held_out: int = 0  # texts that are held out, and so not trained on

    def __str__(self) -> str:
        parts = [
            f"{self.entries:,} entries on {self.texts:,} texts", f"{self.new_rows:,} new rows",
            f"{self.changed_rows:,} rows changed ({self.added:,} labels added, {self.removed:,} removed)",
        ]  # fmt: skip
        for count, what in (
            (self.unknown, "labels left out that the data do not have"),
            (self.nothing_right, "new texts left out of which no label is right"),
            (self.held_out, "held-out texts left out"),
        ):
            parts += [f"{count:,} {what}"] if count else []
        return f"feedback: {'; '.join(parts)}"


def with_feedback(dataset: Dataset, entries: Sequence[Entry], held_out: Iterable[str] = ()) -> tuple[Dataset, Effect]:
    """The data with feedback: rows of known texts changed, new texts with right labels added; and what that did.

    Rejected labels are taken out of a text's row. `held_out`: texts that must not be trained on.
    """
    if dataset.features or dataset.relevance is not None:
        raise InputError(
            f"{dataset.name}: brings precomputed features or relevance weights, which feedback has not. Train on texts."
        )
    effect, opinions = Effect(len(entries)), _opinions(entries)
    effect.texts = len(opinions)
    for text in set(held_out) & set(opinions):
        del opinions[text]
        effect.held_out += 1
    rows = _rows(dataset, opinions)
    Y = _changed(dataset, opinions, rows, effect)
    new = {text: opinion for text, opinion in opinions.items() if text not in rows}
    return _extended(dataset, Y, new, effect), effect


def _opinions(entries: Iterable[Entry]) -> dict[str, Opinion]:
    found: dict[str, Opinion] = {}
    for entry in entries:
        found.setdefault(entry.text, Opinion()).add(entry)
    return found


def _rows(dataset: Dataset, opinions: Mapping[str, Opinion]) -> dict[str, list[int]]:
    """Where the texts stand among the documents."""
    found: dict[str, list[int]] = {}
    documents = dataset.documents
    for row, text in enumerate(dataset.texts):
        if text in opinions and documents[row]:
            found.setdefault(text, []).append(row)
    return found


def _columns(dataset: Dataset, labels: Iterable[str], effect: Effect) -> list[int]:
    known = dataset.labels.columns
    columns = [known[label] for label in labels if label in known]
    effect.unknown += sum(label not in known for label in labels)
    return columns


def _changed(
    dataset: Dataset, opinions: Mapping[str, Opinion], rows: Mapping[str, list[int]], effect: Effect
) -> sparse.csr_matrix:
    """The targets, with those of the texts that feedback is about changed."""
    Y = dataset.Y.tolil(copy=True)
    for text, places in rows.items():
        opinion = opinions[text]
        right = dict.fromkeys(_columns(dataset, opinion.right, effect), 1.0)
        wrong = {dataset.labels.columns.get(label) for label in opinion.wrong}
        for row in places:
            before = dict(zip(Y.rows[row], Y.data[row], strict=True))
            kept = {} if opinion.whole else {c: value for c, value in before.items() if c not in wrong}
            after = {**kept, **right}
            effect.added += len(after.keys() - before.keys())
            effect.removed += len(before.keys() - after.keys())
            effect.changed_rows += after.keys() != before.keys()
            Y.rows[row] = sorted(after)
            Y.data[row] = [after[column] for column in Y.rows[row]]
    return Y.tocsr()


def _extended(dataset: Dataset, Y: sparse.csr_matrix, new: Mapping[str, Opinion], effect: Effect) -> Dataset:
    """The data with a row for each new text that has a right label."""
    columns = {text: sorted(_columns(dataset, opinion.right, effect)) for text, opinion in new.items()}
    texts = [text for text, found in columns.items() if found]
    effect.new_rows, effect.nothing_right = len(texts), len(columns) - len(texts)
    indices = np.array([column for text in texts for column in columns[text]], np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(columns[text]) for text in texts], dtype=np.int64)])
    below = sparse.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (len(texts), dataset.n_labels))
    roles, sample, ids = dataset.roles, dataset.sample, dataset.ids
    named = Texts.of([f"feedback-{i}" for i in range(len(texts))])
    return dataclasses.replace(
        dataset,
        texts=Texts.concat([dataset.texts, Texts.of(texts)]),
        Y=sparse.vstack([Y, below], format="csr", dtype=np.float32),
        ids=None if ids is None else Texts.concat([ids, named]),
        roles=None if roles is None else np.concatenate([roles, np.full(len(texts), DOCUMENT, roles.dtype)]),
        sample=None if sample is None else np.concatenate([sample, np.ones(len(texts), bool)]),
    )
