"""Initialisation of label vectors, from label texts as the untrained encoder reads them.

A label seen three times learns little in a few epochs; its text is informative from the first step. Biases start so
that the mean text gets every label's log odds, whatever the vectors. Texts that say nothing about the documents (codes,
numbers) are recognised on a sample and left aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from treetop.core.dataset import Csr, Dataset
from treetop.core.log import logger
from treetop.core.types import Floats
from treetop.features.learned import Learned
from treetop.kernels.runtime import threads
from treetop.labels.text import label_words
from treetop.network.head import Head
from treetop.network.inputs import Inputs
from treetop.network.targets import log_odds
from treetop.network.vectors.contract import Free
from treetop.rank.text_map import unit

Init = Literal["auto", "text", "zero"]
SAMPLE = 2000  # documents sampled to estimate the distribution of vectors
INFORMATIVE = 0.6  # share of (true, random) label pairs that texts must order rightly


@dataclass(frozen=True, eq=False)
class Start:
    """Initial label vectors, and the mean text vector that biases compensate for; or the biases themselves."""

    vectors: Floats  # (labels, width)
    centre: Floats  # (width,)
    biases: Floats | None = None  # (labels,)

    def of_nodes(self, ancestor: NDArray[np.integer], n: int) -> Floats:
        """(n, width) vectors of a level above: the mean direction of the labels below, at the labels' own length."""
        total = np.zeros((n, self.vectors.shape[1]), np.float32)
        np.add.at(total, ancestor, self.vectors)
        return unit(total) * np.float32(np.linalg.norm(self.vectors, axis=1).mean())


@torch.no_grad()
def initialise(
    head: Head, start: Start | None, Y: Csr, ancestor: NDArray[np.int64], *, hinge: bool, bias: bool
) -> None:
    """Fill a head's vectors and biases; far from the log odds, the first steps would damage the encoder.

    `ancestor` (labels,) names the node of each label on the head's level; `Y` are the targets of the training rows.
    """
    n, projection, device, vectors = head.plan.n, head.projection, head.device, head.vectors
    if not isinstance(vectors, Free):
        raise TypeError(f"{type(vectors).__name__} cannot be initialised with vectors")
    offset = np.zeros(n, np.float32)
    if bias:
        offset = conditional_bias(np.full(n, -1, np.float32) if hinge else log_odds(Y, ancestor, n), head.kept_share)
    if start is not None:
        V = torch.from_numpy(start.vectors if head.ancestor is None else start.of_nodes(ancestor, n))
        offset = offset - (V @ torch.from_numpy(start.centre)).numpy() if start.biases is None else start.biases
        if projection.layer is not None:  # a rotated copy of the view, as far as the projection has room
            nn.init.orthogonal_(projection.layer.weight)
            nn.init.zeros_(projection.layer.bias)
            V = V @ projection.layer.weight.cpu().T
    elif head.one_pass is not None:
        V = torch.zeros(n, projection.width)
    else:
        V = nn.init.xavier_uniform_(torch.empty(n, projection.width))
    vectors.init(V.to(device), torch.from_numpy(offset).to(device))


def conditional_bias(offset: Floats, share: float) -> Floats:
    """Biases given that a label is a candidate, which makes it more likely; `share` of all labels are candidates."""
    return offset if share >= 1 else np.minimum(offset - np.float32(np.log(share)), np.float32(0.0))


def from_texts(
    dataset: Dataset, transformer: Learned[Any], *, init: Init, scale: float, length: float, seed: int,
    known: Inputs | None = None,
) -> dict[str, Start]:  # fmt: skip
    """Per view of the transformer the initialisation of its heads: the vectors of the label texts.

    They are so long that the cosine of a text with a label is multiplied by `scale` in its logit. A view in which texts
    say nothing is left out. `length` is what training multiplies the transformer's vectors by. `known` has the vectors
    of the documents, where they were computed before.
    """
    if init == "zero":
        return {}
    documents = np.flatnonzero(dataset.documents)
    rng = np.random.default_rng([seed, 3])
    rows = np.sort(rng.permutation(documents)[:SAMPLE])
    labels = transformer.vectors(transformer.tokenizer.encode(label_words(dataset.labels)))
    if known is None:
        sample = transformer.vectors(transformer.tokenizer.encode(dataset.texts.take(rows)))
    else:
        views = known.views(known.load(rows))
        sample = {transformer.view_name(p): views[p.name].detach().float().cpu().numpy() for p in transformer.poolings}
    starts = {}
    for pooling in transformer.poolings:
        name = transformer.view_name(pooling)
        H, T = np.float32(length) * sample[name], np.float32(length) * labels[name]
        centre, V = H.mean(0), unit(T - T.mean(0))
        share = ordered_share(unit(H - centre), V, dataset.Y[rows], rng)
        if init == "auto" and share < INFORMATIVE:
            logger.info(
                "label text ranks only %.0f %% of label pairs correctly: not used to initialise vectors", 100 * share
            )
            continue
        spread = float(np.linalg.norm(H - centre, axis=1).mean()) or 1.0
        starts[pooling.name] = Start(np.float32(scale / spread) * V, centre)
    return starts


def ordered_share(H: Floats, V: Floats, Y: Csr, rng: np.random.Generator) -> float:
    """Fraction of pairs in which the true label is nearer to the text than a random one (one half: chance)."""
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    if len(rows) == 0:
        return 0.5
    others = rng.integers(0, len(V), len(rows))

    def nearer(start: int, stop: int) -> float:
        h = H[rows[start:stop]]
        gap = (h * (V[Y.indices[start:stop]] - V[others[start:stop]])).sum(1)
        return float((gap > 0).sum() + 0.5 * (gap == 0).sum())

    return sum(threads.run(nearer, threads.blocks(len(rows), 1 << 14))) / len(rows)
