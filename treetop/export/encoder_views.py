"""Views that an encoder has a part in: its own, the heads of dual encoders, and embeddings beside tf-idf."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from treetop.core.errors import ConfigError
from treetop.core.graph import Graph
from treetop.export.views import Makers, ViewMaker
from treetop.features.concatenate import Concatenated, view_of
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.onnx_layers import padded_rows, states
from treetop.features.encoder.quick_layers import QuickLayers
from treetop.features.encoder.towers import Tower, Towers
from treetop.features.encoder.transformer import Transformer
from treetop.features.views import Views


def makers(maker: ViewMaker, item: Any) -> Makers:
    """What adds each view of such features to the graph."""
    if isinstance(item, Transformer):
        return _transformer(maker, item)
    if isinstance(item, Towers):
        return _towers(maker, item)
    if isinstance(item, Concatenated):
        return _concatenated(maker, item)
    raise ConfigError(f"features of kind '{item.kind}' cannot be written as ONNX.")


def _transformer(maker: ViewMaker, item: Transformer) -> Makers:
    """All poolings share the states of the layers."""
    graph, encoder = maker.graph, item.encoder

    def layers() -> tuple[list[str], str]:
        _check_architecture(encoder)
        ids, mask = maker.tokens(item)
        return states(graph, encoder, ids, padded_rows(ids, mask)), mask

    shared = Views({"layers": layers})

    def get(pooling: Pooling) -> str:
        found, mask = shared["layers"]
        parts = [_pooled(graph, found[encoder.layer(index)], mask, pooling.kind) for index in pooling.layers]
        view = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
        return graph.unit(view) if item.l2 else view

    return {item.view_name(pooling): partial(get, pooling) for pooling in item.poolings}


def _towers(maker: ViewMaker, item: Towers) -> Makers:
    inner, name = Views(_transformer(maker, item.transformer)), item.transformer.view_name(item.transformer.poolings[0])

    def head(tower: Tower, factor: float) -> str:
        graph, value = maker.graph, inner[name]
        value = value if tower.weight is None else graph.affine(value, tower.weight, tower.bias)
        value = graph.op("Tanh", value) if tower.tanh else value
        value = graph.unit(value) if tower.unit else value
        return graph.op("Mul", value, graph.number(factor))

    def search() -> str:
        return maker.graph.op("Concat", *(head(tower, tower.factor) for tower in item.towers), axis=1)

    made: Makers = {item.view_name(): search}
    for tower in item.towers:
        made[item.view_name(tower.name)] = partial(head, tower, 1.0)
        made[item.view_name(f"search-{tower.name}")] = partial(head, tower, tower.factor)
    return made


def _concatenated(maker: ViewMaker, item: Concatenated) -> Makers:
    words, graph = Views({"tfidf": partial(maker.words, item.tfidf)}), maker.graph

    def fused(vectors: Views, name: str) -> str:
        scaled = graph.op("Mul", graph.unit(vectors[name]), graph.number(item.dense))
        return graph.op("Concat", graph.unit(words["tfidf"]), scaled, axis=1)

    made: Makers = {"tfidf": lambda: words["tfidf"]}
    for m, transformer in enumerate(item.transformers):
        inner, last = Views(_transformer(maker, transformer)), transformer.view_name(transformer.poolings[-1])
        made |= {view: partial(inner.__getitem__, view) for view in inner}
        made[view_of("fused", m)] = partial(fused, inner, last)
        made[view_of("embedding", m)] = partial(_unit, graph, inner, last)
    return made


def _unit(graph: Graph, views: Views, name: str) -> str:
    return graph.unit(views[name])


def _check_architecture(encoder: Encoder) -> None:
    if QuickLayers.of(encoder) is None:
        raise ConfigError(
            f"the encoder is of type '{encoder.settings.get('model_type')}', and only encoders with BERT's "
            "architecture (BERT, RoBERTa, MiniLM, E5, BGE, GTE) can be exported. Train with one of them."
        )


def _pooled(graph: Graph, state: str, mask: str, kind: str) -> str:
    """(texts, width) of (texts, tokens, width): the first token, or the mean of those that are not padding."""
    if kind == "cls":
        return graph.op("Gather", state, graph.constant(0, np.int64), axis=1)
    weight = graph.op("Unsqueeze", graph.cast(mask, np.float32), graph.ints(2))
    total = graph.op("ReduceSum", graph.op("Mul", state, weight), graph.ints(1), keepdims=0)
    count = graph.op("Max", graph.op("ReduceSum", weight, graph.ints(1), keepdims=0), graph.number(1.0))
    return graph.op("Div", total, count)
