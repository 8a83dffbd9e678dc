"""Where label vectors begin: at what the untrained encoder makes of the label texts.

A label seen three times learns little in a few epochs; its text says what it is from the first step. Biases begin so
that the mean text gets every label's log odds, whatever the vectors. Texts that tell nothing about the documents
(codes, numbers) are found out on a sample and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.neural_targets import node_targets
from treetop.core.dataset import Csr, Dataset
from treetop.core.log import logger
from treetop.core.types import Floats
from treetop.features.learned import Learned
from treetop.kernels import threads
from treetop.labels.text import label_words
from treetop.rank.text_map import unit

Begin = Literal["auto", "text", "zero"]
SAMPLE = 2000  # documents that show where vectors lie
TELLING = 0.6  # share of (true, random) label pairs that texts must order rightly


@dataclass(frozen=True, eq=False)
class Start:
    """Label vectors to begin with, and the mean text vector their biases must make up for; or the biases themselves."""

    vectors: Floats  # (labels, width)
    centre: Floats  # (width,)
    biases: Floats | None = None  # (labels,) of the last level; where given, levels above begin as they would without

    def of_nodes(self, ancestor: NDArray[np.integer], n: int) -> Floats:
        """(n, width) vectors of a level above: the mean direction of the labels below, at the labels' own length."""
        total = np.zeros((n, self.vectors.shape[1]), np.float32)
        np.add.at(total, ancestor, self.vectors)
        made: Floats = unit(total) * np.float32(np.linalg.norm(self.vectors, axis=1).mean())
        return made


def from_texts(
    dataset: Dataset, transformer: Learned[Any], *, begin: Begin, size: float, length: float, seed: int
) -> dict[str, Start]:
    """Per view of the transformer where its levels begin: vectors of the label texts, so long that a text's cosine
    with a label counts `size` times in its margin; a view in which texts tell nothing is left out.

    `length` is what training multiplies the transformer's vectors by.
    """
    if begin == "zero":
        return {}
    documents = np.flatnonzero(dataset.documents)
    rng = np.random.default_rng([seed, 3])
    rows = np.sort(rng.permutation(documents)[:SAMPLE])
    sample, labels = (
        transformer.vectors(transformer.tokenizer.encode(texts))
        for texts in (dataset.texts.take(rows), label_words(dataset.labels))
    )
    made = {}
    for pooling in transformer.poolings:
        name = transformer.view_name(pooling)
        H, T = np.float32(length) * sample[name], np.float32(length) * labels[name]
        centre, V = H.mean(0), unit(T - T.mean(0))
        share = ordered(unit(H - centre), V, dataset.Y[rows], rng)
        if begin == "auto" and share < TELLING:
            logger.info("label texts order %.0f %% of the label pairs rightly: vectors begin at zero", 100 * share)
            continue
        spread = float(np.linalg.norm(H - centre, axis=1).mean()) or 1.0
        made[pooling.name] = Start(np.float32(size / spread) * V, centre)
    return made


def ordered(H: Floats, V: Floats, Y: Csr, rng: np.random.Generator) -> float:
    """How often a true label lies nearer to its text than a random one does (one half: by chance)."""
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    if len(rows) == 0:
        return 0.5
    others = rng.integers(0, len(V), len(rows))

    def nearer(start: int, stop: int) -> float:
        h = H[rows[start:stop]]
        gap = (h * (V[Y.indices[start:stop]] - V[others[start:stop]])).sum(1)
        return float((gap > 0).sum() + 0.5 * (gap == 0).sum())

    return sum(threads.run(nearer, threads.blocks(len(rows), 1 << 14))) / len(rows)


def log_odds(Y: Csr, ancestor: NDArray[np.integer], n: int) -> Floats:
    """(n,) log of the share of rows under each node of a level; a row is as much under it as its best label there."""
    under = node_targets(Y, ancestor, n)
    share = (np.bincount(under.indices, under.data, minlength=n) + 0.5) / (Y.shape[0] + 1.0)
    made: Floats = np.log(share).astype(np.float32)
    return made
