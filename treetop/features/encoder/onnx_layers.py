"""An encoder with BERT's architecture as ONNX operators: token ids in, hidden states of every layer out.

Tokens lie in padded rows (texts, tokens), as other runtimes feed them, or end to end (tokens,), where only attention
is padded: linear layers then do no work for padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from treetop.core.graph import Graph
from treetop.features.encoder.encoder import Encoder
from treetop.tensors.handover import to_array

Affine = Callable[[Graph, str, Any], str]  # (graph, value, linear module) -> value


class Layout(NamedTuple):
    """How tokens lie: their positions' embeddings, the mask (texts, tokens), and the way to padded rows and back."""

    positions: Callable[[Graph, Any], str]
    mask: str
    spread: Callable[[Graph, str], str] = lambda graph, value: value
    gathered: Callable[[Graph, str], str] = lambda graph, value: value


def padded_rows(ids: str, mask: str) -> Layout:
    """Tokens in rows (texts, tokens); positions count from 0."""

    def positions(graph: Graph, table: Any) -> str:
        return graph.op("Slice", graph.constant(table), graph.ints(0), graph.size(ids, 1), graph.ints(0))

    return Layout(positions, mask)


def end_to_end(positions: str, mask: str, back: str, place: str) -> Layout:
    """Tokens (tokens,) with their positions; `back` (cells,) has the token of each padded cell, `place` its inverse."""

    def spread(graph: Graph, value: str) -> str:
        shape = graph.op("Concat", graph.op("Shape", mask), graph.ints(-1), axis=0)
        return graph.op("Reshape", graph.op("Gather", value, back), shape)

    def gathered(graph: Graph, value: str) -> str:
        width = graph.op("Shape", value, start=2)
        flat = graph.op("Reshape", value, graph.op("Concat", graph.ints(-1), width, axis=0))
        return graph.op("Gather", flat, place)

    return Layout(lambda graph, table: graph.op("Gather", graph.constant(table), positions), mask, spread, gathered)


def linear(graph: Graph, value: str, module: Any) -> str:
    """A linear layer in float32."""
    return graph.affine(value, to_array(module.weight), to_array(module.bias))


def states(graph: Graph, encoder: Encoder, ids: str, layout: Layout, affine: Affine = linear) -> list[str]:
    """The embeddings and every layer: (texts, tokens, width), or (tokens, width) end to end."""
    body: Any = encoder.body
    table = body.embeddings
    words = graph.op("Gather", graph.constant(to_array(table.word_embeddings.weight)), ids)
    places, types = (to_array(part.weight) for part in (table.position_embeddings, table.token_type_embeddings))
    position = layout.positions(graph, places[encoder.offset :] + types[0])
    found = [_norm(graph, graph.op("Add", words, position), table.LayerNorm)]
    absent = graph.op("Sub", graph.number(1.0), graph.cast(layout.mask, np.float32))
    shut = graph.op("Unsqueeze", graph.op("Mul", absent, graph.number(-1e9)), graph.ints(1, 2))
    heads = int(body.config.num_attention_heads)
    for layer in body.encoder.layer:
        attended = _attention(graph, layer.attention.self, found[-1], layout, shut, heads, affine)
        out = layer.attention.output
        x = _norm(graph, graph.op("Add", affine(graph, attended, out.dense), found[-1]), out.LayerNorm)
        wide = graph.op("Gelu", affine(graph, x, layer.intermediate.dense))
        narrow = affine(graph, wide, layer.output.dense)
        found.append(_norm(graph, graph.op("Add", narrow, x), layer.output.LayerNorm))
    return found


def _attention(graph: Graph, module: Any, x: str, layout: Layout, shut: str, heads: int, affine: Affine) -> str:
    width = module.query.weight.shape[0] // heads
    parts = [layout.spread(graph, affine(graph, x, part)) for part in (module.query, module.key, module.value)]
    split = [graph.reshape(part, 0, 0, heads, width) for part in parts]
    q, v = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (split[0], split[2]))
    k = graph.op("Transpose", split[1], perm=[0, 2, 3, 1])
    scores = graph.op("Mul", graph.op("MatMul", q, k), graph.number(width**-0.5))
    weights = graph.op("Softmax", graph.op("Add", scores, shut), axis=-1)
    attended = graph.op("Transpose", graph.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    return layout.gathered(graph, graph.reshape(attended, 0, 0, heads * width))


def _norm(graph: Graph, x: str, module: Any) -> str:
    weight, bias = (graph.constant(to_array(part)) for part in (module.weight, module.bias))
    return graph.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=float(module.eps))
