"""Margins of nodes: inner products of a view with the vectors of all nodes, or of each text's candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError
from treetop.core.graph import Graph
from treetop.core.types import Rank
from treetop.kernels.tree.chunks import ABSENT, COPY
from treetop.rank.dual import Dual
from treetop.rank.head import Head
from treetop.rank.linear import Linear


class Margins(ABC):
    """The margins of a rank's nodes as values of a graph."""

    copied: NDArray[np.bool_] | None = None  # (nodes,) those that pass on their parent's scores
    absent: NDArray[np.bool_] | None = None  # (nodes,) those that are never returned

    @abstractmethod
    def all(self, graph: Graph, view: str) -> str:
        """(texts, nodes)."""

    @abstractmethod
    def some(self, graph: Graph, view: str, nodes: str) -> str:
        """(texts, candidates) of the nodes named for each text."""


class DenseMargins(Margins):
    """Of one dense vector a node, behind a bottleneck where there is one."""

    def __init__(self, rank: Head, order: NDArray[np.integer] | slice) -> None:
        bias = rank.bias[order]
        self.weight, self.squeeze, self.squeeze_bias = rank.weight[order], rank.squeeze, rank.squeeze_bias
        missing = np.isneginf(bias)
        self.absent, self.bias = missing if missing.any() else None, np.where(missing, np.float32(0), bias)

    def all(self, graph: Graph, view: str) -> str:
        return graph.affine(self._squeezed(graph, view), self.weight, self.bias)

    def some(self, graph: Graph, view: str, nodes: str) -> str:
        vectors = graph.op("Gather", graph.constant(self.weight, np.float32), nodes)  # (texts, candidates, width)
        column = graph.op("Unsqueeze", self._squeezed(graph, view), graph.ints(2))
        products = graph.op("Squeeze", graph.op("MatMul", vectors, column), graph.ints(2))
        return graph.op("Add", products, graph.op("Gather", graph.constant(self.bias, np.float32), nodes))

    def _squeezed(self, graph: Graph, view: str) -> str:
        return view if self.squeeze is None else graph.affine(view, self.squeeze, self.squeeze_bias)


class SparseMargins(Margins):
    """Of one sparse vector a node: the entries of all candidates' vectors end to end, summed by candidate."""

    def __init__(self, rank: Linear) -> None:
        self.indptr, self.columns, self.values = rank.by_node()
        flags, self.bias = np.empty(rank.n, np.uint8), np.empty(rank.n, np.float32)
        flags[rank.weights.ids], self.bias[rank.weights.ids] = rank.weights.flags, rank.weights.bias
        self.copied = flags == COPY if COPY in flags else None
        self.absent = flags == ABSENT if ABSENT in flags else None
        self.n_features = rank.n_features

    def all(self, graph: Graph, view: str) -> str:
        """The same for all nodes: as many candidates for every text."""
        shape = graph.op("Concat", graph.size(view, 0), graph.ints(len(self.bias)), axis=0)
        nodes = graph.op("Expand", graph.constant(np.arange(len(self.bias))[None]), shape)
        return self.some(graph, view, nodes)

    def some(self, graph: Graph, view: str, nodes: str) -> str:
        flat = graph.reshape(nodes, -1)
        first = graph.op("Gather", graph.constant(self.indptr[:-1]), flat)
        lengths = graph.op("Sub", graph.op("Gather", graph.constant(self.indptr[1:]), flat), first)
        starts = graph.op("CumSum", lengths, graph.constant(0, np.int64), exclusive=1)
        owner, place = self._ragged(graph, lengths, starts)
        entry = graph.op("Add", place, graph.op("Gather", graph.op("Sub", first, starts), owner))
        columns = graph.op("Gather", graph.constant(self.columns), entry)
        per_text = graph.size(nodes, 1)
        cell = graph.op("Mul", graph.op("Div", owner, per_text), graph.ints(self.n_features))
        x = graph.op("Gather", graph.reshape(view, -1), graph.op("Add", cell, columns))
        products = graph.op("Mul", x, graph.op("Gather", graph.constant(self.values), entry))
        zeros = graph.op("Mul", graph.cast(flat, np.float32), graph.number(0.0))
        sums = graph.op("ScatterElements", zeros, owner, products, axis=0, reduction="add")
        margins = graph.op("Reshape", sums, graph.op("Shape", nodes))
        return graph.op("Add", margins, graph.op("Gather", graph.constant(self.bias), nodes))

    def _ragged(self, graph: Graph, lengths: str, starts: str) -> tuple[str, str]:
        """(candidate, place) of every entry of lists of these lengths, end to end."""
        zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
        total = graph.op("ReduceSum", lengths, keepdims=0)
        place = graph.op("Range", zero, total, one)
        room = graph.op("Reshape", graph.op("Add", total, one), graph.ints(1))  # empty lists may begin at the end
        empty = graph.op("Expand", zero, room)
        ones = graph.op("Expand", one, graph.op("Shape", starts))
        marks = graph.op("ScatterElements", empty, starts, ones, axis=0, reduction="add")
        owner = graph.op("Sub", graph.op("CumSum", marks, zero), one)
        return graph.op("Slice", owner, graph.ints(0), graph.op("Reshape", total, graph.ints(1)), graph.ints(0)), place


def margins_of(rank: Rank) -> Margins:
    """The margins of a rank; refused by name where there is no ONNX form of it."""
    if isinstance(rank, Linear):
        return SparseMargins(rank)
    if type(rank) is Dual:
        return DenseMargins(rank, slice(None) if rank.order is None else rank.rows)
    if type(rank) is Head:
        return DenseMargins(rank, slice(None))
    raise ConfigError(
        f"rank '{rank.kind.split('.')[1]}' cannot be written as ONNX; those that can are linear, head and dual."
    )
