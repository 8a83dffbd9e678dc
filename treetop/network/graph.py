"""Views of graph nodes: a text's own vector beside the mean of its sampled neighbours', and the head that reads both.

Rows of the inputs are documents, then labels; labels have neighbours, documents none (theirs are predicted).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.features.encoder.towers import Tower
from treetop.network.inputs import Cached, Encoded, Inputs
from treetop.network.pool_heads import DualConfig, TextHead
from treetop.network.samplers.neighbours import Neighbours
from treetop.tensors.handover import send
from treetop.train.batches import Message, Rows


class _Around:
    """What both kinds of inputs have in common: neighbours are read with the rows that have them."""

    graph: Neighbours
    documents: int

    def load(self, rows: Rows, static: bool = False) -> Message:
        labels = np.flatnonzero(rows >= self.documents)
        owner, found = self.graph.draw(rows[labels] - self.documents, rows[rows < self.documents], rows)
        inner: Message = super().load(np.concatenate([rows, found]))  # type: ignore[misc]
        tensors = {**inner.tensors, "owner": send(labels[owner], cast(Any, self).device)}
        return Message(tensors, (inner.facts, len(rows), len(found)))

    def views(self, message: Message, detached: Collection[str] = ()) -> Mapping[str, Tensor]:
        facts, count, _ = cast("tuple[Any, int, int]", message.facts)
        owner = message["owner"]
        inner = Message({name: tensor for name, tensor in message.tensors.items() if name != "owner"}, facts)
        numbers = torch.bincount(owner, minlength=count).clamp_min(1)[:, None]
        whole: Mapping[str, Tensor] = super().views(inner, detached)  # type: ignore[misc]
        views = {}
        for name, vectors in whole.items():
            own, near = vectors[:count], vectors[count:]
            views[name] = torch.cat([own, torch.zeros_like(own).index_add(0, owner, near) / numbers], 1)
        return views


class GraphEncoded(_Around, Encoded):
    """By an encoder that is trained too."""

    def __init__(self, inputs: Encoded, graph: Neighbours, documents: int, *, compiled: bool) -> None:
        super().__init__(inputs.encoder, inputs.store, inputs.poolings, compiled=compiled, pools=inputs.pools)
        self.graph, self.documents = graph, documents


class GraphCached(_Around, Cached):
    """By a frozen encoder."""

    def __init__(self, inputs: Cached, graph: Neighbours, documents: int) -> None:
        super().__init__(dict(zip(inputs.names, inputs.arrays, strict=True)), inputs.token_counts, inputs.device)
        self.graph, self.documents = graph, documents


def with_neighbours(inputs: Inputs, graph: Neighbours, documents: int, *, compiled: bool = False) -> Inputs:
    """The same views, each beside the mean of the row's neighbours."""
    if isinstance(inputs, Encoded):
        return GraphEncoded(inputs, graph, documents, compiled=compiled)
    if not isinstance(inputs, Cached):
        raise TypeError(f"no views with neighbours of {inputs!r}")
    return GraphCached(inputs, graph, documents)


class GraphHead(TextHead):
    """GraphSAGE's mean aggregator: a linear layer over [own vector, mean of the neighbours'], to length 1.

    It begins as the sum of both. A text without neighbours has zeros in place of their mean.
    """

    reads_neighbours = True

    def __init__(self, config: DualConfig, width: int) -> None:
        super().__init__(config, width)
        self.view_width = width
        dimension = config.projection_dim or width
        half = torch.eye(width) if dimension == width else nn.init.orthogonal_(torch.empty(dimension, width))
        layer = nn.Linear(2 * width, dimension)
        layer.weight.data, layer.bias.data = torch.cat([half, half], 1), torch.zeros(dimension)
        self.projection.layer, self.projection.width, self.projection.tanh = layer, dimension, config.tanh

    def vectors(self, base: Tensor) -> Tensor:
        return super().vectors(F.pad(base, (0, 2 * self.view_width - base.shape[1])))

    def tower(self, *, unit: bool, factor: float) -> Tower:
        """For texts without neighbours."""
        whole = super().tower(unit=unit, factor=factor)
        if whole.weight is None:
            raise ValueError("a head on neighbours has a linear layer")
        weight = whole.weight[:, : self.view_width].copy()
        return Tower(whole.name, weight, whole.bias, whole.tanh, unit, factor)
