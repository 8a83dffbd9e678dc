"""After training: text and label vectors for the search, and the meaning of their inner products."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.assemble.dual.new_labels import with_map
from treetop.assemble.dual.settings import SearchConfig
from treetop.core.dataset import Dataset
from treetop.core.texts import Texts
from treetop.core.types import Floats
from treetop.edit.vectors import FEW
from treetop.features.encoder.tokens import Tokens
from treetop.features.encoder.towers import Tower, Towers
from treetop.features.encoder.transformer import Transformer
from treetop.kernels.runtime import threads
from treetop.labels.text import first_of_text, label_words
from treetop.network.pool import PoolNetwork
from treetop.network.pool_heads import ClassifierConfig, FreeHead
from treetop.rank.dual import Dual
from treetop.rank.text_map import unit
from treetop.tensors import devices
from treetop.tensors.handover import to_array

SAMPLE = 1000  # documents sampled to estimate the distribution of scores
NEAR = 50  # best labels of each that are used
PRIOR = 0.1  # a log unit of frequency between labels of one text, in cosines
FALL = 6.0  # what a label known by its text alone loses at most between its own text and any other


def searched(
    task: PoolNetwork,
    dataset: Dataset,
    transformer: Transformer,
    classifier: ClassifierConfig | None,
    search: SearchConfig,
    device: torch.device,
    seed: int,
) -> tuple[Towers, Dual]:
    """The search vectors of texts and labels with the current weights."""
    transformer.encoder.to(device)  # in float32: label vectors are made once
    transformer.device = device
    towers: list[Tower] = []
    sides: dict[str, Floats] = {}
    bias, prior = np.zeros(task.n_labels, np.float32), twins_prior(dataset)
    dual, free = task.head("dual"), task.head("classifier")
    factor = search.dual_scale or (dual.query_scale if dual is not None else 1.0)
    with devices.one_cpu_thread():
        among = to_array(task.read(task.names, "dual")) if dual is not None and dual.reads_neighbours else None
        shown = _base(transformer, transformer.tokenizer.encode(sampled(dataset, seed)))
        if dual is not None and search.heads != "classifier":
            base = _base(transformer, transformer.tokenizer.encode(label_words(dataset.labels)))
            towers.append(dual.tower(unit=True, factor=factor))
            alone = towers[0].vectors(base)[first_of_text(label_words(dataset.labels))]
            sides["dual"] = alone if among is None else among
        if isinstance(free, FreeHead) and search.heads != "dual":
            tower, sides["classifier"], bias = _classifier_side(free, search, factor)
            towers.append(tower)
        else:
            bias += prior
    bias -= np.float32(search.logit_adjustment) * np.log1p(dataset.label_counts).astype(np.float32)
    features = Towers(transformer.move(torch.device("cpu")), towers)
    rank = Dual(np.hstack(list(sides.values())), bias, widths={name: side.shape[1] for name, side in sides.items()})
    if list(sides) == ["classifier"] and classifier is not None and classifier.log_odds:
        return features, rank
    queries = features.join(shown)
    rank = with_unseen(rank, queries, dataset.label_counts == 0, prior)
    level = mean_log_sum(queries, rank)
    text = (rank.text[0], rank.text[1] - level)
    rank = Dual(rank.weight, rank.bias - np.float32(level), widths=rank.widths, text=text)
    return features, with_map(rank, queries, dataset.label_counts)


def by_head(rank: Dual, features: Towers, dataset: Dataset) -> dict[str, Dual]:
    """The label vectors of each head by itself, as they stand before the heads are joined.

    Labels without training texts have no classifier: they get its lowest bias, and are found by the dual encoder alone.
    """
    factor, unseen = {tower.name: tower.factor for tower in features.towers}, dataset.label_counts == 0
    dual, classifier = rank.part("dual").copy(), rank.part("classifier").copy()
    if rank.text[0] > 0:
        dual[unseen] /= np.float32(rank.text[0])  # joined, they stand in for the classifier too
    bias = rank.bias.copy()
    bias[unseen] = bias[~unseen].min(initial=0.0) - np.float32(FALL)
    prior = np.float32(PRIOR * factor["dual"]) * twins_prior(dataset)
    return {
        "dual": Dual(dual, prior, widths={"dual": dual.shape[1]}),
        "classifier": Dual(classifier, bias, widths={"classifier": classifier.shape[1]}, text=rank.text, new=rank.new),
    }


def sampled(dataset: Dataset, seed: int, most: int = SAMPLE) -> Texts:
    """A few documents."""
    rows = np.random.default_rng([seed, 5]).permutation(np.flatnonzero(dataset.documents))[:most]
    return dataset.texts.take(np.sort(rows))


def with_unseen(rank: Dual, queries: Floats, unseen: NDArray[np.bool_], prior: Floats) -> Dual:
    """The same, with labels without training texts scored by their texts alone.

    Their free vectors have only ever been pushed away. The classifier's score is predicted by a line through its scores
    over the dual encoder's, fitted on the seen labels nearest to some documents.
    """
    if set(rank.widths) != {"dual", "classifier"} or unseen.all() or len(queries) == 0:
        return rank
    text = _plain_line(rank, queries, unseen) if (~unseen).sum() < FEW else _fitted_line(rank, queries, unseen)
    filled = Dual(rank.weight.copy(), rank.bias.copy(), widths=rank.widths, text=text)
    filled.weight[unseen], offset = filled.of_text(rank.part("dual")[unseen])
    filled.bias[unseen] = offset + prior[unseen]
    return filled


def _fitted_line(rank: Dual, queries: Floats, unseen: NDArray[np.bool_]) -> tuple[float, float]:
    """(factor, offset) that predict the sum of both scores from the dual encoder's."""
    x, y = _pairs_of_scores(rank, queries, unseen)
    spread = float(((x - x.mean()) ** 2).mean())
    slope = max(0.0, float(((x - x.mean()) * (y - y.mean())).mean()) / spread) if spread > 0 else 0.0
    return 1.0 + slope, float(y.mean()) - slope * float(x.mean())


def _plain_line(rank: Dual, queries: Floats, unseen: NDArray[np.bool_]) -> tuple[float, float]:
    """The same where labels are too few for a fit, which would be far too steep: the raw cosine.

    A label's own text (cosine 1) gets what the best labels of training texts get; a cosine as that of the other labels
    gets as much as they do, but no less than `FALL` below; and no cosine counts more than in training.
    """
    first = rank.place("dual")
    margins = np.sort(queries @ rank.weight[~unseen].T + rank.bias[~unseen], axis=1)
    cosines = np.sort(unit(queries[:, first]) @ unit(rank.part("dual")[~unseen]).T, axis=1)
    high, one = float(margins[:, -1].mean()), float(np.linalg.norm(queries[:, first], axis=1).mean())
    slope = FALL
    if margins.shape[1] > 1:
        low, there = float(margins[:, :-1].mean()), min(float(cosines[:, :-1].mean()), 0.99)
        slope = float(np.clip(high - low, 0.0, FALL)) / (1.0 - there)
    slope = min(slope, one)
    return slope / max(one, 1e-6), high - slope


def _pairs_of_scores(rank: Dual, queries: Floats, unseen: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(scores of the dual encoder, of the classifier) for each document's nearest seen labels."""
    first, second = rank.place("dual"), rank.place("classifier")
    near = min(NEAR, max(1, int((~unseen).sum()) // 10))  # further down the two heads have little to do with each other
    blocks = []
    for start, stop in threads.blocks(len(queries), max(1, (1 << 26) // rank.n)):
        q = queries[start:stop]
        x = np.where(unseen, -np.inf, q[:, first] @ rank.part("dual").T)
        best = np.argpartition(-x, near - 1, axis=1)[:, :near]
        y = (rank.part("classifier")[best] * q[:, None, second]).sum(2) + rank.bias[best]
        blocks.append((np.take_along_axis(x, best, 1).ravel(), y.ravel()))
    sides = [np.concatenate(side).astype(np.float64) for side in zip(*blocks, strict=True)]
    return sides[0], sides[1]


def _base(transformer: Transformer, tokens: Tokens) -> Floats:
    return transformer.vectors(tokens)[transformer.view_name(transformer.poolings[0])]


def _classifier_side(head: FreeHead, search: SearchConfig, dual_factor: float) -> tuple[Tower, Floats, Floats]:
    length = head.config.text_length
    rows, offset = (part.float().cpu().numpy() for part in head.label_rows())
    if search.classifier_score == "cosine":
        return head.tower(unit=True, factor=search.classifier_weight * dual_factor), unit(rows), np.zeros_like(offset)
    tower = head.tower(unit=length > 0, factor=search.classifier_weight * (length or 1.0))
    return tower, rows, np.float32(search.classifier_weight) * offset


def twins_prior(dataset: Dataset) -> Floats:
    """(labels,) prior that separates labels of the same text: log frequency relative to the most frequent one."""
    first = first_of_text(label_words(dataset.labels))
    counts = dataset.label_counts + 0.5
    most = np.zeros(len(first))
    np.maximum.at(most, first, counts)
    prior = np.log(counts / most[first])
    order = np.arange(len(first)) - first  # settles equal counts
    return (prior - 1e-4 * np.minimum(order, 1000)).astype(np.float32)


def mean_log_sum(queries: Floats, rank: Dual) -> float:
    """The mean over texts of the log of all labels' summed exp(margin): the level at which a label becomes likely."""
    total = np.full(len(queries), -np.inf)
    for start in range(0, rank.n, 1 << 14):
        part = slice(start, start + (1 << 14))
        margins = (queries @ rank.weight[part].T + rank.bias[part]).astype(np.float64)
        top = margins.max(1, initial=-np.inf)
        total = np.logaddexp(total, top + np.log(np.exp(margins - top[:, None]).sum(1)))
    return float(total.mean()) if len(total) else 0.0
