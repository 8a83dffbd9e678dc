"""HNSW: the labels whose vectors are nearest to a text's, found in a graph of near vectors (by faiss).

For the same recall, far fewer vectors are compared than with inverted lists. Only data are stored: links, levels and
vectors in half precision, all checked before the library gets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import StandsForAll
from treetop.core.errors import ModelError, extra
from treetop.core.part_checks import number, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Ranking, View, check_view
from treetop.kernels.runtime import threads

LINKS, CARE = 32, 100  # links per vector (M), and efConstruction
FIELDS = ("levels", "offsets", "neighbors")  # as the library calls them


@dataclass(frozen=True, eq=False)
class Links:
    """A graph as data: vector i has levels[i] levels, its links start at offsets[i]; -1: no link."""

    levels: NDArray[np.int32]
    offsets: NDArray[np.int64]
    neighbors: NDArray[np.int32]
    codes: NDArray[np.uint8]  # (vectors, 2 * width) in half precision
    entry: int

    def check(self, links: int) -> None:
        """Refuse links that lead nowhere: the library would follow them."""
        n = len(self.levels)
        sizes = links * (self.levels.astype(np.int64) + 1)  # twice as many on the ground
        sound = n > 0 and 0 <= self.entry < n and int(self.levels.min()) > 0
        sound = sound and np.array_equal(np.diff(self.offsets), sizes) and int(self.offsets[0]) == 0
        sound = sound and int(self.offsets[-1]) == len(self.neighbors) and self.levels[self.entry] == self.levels.max()
        if sound and len(self.neighbors):
            sound = int(self.neighbors.min()) >= -1 and int(self.neighbors.max()) < n
        if sound:
            owner = np.flatnonzero(self.levels > 1)
            for level in range(1, int(self.levels.max())):
                owner = owner[self.levels[owner] > level]
                first = self.offsets[owner] + links * (level + 1)
                found = self.neighbors[first[:, None] + np.arange(links)]
                sound = sound and bool((self.levels[found[found >= 0]] > level).all())
        if not sound:
            raise ModelError("shortlist.graph.1: links point outside the graph. The model is damaged; copy it again.")


class Hnsw(StandsForAll):
    """The `keep` labels found nearest; `effort` is HNSW's efSearch."""

    kind: ClassVar[str] = "shortlist.graph.1"

    def __init__(self, links: Links, *, keep: int, effort: int, weight: float = 1.0) -> None:
        self.links, self.keep, self.effort = links, keep, effort
        self.weight = weight  # weight of the bias column in a query
        self.n, self.width = len(links.levels), links.codes.shape[1] // 2

    @classmethod
    def of(cls, vectors: Floats, bias: Floats, *, keep: int = 100, effort: int = 256) -> Hnsw:
        """A graph of these label vectors; a label's bias is one more column."""
        faiss = extra("faiss", "ann")
        column, weight = _beside(vectors, bias)
        joined = np.ascontiguousarray(np.hstack([vectors, column[:, None]]), np.float32)
        index = _empty(faiss, joined.shape[1])
        index.hnsw.efConstruction = CARE
        faiss.omp_set_num_threads(threads.count())
        index.train(joined)
        index.add(joined)
        arrays = {name: faiss.vector_to_array(getattr(index.hnsw, name)) for name in FIELDS}
        codes = faiss.vector_to_array(faiss.downcast_index(index.storage).codes).reshape(len(joined), -1)
        offsets = arrays["offsets"].astype(np.int64)
        links = Links(arrays["levels"], offsets, arrays["neighbors"], codes, int(index.hnsw.entry_point))
        return cls(links, keep=keep, effort=effort, weight=weight)

    @cached_property
    def _index(self) -> Any:
        faiss, links = extra("faiss", "ann"), self.links
        index = _empty(faiss, self.width)
        storage = faiss.downcast_index(index.storage)
        for name, array in zip(FIELDS, (links.levels, links.offsets.astype(np.uint64), links.neighbors), strict=True):
            faiss.copy_array_to_vector(np.array(array), getattr(index.hnsw, name))
        faiss.copy_array_to_vector(np.array(links.codes).ravel(), storage.codes)
        storage.ntotal = index.ntotal = self.n
        storage.is_trained = index.is_trained = True
        index.hnsw.entry_point, index.hnsw.max_level = links.entry, int(links.levels.max()) - 1
        return index

    def candidates(self, view: View, above: Ranking | None) -> Candidates:
        check_view(self.kind, view, self.width - 1, dense=True)
        faiss, index = extra("faiss", "ann"), self._index
        keep = min(self.keep, self.n)
        index.hnsw.efSearch = max(min(self.effort, self.n), keep)
        faiss.omp_set_num_threads(threads.count())
        queries = np.hstack([np.asarray(view, np.float32), np.full((len(view), 1), self.weight, np.float32)])
        nearest = index.search(np.ascontiguousarray(queries), keep)[1] if len(view) else np.zeros((0, keep), np.int64)
        there = nearest >= 0
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(there.sum(1))])
        return Candidates(len(view), self.n, indptr=indptr, ids=nearest[there].astype(np.int32))

    def to_part(self) -> Part:
        links = self.links
        config = {"keep": self.keep, "effort": self.effort, "entry": links.entry, "weight": self.weight}
        arrays: dict[str, NDArray[Any]] = {
            "levels": links.levels,
            "offsets": links.offsets,
            "neighbors": links.neighbors,
            "codes": links.codes,
        }
        return Part(self.kind, config, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Any:
        keep, effort, entry = whole(part, "keep", 1), whole(part, "effort", 1), part.setting("entry", int)
        weight = number(part, "weight", 0.0) if "weight" in part.config else 1.0  # models before it was kept
        levels = part.array("levels", "<i4", None)
        codes = part.array("codes", "|u1", len(levels), None)
        if codes.shape[1] < 2 or codes.shape[1] % 2:
            raise ModelError(f"{part.kind}: vectors of {codes.shape[1]} bytes. The model is damaged; copy it again.")
        offsets = part.array("offsets", "<i8", len(levels) + 1)
        links = Links(levels, offsets, part.array("neighbors", "<i4", None), codes, entry)
        links.check(LINKS)
        return cls(links, keep=keep, effort=effort, weight=weight)


def _beside(vectors: Floats, bias: Floats) -> tuple[Floats, float]:
    """(the column of biases, its weight in a query).

    Links join vectors with large products. Biases as they are would rule these: every link would lead to the labels
    with the lowest. So they are centred, which changes no order, and made no larger than the other columns.
    """
    finite = bias[np.isfinite(bias)]
    if len(finite) == 0:
        return bias, 1.0
    size = float(np.sqrt(np.mean(np.square(vectors), dtype=np.float64))) or 1.0
    weight = max(1.0, float(finite.std(dtype=np.float64)) / size)
    return (bias - finite.mean()) / np.float32(weight), weight


def _empty(faiss: Any, width: int) -> Any:
    return faiss.IndexHNSWSQ(width, faiss.ScalarQuantizer.QT_fp16, LINKS, faiss.METRIC_INNER_PRODUCT)
