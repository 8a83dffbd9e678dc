"""Neighbour sampling over the training graph of documents and labels (GraphSAGE): some documents of each label."""

from __future__ import annotations

import zlib

import numpy as np

from treetop.network.samplers.pools import PoolTargets, stretch, transposed
from treetop.train.batches import Rows


class Neighbours:
    """At most `fan_out` documents of a label: all of them, or drawn with replacement where it has more."""

    def __init__(self, known: PoolTargets, fan_out: int, seed: int) -> None:
        self.indptr, self.documents = transposed(known)
        self.fan_out, self.seed = fan_out, seed

    def draw(self, labels: Rows, barred: Rows, rows: Rows) -> tuple[Rows, Rows]:
        """(place of the label in `labels`, document) of every neighbour, without documents that are barred.

        What is drawn is a function of the seed and of the `rows` read together, so that reading them twice is the same.
        """
        rng = np.random.default_rng([self.seed, 5, zlib.crc32(np.ascontiguousarray(rows))])
        counts = self.indptr[labels + 1] - self.indptr[labels]
        few, many = np.flatnonzero(counts <= self.fan_out), np.flatnonzero(counts > self.fan_out)
        owner, place = stretch(self.indptr, labels[few])
        drawn = (rng.random((len(many), self.fan_out)) * counts[many][:, None]).astype(np.int64)
        drawn += self.indptr[labels[many]][:, None]
        owners = np.concatenate([few[owner], np.repeat(many, self.fan_out)])
        found = self.documents[np.concatenate([place, drawn.ravel()])]
        kept = ~np.isin(found, barred)
        order = np.argsort(owners[kept], kind="stable")
        return owners[kept][order], found[kept][order]
