"""Several members become one list, as `predict/blend.py` joins them; a label that a member did not return counts 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treetop.core.graph import Graph
from treetop.export.walk import Kept, best
from treetop.predict.blend import Blend, proportions


def blended(graph: Graph, parts: Sequence[Kept], how: Blend, keep: str, weights: Sequence[float]) -> Kept:
    """The best `keep` labels after averaging the members' scores, each at its weight."""
    if len(parts) == 1:
        return best(graph, parts[0], keep)
    shares = proportions(weights, len(parts))
    voters = [(part, share / sum(shares)) for part, share in zip(parts, shares, strict=True) if share > 0]
    longest = graph.op("Max", *(_count(graph, part) for part, _ in voters))
    votes = [graph.op("Mul", _votes(graph, part, how, longest), graph.number(share)) for part, share in voters]
    ids, score = (graph.op("Concat", *side, axis=1) for side in ([part.ids for part, _ in voters], votes))
    there = graph.op("Concat", *(_there(graph, part) for part, _ in voters), axis=1)
    same = same_label(graph, ids, ids, there)
    summed = graph.op("MatMul", graph.cast(same, np.float32), graph.op("Unsqueeze", score, graph.ints(2)))
    summed = graph.op("Squeeze", summed, graph.ints(2))
    summed = graph.op("Where", graph.op("And", there, first_time(graph, same)), summed, graph.number(-np.inf))
    return best(graph, Kept(ids, summed, summed), keep)


def same_label(graph: Graph, ids: str, others: str, there: str) -> str:
    """(texts, labels, others) whether both are the same label and the other one `there`."""
    rows, columns = graph.op("Unsqueeze", ids, graph.ints(2)), graph.op("Unsqueeze", others, graph.ints(1))
    return graph.op("And", graph.op("Equal", rows, columns), graph.op("Unsqueeze", there, graph.ints(1)))


def first_time(graph: Graph, same: str) -> str:
    """(texts, labels) whether no label before is the same, given which are."""
    before = graph.op("Trilu", graph.cast(same, np.float32), graph.constant(-1, np.int64), upper=0)
    return graph.op("Less", graph.op("ReduceMax", before, graph.ints(2), keepdims=0), graph.number(0.5))


def _there(graph: Graph, part: Kept) -> str:
    return graph.op("Greater", part.score, graph.number(-np.inf))


def _count(graph: Graph, part: Kept) -> str:
    """(texts, 1) how many labels a member returned."""
    return graph.op("ReduceSum", graph.cast(_there(graph, part), np.float32), graph.ints(1), keepdims=1)


def _votes(graph: Graph, part: Kept, how: Blend, longest: str) -> str:
    """(texts, kept) what a member says of each of its labels; 0 for fillers."""
    there, nothing = _there(graph, part), graph.number(0.0)
    if how == "average":
        return graph.op("Where", there, part.score, nothing)
    if how == "rank_average":
        zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
        width = graph.op("Squeeze", graph.size(part.ids, 1), graph.ints(0))
        place = graph.cast(graph.op("Range", zero, width, one), np.float32)
        return graph.op("Where", there, graph.op("Sub", longest, place), nothing)
    top = graph.op("Slice", part.score, graph.ints(0), graph.ints(1), graph.ints(1))
    grown = graph.op("Where", there, graph.op("Exp", graph.op("Sub", part.score, top)), nothing)
    total = graph.op("Max", graph.op("ReduceSum", grown, graph.ints(1), keepdims=1), graph.number(1e-30))
    return graph.op("Div", grown, total)
