"""Documents that are labels themselves: a page is not its own see-also link, a product not its own related product.

A document is a label where both texts read the same (letter case and white space aside), or both have the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, Ints, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking

LEAST = 20  # self pairs, none of them true, from which it is concluded that none ever is
BLOCK = 1 << 16  # texts that are looked up at a time


@dataclass(frozen=True, eq=False)
class OwnLabels:
    """Finds the labels that are a document, by sorted 64-bit hashes of label texts: 16 bytes a label."""

    labels: LabelSet
    hashes: NDArray[np.uint64]  # ascending
    columns: NDArray[np.int64]  # of the labels with these hashes, ascending where hashes are equal

    @classmethod
    def of(cls, labels: LabelSet) -> OwnLabels:
        """Those of a label set; labels without a text are compared by name."""
        hashes = _hashes(text or name for text, name in zip(labels.texts, labels.names, strict=True))
        order = np.argsort(hashes, kind="stable")
        return cls(labels, hashes[order], order)

    def pairs(self, texts: Texts, ids: Texts | None = None) -> Ints:
        """(n_pairs, 2) distinct rows and columns of documents that are labels, in order."""
        starts = range(0, max(len(texts), 1), BLOCK)
        pairs = np.concatenate([self._same_text(texts[start : start + BLOCK], start) for start in starts])
        if ids is None:
            return pairs
        columns = self.labels.columns
        named = [(row, columns[id_]) for row, id_ in enumerate(ids) if id_ in columns]
        return np.unique(np.concatenate([pairs, np.array(named, np.int64).reshape(-1, 2)]), axis=0)

    def _same_text(self, texts: Texts, start: int) -> Ints:
        """The pairs of consecutive documents, the first of which is row `start`, with labels of the same text."""
        hashes = _hashes(texts)
        first, last = (np.searchsorted(self.hashes, hashes, side) for side in ("left", "right"))
        counts = (last - first) * (hashes != EMPTY)
        rows = np.repeat(np.arange(len(texts)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.column_stack([start + rows, self.columns[first[rows] + within]])


def self_pairs(dataset: Dataset) -> Ints:
    """(n_pairs, 2) rows and columns of a Dataset where a document is a label."""
    pairs = OwnLabels.of(dataset.labels).pairs(dataset.texts, dataset.ids)
    return pairs[dataset.documents[pairs[:, 0]]]


def without_pairs(ranking: Ranking, pairs: Ints | None, k: int) -> Ranking:
    """The best `k` entries of each row of a ranking that are not among the pairs; None: no pairs."""
    if pairs is None:
        return ranking
    rows = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr))
    wide = 1 + max(int(ranking.ids.max(initial=0)), int(pairs[:, 1].max(initial=0)))
    return ranking.where(~np.isin(rows * wide + ranking.ids, pairs[:, 0] * wide + pairs[:, 1])).top(k)


def most_of_a_row(pairs: Ints | None) -> int:
    """The largest number of pairs of one row."""
    return 0 if pairs is None else int(np.bincount(pairs[:, 0]).max(initial=0))


def _hashes(texts: Iterable[str]) -> NDArray[np.uint64]:
    digests = bytearray()
    for text in texts:
        digests += blake2b(" ".join(text.lower().split()).encode(), digest_size=8).digest()
    return np.frombuffer(digests, np.uint64)


EMPTY = _hashes([""])[0]
