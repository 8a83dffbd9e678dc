"""Labels whose forms a text holds, ranked by boosted trees over what is known of each match.

The most frequent labels are candidates of every text: what is seldom named in a text is still often right.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient, HasGradient
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, distinct, floats, whole
from treetop.core.store import Part
from treetop.core.tree_part import read_trees, tree_arrays
from treetop.core.types import Candidates, Floats, Join, Ranking, View, check_view
from treetop.kernels.boosting import Trees, binned, margins
from treetop.kernels.runtime import threads
from treetop.kernels.search.union import best_of_rows
from treetop.kernels.text.matched_labels import WIDTH, Facts, Table, label_rows
from treetop.kernels.text.matching import CHANNELS, FOUND, LONGEST

BLOCK = 256  # texts ranked at a time
SOURCES = 3  # name, alternative name, derived from one of them


class Lexical(HasGradient):
    """Log odds that a label is right, given its matches."""

    kind: ClassVar[str] = "rank.lexical.1"
    reads: ClassVar[str] = "matches"

    def __init__(self, table: Table, facts: Facts, edges: Floats, trees: Trees) -> None:
        self.table, self.facts, self.edges, self.trees = table, facts, edges, trees
        self.n = len(facts.frequency)

    def rows(self, view: View) -> tuple[Any, Any, Floats]:
        """(pointers, labels ascending, what trees look at) for each row of the view."""
        return label_rows(*matches_of(self.kind, view, len(self.table.words)), self.table, self.facts)

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        blocks = threads.blocks(view.shape[0], BLOCK) or [(0, 0)]
        return Ranking.concat([self._rank(view[start:stop], join, keep) for start, stop in blocks])

    def _rank(self, view: View, join: Join, keep: int) -> Ranking:
        indptr, labels, X = self.rows(view)
        own = join.own(margins(binned(X, self.edges), self.trees))
        return Ranking(*best_of_rows(indptr, labels, own, own, keep))

    def gradient(self, view: View, node: int) -> Gradient:
        """What matches add to the log odds without any, divided among the label's forms by how much is found."""
        named = self.table._replace(frequent=np.array([node], np.int32))  # the label, whether it is found or not
        matches = matches_of(self.kind, view, len(self.table.words))
        _, labels, X = label_rows(*matches, named, self.facts)
        at = int(np.searchsorted(labels, node))
        nothing = np.zeros((1, WIDTH), np.float32)
        nothing[0, -5:-3] = X[at, -5:-3]
        margin, base = margins(binned(np.concatenate([X[at : at + 1], nothing]), self.edges), self.trees).tolist()
        _, forms, values = matches
        table = self.table
        own = [i for i, f in enumerate(forms.tolist()) if node in table.labels[table.ends[f] : table.ends[f + 1]]]
        if not own:
            return Gradient(np.zeros(0, np.float32), margin, np.zeros(0, np.int64))
        weights = np.full(len(own), (margin - base) / float(values[own, FOUND].sum()), np.float32)
        return Gradient(weights, base, forms[own].astype(np.int64) * CHANNELS + FOUND)

    def to_part(self) -> Part:
        arrays: dict[str, NDArray[Any]] = {**self.table._asdict(), **self.facts._asdict()}
        config = {"n": self.n, "base": float(self.trees.base)}
        return Part(self.kind, config, arrays | tree_arrays(self.edges, self.trees))

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n = whole(part, "n", 1)
        edges, trees = read_trees(part)
        n_forms = len(part.array("words", "|u1", None))
        labels, relatives = part.indices("labels", "<i4", None, n), part.indices("relatives", "<i4", None, n)
        frequent, source = distinct(part, "frequent", None, n), part.indices("source", "|u1", len(labels), SOURCES)
        table = Table(
            part.pointers("ends", n_forms + 1, len(labels), "<i4"), labels, source,
            part.indices("words", "|u1", n_forms, LONGEST + 1), floats(part, "information", n_forms),
            part.pointers("relative_ends", n + 1, len(relatives), "<i4"), relatives, frequent,
        )  # fmt: skip
        if len(edges) != WIDTH or (np.diff(frequent) < 0).any():
            raise ModelError(f"{part.kind}: its trees or its labels are not in order. {DAMAGED}")
        return cls(table, Facts(floats(part, "frequency", n), floats(part, "precision", n)), edges, Trees(*trees))


def matches_of(kind: str, view: View, n_forms: int) -> tuple[Any, Any, Floats]:
    """(pointers, forms, channels) of a view of matches; any other view is refused."""
    check_view(kind, view, CHANNELS * n_forms, dense=False)
    columns = view.indices.reshape(-1, CHANNELS) if len(view.indices) % CHANNELS == 0 else np.zeros((1, 2))
    if (columns != columns[:, :1] // CHANNELS * CHANNELS + np.arange(columns.shape[1])).any():
        raise ModelError(f"{kind}: reads matches of forms, got another view. {DAMAGED}")
    pointers, values = view.indptr.astype(np.int64), np.ascontiguousarray(view.data, np.float32)
    forms = np.ascontiguousarray(columns[:, 0] // CHANNELS, np.int32)
    return pointers // CHANNELS, forms, values.reshape(-1, CHANNELS)
