"""Models with an encoder and label vectors, made without training: as if training had only blurred the label texts."""

from __future__ import annotations

import dataclasses

import numpy as np

import toy
from treetop.core.card import Card
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.types import Join, LabelTree, Level
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.labels.text import label_words
from treetop.model import Model
from treetop.network.targets import log_odds
from treetop.rank.head import Head
from treetop.rank.text_map import unit
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything


def without(data: Dataset, columns: list[int]) -> Dataset:
    """The same rows less some labels, which are gone from the label set too."""
    kept = np.setdiff1d(np.arange(data.n_labels), columns)
    labels = data.labels
    fewer = LabelSet(labels.ids.take(kept), labels.names.take(kept), labels.texts.take(kept), labels.status[kept])
    return dataclasses.replace(data, Y=data.Y[:, kept], labels=fewer)


def model(
    encoder: str, data: Dataset | None = None, *, tree: bool = False, members: int = 1, squeeze: bool = False, seed=0
) -> Model:
    """A model over the labels of `data`; members differ in their noise."""
    data = toy.dataset(n=200) if data is None else data
    config = TransformerConfig(model=encoder, max_length=32, layers=(-1, -2), l2=True)
    transformer = Transformer.load(config)
    name = transformer.view_name(transformer.poolings[0])
    H, T = (transformer.views(texts)[name] for texts in (data.texts, label_words(data.labels)))
    random = np.random.default_rng(seed)
    made = [_levels(H, T, data, name, random, tree=tree, squeeze=squeeze) for _ in range(members)]
    card = Card("lightxml", {}, seed, {"name": data.name})
    return dataclasses.replace(Model.over(data, {"encoder": transformer}, made), card=card).with_golden(data.texts)


def _levels(H, T, data, name, random, *, tree, squeeze):
    n, width = T.shape
    V = 40 * unit(T - T.mean(0)) + random.normal(size=T.shape).astype(np.float32)
    bias = log_odds(data.Y, np.arange(n), n) - V @ H.mean(0)
    bias[data.label_counts == 0] = -np.inf
    more = {}
    if squeeze:
        S = np.linalg.qr(random.normal(size=(width, width)))[0][: width // 2].astype(np.float32)
        V, more = V @ S.T, {"squeeze": S, "squeeze_bias": np.zeros(len(S), np.float32)}
    head = Head(np.ascontiguousarray(V, np.float32), bias.astype(np.float32), **more)
    if not tree:
        return [Level(name, Everything(n), head, Join("sigmoid"))]
    shape = LabelTree((np.zeros(8, np.int32), (np.arange(n) % 8).astype(np.int32)))
    nodes = np.stack([T[np.arange(n) % 8 == node].mean(0) for node in range(8)])
    above = Head(40 * unit(nodes - T.mean(0)), np.full(8, -1, np.float32) - 40 * unit(nodes - T.mean(0)) @ H.mean(0))
    first = Level(name, Everything(8), above, Join("sigmoid"), beam=4)
    return [first, Level(name, Descend.of(shape, 1), head, Join("sigmoid", "path"))]
