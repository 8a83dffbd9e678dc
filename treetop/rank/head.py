"""Inner product of a dense view (through an optional bottleneck) with one vector per label, plus a bias.

Scores candidates at a cost proportional to their number, or all labels in blocks. A label that was never seen in
training has a bias of -inf and is not returned. How such vectors are learned: `network/vectors/`.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import (
    Gradient,
    HasFastForm,
    HasGradient,
    HasLabelVectors,
    HasParents,
    RanksOnDevice,
    StandsForAll,
)
from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import floats
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Join, Ranking, Shortlist, View, check_view
from treetop.kernels.runtime import threads
from treetop.kernels.search.codes import Codes, code_dots
from treetop.kernels.search.dense_dots import FEW as FEW_ROWS
from treetop.kernels.search.dense_dots import dots, gathered_dots
from treetop.kernels.search.topk import best_of, kth_of_rows, largest, rows_above

if TYPE_CHECKING:
    from treetop.tensors.label_table import LabelTable

DOCUMENTS = 256  # per block of work
LABELS = 1 << 15  # labels per block of margins
SHARE = 1 << 15  # labels per thread if there is only one block of documents: fewer cost more to start than to score
FEW = 128  # up to this k, a heap finds the top k faster than sorting
SLACK = 4  # times the labels asked for: more of a block above the bar, and the bar is raised
CODED = 1 << 16  # labels from which the fast form keeps int8 codes
SPARE = 4  # times the labels asked for that codes find in each block of labels
LOWEST = np.finfo(np.float32).min
# Above these margins a float32 score saturates, so ties there are broken by id.
FLAT = {"noop": np.inf, "sigmoid": 15.0, "log_sigmoid": 80.0}


class Head(RanksOnDevice, HasFastForm, HasGradient, HasLabelVectors):
    """(n, width) label vectors; `squeeze` maps a view of `view_width` to `width` first."""

    kind: ClassVar[str] = "rank.head.1"
    block: ClassVar[int] = LABELS
    share: ClassVar[int] = SHARE

    def __init__(
        self, weight: Floats, bias: Floats, *, squeeze: Floats | None = None, squeeze_bias: Floats | None = None
    ) -> None:
        self.weight, self.bias = weight, bias
        self.squeeze, self.squeeze_bias = squeeze, squeeze_bias
        self.n: int = len(weight)
        self.table: LabelTable | None = None  # the same vectors on a device, after `to`
        self.codes: Codes | None = None  # the same vectors as int8, after `fast`

    @property
    def view_width(self) -> int:
        """Columns of the view it reads."""
        first = self.weight if self.squeeze is None else self.squeeze
        return int(first.shape[1])

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        check_view(self.kind, view, self.view_width, dense=True)
        keep = min(keep, self.n)
        if self.table is not None and candidates.ids is None:
            return self.table.rank(view, join, keep)

        def block(start: int, stop: int) -> Ranking:
            h = self.squeezed(np.asarray(view[start:stop], np.float32))
            if candidates.ids is None:
                return self._all(h, join, keep, alone=len(view) <= DOCUMENTS)
            return self._gathered(h, candidates, start, join, keep)

        return Ranking.concat(threads.run(block, threads.blocks(len(view), DOCUMENTS)))

    def to(self, device: Any) -> Self:
        moved = copy.copy(self)
        moved.table = None if device.type == "cpu" else self.table_on(device)
        return moved

    def fast(self) -> Self:
        """With int8 codes of its vectors: they choose the candidates of a text by itself, whose scores stay exact."""
        if self.n < CODED:
            return self
        quick = copy.copy(self)
        quick.codes = Codes.of(self.weight)
        return quick

    def table_on(self, device: Any) -> LabelTable:
        """Its label vectors on a device, in the order of labels."""
        from treetop.tensors.label_table import LabelTable

        return LabelTable.on(device, self.weight, self.bias, self.squeeze, self.squeeze_bias)

    def on_device(
        self, view: View, shortlist: Shortlist, above: Ranking | None, join: Join, keep: int
    ) -> Ranking | None:
        """See `RanksOnDevice`; a shortlist that only saves work is left out."""
        if self.table is None:
            return None
        if isinstance(shortlist, StandsForAll):
            return self.rank(view, Candidates.all(view.shape[0], self.n), join, keep)
        if above is None or not isinstance(shortlist, HasParents):
            return None
        from treetop.tensors.label_table import Nodes

        check_view(self.kind, view, self.view_width, dense=True)
        if int(above.ids.max(initial=0)) >= shortlist.n_parents:
            raise ModelError(f"{self.kind}: the level above ranks more than {shortlist.n_parents} nodes.")
        return self.table.rank(view, join, keep, Nodes(above, shortlist.indptr, shortlist.children))

    def squeezed(self, h: Floats) -> Floats:
        """A view after the bottleneck."""
        if self.squeeze is None:
            return h
        projected: Floats = h @ self.squeeze.T
        return projected if self.squeeze_bias is None else projected + self.squeeze_bias

    def _all(self, h: Floats, join: Join, keep: int, *, alone: bool) -> Ranking:
        """Select by margin first (scores grow with it), with slack for tied scores."""
        if self.codes is not None and len(h) <= FEW_ROWS and keep <= FEW:
            return Ranking.concat([self._by_codes(row, join, keep, self.codes) for row in h])
        edge = np.full(len(h), LOWEST, np.float32)  # what the best `keep` of the blocks so far have at least

        def part(start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any], Floats]:
            margins, bias = dots(self.weight[start:stop], h), self.bias[start:stop]
            if edge[0] > LOWEST:
                rows, columns, margin = rows_above(margins, bias, _floor(edge, join), room := SLACK * keep * len(h))
                if len(rows) <= room:
                    return rows, columns + start, margin
            margins += bias
            reached = np.maximum(edge, _kth(margins, keep))
            if not alone:
                edge[:] = reached
            above = np.flatnonzero(margins >= _floor(reached, join)[:, None])
            rows, columns = np.divmod(above, stop - start)
            return rows, columns + start, margins.ravel()[above]

        if alone:  # the threads share the labels instead of the documents
            parts = threads.run(part, threads.blocks(self.n, self.share))
        else:
            parts = [part(start, stop) for start, stop in threads.blocks(self.n, self.block)]
        rows, ids, margin = parts[0]
        if len(parts) > 1:
            rows, ids, margin = (np.concatenate([part[i] for part in parts]) for i in range(3))
            order = np.argsort(rows, kind="stable")
            rows, ids, margin = rows[order], ids[order], margin[order]
        own, indptr = join.own(margin), np.searchsorted(rows, np.arange(len(h) + 1))
        if keep <= FEW:
            return Ranking(*best_of(indptr, ids, own, own, keep))
        return Ranking.sorted(indptr, ids, own).top(keep)

    def _by_codes(self, row: Floats, join: Join, keep: int, codes: Codes) -> Ranking:
        """The best labels of one text among those that codes put on top of each block of labels."""

        def part(start: int, stop: int) -> NDArray[np.int64]:
            margins = code_dots(codes, start, stop, row, self.bias)
            kth = _kth(margins[None], min(SPARE * keep, FEW))[0]
            return np.flatnonzero(margins >= kth) + start

        ids = np.concatenate(threads.run(part, threads.blocks(self.n, self.share)))
        own = join.own(Head.margins(self, row[None], np.array([0, len(ids)]), ids))
        return Ranking(*best_of(np.array([0, len(ids)]), ids, own, own, keep))

    def _gathered(self, h: Floats, candidates: Candidates, start: int, join: Join, keep: int) -> Ranking:
        if candidates.indptr is None or candidates.ids is None:
            raise ModelError(f"{self.kind}: candidates without row pointers.")
        ends = candidates.indptr[start : start + len(h) + 1]
        ids = candidates.ids[ends[0] : ends[-1]]
        margin = self.margins(h, ends, ids)
        own = join.own(margin)
        parents = {
            name: None if value is None else value[ends[0] : ends[-1]]
            for name, value in (("parent_own", candidates.parent_own), ("parent_score", candidates.parent_score))
        }
        score = join.score(own, Candidates(len(h), self.n, None, ids, **parents))
        kept = margin > -np.inf
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[ends - ends[0]]
        longest = int(np.diff(indptr).max(initial=0))
        return Ranking(*best_of(indptr, ids[kept], score[kept], own[kept], min(keep, longest)))

    def margins(self, h: Floats, ends: Ints, ids: NDArray[np.integer]) -> Floats:
        """Margins of each row of `h` with its candidates; row i has `ids[ends[i]:ends[i + 1]]`."""
        margins_ = np.empty(len(ids), np.float32)
        gathered_dots(self.weight, h, ends, ids, margins_)
        margins_ += self.bias[ids]
        return margins_

    def row(self, node: int) -> int:
        """Where the vector of a node stands."""
        return node

    def gradient(self, view: View, node: int) -> Gradient:
        check_view(self.kind, view, self.view_width, dense=True)
        weights, bias = self.vector(node), float(self.bias[self.row(node)])
        if self.squeeze is None:
            return Gradient(weights, bias)
        offset = 0.0 if self.squeeze_bias is None else float(self.squeeze_bias @ weights)
        return Gradient(weights @ self.squeeze, bias + offset)

    def vector(self, node: int) -> Floats:
        found: Floats = self.weight[self.row(node)]
        return found

    def similar(self, vector: Floats, keep: int) -> tuple[Ints, Floats]:
        length = self._lengths * np.float32(np.linalg.norm(vector))
        cosine = np.empty(self.n, np.float32)
        for start, stop in threads.blocks(self.n, self.block):
            cosine[start:stop] = dots(self.weight[start:stop], np.asarray(vector, np.float32)[None])[0]
        cosine = np.where((length > 0) & (self.bias > -np.inf), cosine / np.maximum(length, 1e-37), -1)
        best = largest(cosine, np.arange(self.n), keep)
        return best, cosine[best].astype(np.float32)

    @cached_property
    def _lengths(self) -> Floats:
        """(n,) of the vectors."""
        parts = [np.linalg.norm(self.weight[a:b], axis=1) for a, b in threads.blocks(self.n, self.block)]
        return np.concatenate(parts).astype(np.float32)

    def to_part(self) -> Part:
        arrays = {"weight": self.weight, "bias": self.bias}
        if self.squeeze is not None:
            arrays["squeeze"] = self.squeeze
        if self.squeeze_bias is not None:
            arrays["squeeze_bias"] = self.squeeze_bias
        return Part(self.kind, {"n": self.n}, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Head:
        n = part.setting("n", int)
        weight = floats(part, "weight", n, None)
        squeeze = floats(part, "squeeze", weight.shape[1], None) if "squeeze" in part.arrays else None
        offset = floats(part, "squeeze_bias", weight.shape[1]) if "squeeze_bias" in part.arrays else None
        return cls(weight, floats(part, "bias", n), squeeze=squeeze, squeeze_bias=offset)


def _kth(margins: Floats, keep: int) -> Floats:
    """Per row the `keep`-th largest margin; the lowest number where there are not more."""
    if margins.shape[1] <= keep:
        return np.full(len(margins), LOWEST, np.float32)
    kth: Floats = kth_of_rows(margins, keep) if keep <= FEW else np.partition(margins, -keep, axis=1)[:, -keep]
    return np.maximum(kth, LOWEST)


@np.errstate(over="ignore")  # below the lowest number
def _floor(edge: Floats, join: Join) -> Floats:
    """Per row a margin below which no score is among the best by (score, id), if `edge` is; never -inf."""
    lowest = np.full(len(edge), LOWEST, np.float32)
    bound = np.minimum(edge, np.float32(FLAT.get(join.transform, 1.0)))
    if join.transform != "noop":
        bound = bound - np.float32(1e-3) * (np.float32(1.0) + np.abs(bound))
        if not join.adds:
            bound = np.where(join.own(edge) == 0, lowest, bound)  # so small that everything below ties with it
    return np.maximum(bound, lowest)
