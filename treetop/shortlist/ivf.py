"""Inverted lists (IVF): the labels of the clusters of label vectors that are nearest to a text's vector.

Clusters are balanced, so all lists have about the same length and the cost per text is known: all centres, then
`probe` lists. Only data are stored: centres, and the labels of each list.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import StandsForAll
from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import distinct, floats, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Ranking, View, check_view
from treetop.kernels.cluster.halving import SMALL_GAIN, Options, balanced_leaves
from treetop.kernels.runtime import threads
from treetop.kernels.search.dense_dots import dots

LIST = 256  # target number of labels per list
DOCUMENTS = 256  # per block of work


class Ivf(StandsForAll):
    """The labels of the `probe` lists whose centres (with their mean bias) score highest for a text's vector."""

    kind: ClassVar[str] = "shortlist.ann.1"

    def __init__(self, centres: Floats, offset: Floats, indptr: Ints, members: NDArray[np.int32], probe: int) -> None:
        self.centres, self.offset, self.indptr, self.members, self.probe = centres, offset, indptr, members, probe
        self.n = len(members)

    @classmethod
    def of(cls, vectors: Floats, bias: Floats, *, probe: int, size: int = LIST, seed: int = 0) -> Ivf:
        """Lists of about `size` of these label vectors; `bias` is added to a label's inner product."""
        depth = max(0, int(np.log2(max(1.0, len(vectors) / size))))
        leaf = balanced_leaves(vectors, depth, seed=seed, options=Options(rule=SMALL_GAIN))
        counts = np.bincount(leaf, minlength=1 << depth)
        members = np.argsort(leaf, kind="stable").astype(np.int32)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        # Plain means, not normalised: the expected score of a label in the list.
        centres = np.add.reduceat(vectors[members], indptr[:-1], axis=0) / counts[:, None]
        offset = np.add.reduceat(bias[members].astype(np.float64), indptr[:-1]) / counts
        return cls(centres.astype(np.float32), offset.astype(np.float32), indptr, members, probe)

    def candidates(self, view: View, above: Ranking | None) -> Candidates:
        check_view(self.kind, view, self.centres.shape[1], dense=True)
        probe = min(self.probe, len(self.centres))

        def block(start: int, stop: int) -> NDArray[np.int64]:
            products = dots(self.centres, np.asarray(view[start:stop], np.float32)) + self.offset
            return np.sort(np.argpartition(-products, probe - 1, axis=1)[:, :probe], axis=1)

        blocks_ = threads.run(block, threads.blocks(view.shape[0], DOCUMENTS))
        lists = np.concatenate(blocks_) if blocks_ else np.zeros((0, probe), np.int64)
        counts = np.diff(self.indptr)[lists]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.ravel())])
        first = np.repeat(self.indptr[lists.ravel()] - ends[:-1], counts.ravel())
        ids = self.members[first + np.arange(ends[-1])]
        return Candidates(view.shape[0], self.n, indptr=ends[::probe].copy(), ids=ids)

    def to_part(self) -> Part:
        names = ("centres", "offset", "indptr", "members")
        return Part(self.kind, {"probe": self.probe}, {name: getattr(self, name) for name in names})

    @classmethod
    def from_part(cls, part: Part) -> Any:
        probe, n = whole(part, "probe", 1), len(part.array("members", "<i4", None))
        centres = floats(part, "centres", None, None)
        if len(centres) < 1:
            raise ModelError(f"{part.kind}: it has no lists. The model is damaged; copy it again.")
        members = distinct(part, "members", n, n)
        offset = floats(part, "offset", len(centres))
        return cls(centres, offset, part.pointers("indptr", len(centres) + 1, n), members, probe)
