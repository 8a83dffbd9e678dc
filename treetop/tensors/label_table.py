"""Label vectors on a device: scores of all labels, or of those below the nodes above, and the best of each text.

Scores are made block by block in float32, never for all texts at a time, and the best are selected where they are;
only ids and scores of the best go to the host. Below a level all labels are scored and those elsewhere are masked: a
GPU multiplies faster than it gathers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from treetop.core.dataset import Ints
from treetop.core.errors import ConfigError
from treetop.core.forecast import size
from treetop.core.types import Floats, Join, Ranking, View
from treetop.kernels.runtime import threads
from treetop.tensors import devices
from treetop.tensors.handover import send
from treetop.tensors.rows import rows_on

SCORES = 1 << 26  # held at a time
ROWS = 64  # texts of a block at least, so that products stay efficient; beyond that labels are cut into blocks
SPARE = 16  # entries selected beyond those asked for, among which ties are found and settled by id
NONE = -torch.inf  # the score of what is not a candidate


class Nodes(NamedTuple):
    """The nodes kept above, whose children are candidates."""

    ranking: Ranking
    indptr: Ints  # (nodes + 1,) where the children of each begin
    children: NDArray[np.int32]  # (labels,)

    def parent_on(self, device: torch.device) -> Tensor:
        """(labels,) the parent of each label."""
        parent = np.empty(len(self.children), np.int64)
        parent[self.children] = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return send(parent, device)


class Top(NamedTuple):
    """(texts, kept) each: combined score, own score, label."""

    score: Tensor
    own: Tensor
    ids: Tensor

    def at(self, place: Tensor) -> Top:
        return Top(*(part.gather(1, place) for part in self))


def own_scores(margin: Tensor, join: Join) -> Tensor:
    """Transformed margins: the torch twin of `Join.own`."""
    name = join.transform.removeprefix("log_")
    if name == "noop":
        return margin
    if name == "sigmoid":
        return F.logsigmoid(margin) if join.adds else torch.sigmoid(margin)
    log = -((1.0 - margin).clamp_min(0.0) ** int(name[-1]))
    return log if join.adds else log.exp()


def keys(score: Tensor, ids: Tensor) -> Tensor:
    """Integers in the order of (score, then lower id), as `key_of` of `kernels/search/topk.py` makes them."""
    bits = (score + 0.0).view(torch.int32).long()  # adding 0 makes -0 a 0
    return (torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits) << 32) | (0xFFFFFFFF - ids.long())


@dataclass(frozen=True, eq=False)
class LabelTable:
    """(n, width) label vectors with biases; -inf: never returned. `squeeze` maps a view to `width` first."""

    weight: Tensor
    bias: Tensor
    squeeze: Tensor | None = None
    squeeze_bias: Tensor | None = None
    gaps: bool = True  # whether some biases are -inf

    @classmethod
    def on(
        cls, device: torch.device, weight: Floats, bias: Floats, squeeze: Floats | None, squeeze_bias: Floats | None
    ) -> LabelTable:
        """A copy of host arrays; refused where the device has no room for them."""
        try:
            table, offset = (torch.from_numpy(np.array(array)).to(device) for array in (weight, bias))
            first, added = (
                None if array is None else torch.from_numpy(np.array(array)).to(device)
                for array in (squeeze, squeeze_bias)
            )
            return cls(table, offset, first, added, gaps=bool(np.isneginf(bias).any()))
        except torch.OutOfMemoryError:
            needed = size(weight.nbytes)
            raise ConfigError(
                f"device: {device} has no room for {needed} of label vectors. Free its memory, or use the CPU."
            ) from None

    @property
    def n(self) -> int:
        return len(self.weight)

    def rank(self, view: View, join: Join, keep: int, above: Nodes | None = None) -> Ranking:
        """The best `keep` labels of each text by score, then id."""
        keep, step = min(keep, self.n), max(ROWS, SCORES // self.n)
        with torch.inference_mode(), devices.full_precision():
            h = rows_on(view, self.weight.device)
            parent = None if above is None else above.parent_on(h.device)
            tops = []
            for a, b in threads.blocks(len(h), step):
                parents = None if above is None or parent is None else Parents.of(above, parent, join, a, b)
                tops.append(self._top(h[a:b], join, keep, parents))
            return _ranking(tops, alike=join.combine == "own" or above is None)

    def _top(self, h: Tensor, join: Join, keep: int, parents: Parents | None) -> Top:
        if self.squeeze is not None:
            h = F.linear(h, self.squeeze, self.squeeze_bias)
        wide = min(self.n, keep + SPARE)
        best = self._select(h, join, wide, parents, exact=False)
        best = best.at(keys(best.score, best.ids).argsort(1, descending=True))
        if wide < self.n:
            tied = (best.score[:, -1] == best.score[:, keep - 1]) & (best.score[:, -1] > NONE)
            if bool(tied.any()):  # more labels may share the last score: select by score and id
                rows = tied.nonzero()[:, 0]
                some = self._select(h[rows], join, wide, None if parents is None else parents.rows(rows), exact=True)
                for part, settled in zip(best, some, strict=True):
                    part[rows] = settled
        return Top(*(part[:, :keep] for part in best))

    def _select(self, h: Tensor, join: Join, keep: int, parents: Parents | None, *, exact: bool) -> Top:
        """The best `keep`, highest first; ties in any order unless `exact`."""
        tops: list[Top] = []
        for a, b in threads.blocks(self.n, max(keep, SCORES // max(1, len(h)))):
            own = own_scores(torch.addmm(self.bias[a:b], h, self.weight[a:b].T), join)
            score = own if parents is None else parents.joined(own, a, b)
            score = score.masked_fill(self.bias[a:b] == NONE, NONE) if self.gaps else score
            ids = torch.arange(a, b, device=h.device).expand(score.shape)
            tops.append(_best(Top(score, own, ids), keep, exact=exact))
        if len(tops) == 1:
            return tops[0]
        return _best(Top(*(torch.cat(parts, 1) for parts in zip(*tops, strict=True))), keep, exact=exact)


class Parents(NamedTuple):
    """(texts, nodes) what the score of a node above adds to its children's; -inf where it was not kept."""

    value: Tensor
    parent: Tensor
    join: Join

    @classmethod
    def of(cls, above: Nodes, parent: Tensor, join: Join, start: int, stop: int) -> Parents:
        """What is known of the nodes above texts start to stop."""
        ends = above.ranking.indptr[start : stop + 1]
        span = slice(ends[0], ends[-1])
        known = {"own": np.zeros(ends[-1] - ends[0], np.float32), "parent": above.ranking.own[span]}
        value = known.get(join.combine, above.ranking.score[span])
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        places = send(np.stack([rows, above.ranking.ids[span].astype(np.int64)]), parent.device)
        table = torch.full((len(ends) - 1, len(above.indptr) - 1), NONE, device=parent.device)
        table[places[0], places[1]] = send(np.array(value, np.float32), parent.device)
        return cls(table, parent, join)

    def rows(self, rows: Tensor) -> Parents:
        return self._replace(value=self.value[rows])

    def joined(self, own: Tensor, a: int, b: int) -> Tensor:
        """Combined scores of labels a to b."""
        parent = self.value[:, self.parent[a:b]]
        if self.join.adds or self.join.combine == "own":  # a kept node adds 0 there
            return own + parent
        return torch.where(parent == NONE, parent, own * parent)


def _best(top: Top, keep: int, *, exact: bool) -> Top:
    order = keys(top.score, top.ids) if exact else top.score
    return top.at(torch.topk(order, min(keep, order.shape[1]), dim=1).indices)


def _ranking(tops: list[Top], *, alike: bool) -> Ranking:
    """What was selected, on the host; `alike`: own and combined scores are the same."""
    if not tops:
        return Ranking.concat([])
    score = torch.cat([top.score for top in tops]).cpu().numpy()
    kept = score > NONE
    ids: NDArray[np.int32] = torch.cat([top.ids for top in tops]).int().cpu().numpy()[kept]
    own = score if alike else torch.cat([top.own for top in tops]).cpu().numpy()
    indptr: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept.sum(1))])
    return Ranking(indptr, ids, score[kept], own[kept])
