"""The layers of an encoder in ONNX Runtime with int8 products, for prediction on a CPU (`--fast`).

Weights are int8 with a scale for each column, activations with a scale for each token, so that a text's vector does not
depend on the texts beside it. Weights take 7 bits: processors without VNNI add pairs of products in 16 bits, which
would overflow. Sums are exact integers, so that the answers are the same wherever the graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from treetop.core.dataset import Ints
from treetop.core.errors import extra
from treetop.core.graph import Graph
from treetop.features.encoder.encoder import Encoder
from treetop.features.encoder.onnx_layers import end_to_end, linear, states
from treetop.tensors.handover import to_array
from treetop.tensors.packed import Packed

LARGEST, MIDDLE = 63, 128  # of a weight; the activation that stands for 0
STRETCH, SPARE = 1.5, 8  # sequences up to so many times as long as the shortest, and so many tokens more, run together


class RuntimeLayers:
    """The states of an encoder's layers, as `QuickLayers` returns them."""

    def __init__(self, encoder: Encoder, *, int8: bool = True) -> None:
        self.width = encoder.width
        runtime, graph = extra("onnxruntime", "onnx"), Graph()
        shape: list[str | int] = ["tokens"]
        ids, positions, place = (graph.input(name, np.int64, shape) for name in ("ids", "positions", "place"))
        mask, back = graph.input("mask", np.int64, ["texts", "room"]), graph.input("back", np.int64, ["cells"])
        found = states(graph, encoder, ids, end_to_end(positions, mask, back, place), quantised if int8 else linear)
        for index, state in enumerate(found):
            graph.output(f"layer-{index}", state, np.float32, ["tokens", encoder.width])
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1  # texts are shared out over our own threads
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(graph.to_bytes(), options, providers=["CPUExecutionProvider"])

    def states(self, packed: Packed, wanted: Sequence[int]) -> dict[int, Tensor]:
        """Layer -> (tokens, width)."""
        starts = packed.starts.numpy().astype(np.int64)
        ids, positions = packed.ids.numpy(), packed.positions.numpy()
        parts = [self._run(starts[a : b + 1], ids, positions, wanted) for a, b in alike(np.diff(starts))]
        sides = zip(*parts, strict=True) if parts else [[np.zeros((0, self.width), np.float32)] for _ in wanted]
        return {i: torch.from_numpy(np.concatenate(side)) for i, side in zip(wanted, sides, strict=True)}

    def _run(self, starts: Ints, ids: Ints, positions: Ints, wanted: Sequence[int]) -> list[Any]:
        """The states of sequences that begin at `starts`, padded to the longest in attention alone."""
        here, lengths = slice(int(starts[0]), int(starts[-1])), np.diff(starts)
        room = np.arange(max(1, int(lengths.max(initial=0))))
        there = room < lengths[:, None]
        given = {
            "ids": ids[here], "positions": positions[here], "place": np.flatnonzero(there),
            "mask": there.astype(np.int64), "back": np.where(there, starts[:-1, None] - starts[0] + room, 0).ravel(),
        }  # fmt: skip
        found: list[Any] = self._session.run([f"layer-{index}" for index in wanted], given)
        return found


def alike(lengths: Ints) -> list[tuple[int, int]]:
    """Stretches of sequences, shortest first, in which little is padded."""
    spans, start = [], 0
    for i, length in enumerate(lengths.tolist()):
        if length > STRETCH * lengths[start] + SPARE:
            spans.append((start, i))
            start = i
    return [*spans, (start, len(lengths))] if len(lengths) else []


def quantised(graph: Graph, value: str, module: Any) -> str:
    """A linear layer by int8 products; `value` is (tokens, width)."""
    weight = to_array(module.weight).T
    scale = np.maximum(np.abs(weight).max(0), 1e-12) / LARGEST
    codes = np.rint(weight / scale).astype(np.int8)
    largest = graph.op("ReduceMax", graph.op("Abs", value), graph.ints(-1), keepdims=1)
    step = graph.op("Max", graph.op("Mul", largest, graph.number(1 / 127)), graph.number(1e-12))
    shifted = graph.op("Add", graph.op("Round", graph.op("Div", value, step)), graph.number(MIDDLE))
    middle = graph.constant(MIDDLE, np.uint8)
    sums = graph.op("MatMulInteger", graph.cast(shifted, np.uint8), graph.constant(codes), middle)
    scaled = graph.op("Mul", graph.cast(sums, np.float32), graph.constant(scale, np.float32))
    return graph.op("Add", graph.op("Mul", scaled, step), graph.constant(to_array(module.bias)))
