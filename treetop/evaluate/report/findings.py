"""What a report says beyond the metrics, as plain data of bounded size whatever the number of labels and documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.types import Level
from treetop.evaluate.confused import Confusion, confused_pairs
from treetop.evaluate.inseparable import inseparable
from treetop.evaluate.match import Matches
from treetop.evaluate.missing import likely_missing, missing_labels
from treetop.evaluate.report.examples import documents_of, excerpt, name_of
from treetop.evaluate.tree_view import Node, TreeView
from treetop.evaluate.trust import Accepted, Reliability, accept_for, acceptance, accepted, reliability
from treetop.evaluate.twins import twins

PRECISIONS = (95, 90, 80, 70, 50)
SURE = 0.9  # probability above which a wrong label is more likely an omission in the data
LONG = 240  # characters of a text
SHOWN = 6  # labels of a group
TRUE = 3  # labels of a document


class Suspect(NamedTuple):
    """A label that a document likely lacks."""

    text: str
    left_out: int
    id: str
    label: str
    probability: float
    true: tuple[str, ...]
    more: int  # true labels not named


class Confused(NamedTuple):
    """`predicted` stood where `true` was missed."""

    predicted: str
    true: str
    documents: int
    of: int  # documents with the label `true`


class Alike(NamedTuple):
    """Labels with nearly the same name, or with nearly the same vectors."""

    labels: tuple[tuple[str, str, int], ...]  # id, name, training documents
    more: int
    same: bool  # the name, but for case, spaces and punctuation
    similarity: float | None = None  # of vectors, where these are what is alike


class Region(NamedTuple):
    """A node of the label tree with names instead of columns."""

    names: tuple[str, ...]
    labels: int
    true: int
    found: int
    children: tuple[Region, ...]
    hidden: int


@dataclass(frozen=True)
class Findings:
    """Probabilities, errors worth a look, and the tree; what a model does not have is empty."""

    labels_per_document: float
    reliability: Reliability | None
    acceptance: tuple[list[float], list[float]]
    accepted: tuple[tuple[int, Accepted | None], ...]  # precision wanted, in percent; of a calibrated model
    half: Accepted | None  # what a threshold of 0.5 does
    sure: int  # wrong labels of a probability of at least `SURE`
    missing: tuple[Suspect, ...]
    confused: tuple[Confused, ...]  # the most frequent pairs
    close: tuple[Confused, ...]  # pairs whose errors come together
    alike: tuple[Alike, ...]
    sizes: tuple[int, ...]  # nodes on the levels of the tree
    regions: tuple[Region, ...]

    @classmethod
    def of(cls, matches: Matches, dataset: Dataset, levels: Sequence[Level] = ()) -> Findings:
        """Of the documents of `dataset`, which were matched; `levels` are those of the model's first member."""
        documents = documents_of(dataset)
        calibrated = matches.probability is not None
        tree = TreeView.of(levels, matches) if levels else None
        frequent, close = (_confused(matches, documents.labels, pairs) for pairs in confused_pairs(matches))
        return cls(
            labels_per_document=len(matches.true) / len(matches),
            reliability=reliability(matches),
            acceptance=acceptance(matches),
            accepted=_accepted(matches) if calibrated else (),
            half=accepted(matches, 0.5) if calibrated else None,
            sure=likely_missing(matches, SURE),
            missing=tuple(_suspects(matches, documents)),
            confused=frequent,
            close=close,
            alike=tuple(_alike(matches, documents.labels, levels)),
            sizes=() if tree is None else tree.sizes,
            regions=() if tree is None else tuple(_region(n, matches, documents.labels) for n in tree.nodes),
        )


def _accepted(matches: Matches) -> tuple[tuple[int, Accepted | None], ...]:
    """One row for each precision, up to the first that all suggestions have."""
    made: list[tuple[int, Accepted | None]] = []
    for precision in PRECISIONS:
        made.append((precision, row := accept_for(matches, precision)))
        if row is not None and row.threshold == 0:
            break
    return tuple(made)


def _suspects(matches: Matches, documents: Dataset) -> list[Suspect]:
    made = []
    for row, column, probability in missing_labels(matches):
        text, left_out = excerpt(documents.texts[row], LONG)
        true = matches.true[matches.true_indptr[row] : matches.true_indptr[row + 1]]
        rare = true[np.argsort(matches.counts[true], kind="stable")]  # what is rare says most about the text
        names = tuple(name_of(matches, documents.labels, c) for c in rare[:TRUE].tolist())
        name, id = name_of(matches, documents.labels, column), documents.ids[row] if documents.ids is not None else ""
        made.append(Suspect(text, left_out, id, name, probability, names, len(true) - len(names)))
    return made


def _confused(matches: Matches, known: LabelSet, pairs: Sequence[Confusion]) -> tuple[Confused, ...]:
    positives = matches.positives
    return tuple(
        Confused(name_of(matches, known, a), name_of(matches, known, b), n, int(positives[b])) for a, b, n in pairs
    )


def _alike(matches: Matches, known: LabelSet, levels: Sequence[Level]) -> list[Alike]:
    """Groups by name, then pairs by vectors that are not among them."""

    def labels(columns: Sequence[int]) -> tuple[tuple[str, str, int], ...]:
        return tuple((matches.labels.ids[c], name_of(matches, known, c), int(matches.counts[c])) for c in columns)

    named = twins(matches)
    made = [Alike(labels(g.columns[:SHOWN]), max(0, len(g.columns) - SHOWN), g.same) for g in named]
    for pair in inseparable(levels, matches):
        if not any({*pair.columns} <= {*group.columns} for group in named):
            made.append(Alike(labels(pair.columns), 0, False, pair.similarity))
    return made


def _region(node: Node, matches: Matches, known: LabelSet) -> Region:
    names = tuple(name_of(matches, known, column) for column in node.frequent)
    children = tuple(_region(child, matches, known) for child in node.children)
    return Region(names, node.labels, node.true, node.found, children, node.hidden)
