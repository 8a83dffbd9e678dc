"""Children of the nodes kept on the level above."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import HasParents
from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import distinct
from treetop.core.store import Part
from treetop.core.types import Candidates, LabelTree, Ranking, View


class Descend(HasParents):
    """From a ranking of parents to their children; without a level above, the children of the root."""

    kind: ClassVar[str] = "shortlist.descend.1"

    def __init__(self, indptr: Ints, children: NDArray[np.int32]) -> None:
        self.indptr, self.children = indptr, children  # children of each parent, ascending
        self.n, self.n_parents = len(children), len(indptr) - 1

    @classmethod
    def of(cls, tree: LabelTree, level: int) -> Descend:
        """The step into `level` of a tree."""
        return cls(*tree.children(level))

    def candidates(self, view: View, above: Ranking | None) -> Candidates:
        n = view.shape[0]
        if above is None:
            if self.n_parents == 1:
                return Candidates.all(n, self.n)
            raise ModelError(f"{self.kind}: {self.n_parents} parents but no ranking of them above.")
        if len(above.ids) and int(above.ids.max()) >= self.n_parents:
            raise ModelError(f"{self.kind}: the level above ranks more than {self.n_parents} nodes.")
        counts = np.diff(self.indptr)[above.ids]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        first = np.repeat(self.indptr[above.ids] - ends[:-1], counts)
        return Candidates(
            n,
            self.n,
            indptr=ends[above.indptr],
            ids=self.children[first + np.arange(ends[-1])],
            parent_own=np.repeat(above.own, counts),
            parent_score=np.repeat(above.score, counts),
        )

    def to_part(self) -> Part:
        return Part(self.kind, {}, {"indptr": self.indptr, "children": self.children})

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n = len(part.array("children", "<i4", None))
        children = distinct(part, "children", n, n)
        return cls(part.pointers("indptr", len(part.array("indptr", "<i8", None)), n), children)
