"""Learnt fusions of sources and probabilities of scores as operators (`predict/fuse/`, `predict/calibrate.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError
from treetop.core.graph import Graph
from treetop.core.types import Floats
from treetop.export.blend import blended, first_time, same_label
from treetop.export.walk import Kept, best
from treetop.predict.calibrate import Calibration, frequency_bin
from treetop.predict.fuse.boosted import Boosted
from treetop.predict.fuse.fuse import DEPTH, Fusion
from treetop.predict.fuse.logistic import Logistic


def fused(
    graph: Graph, fusion: Fusion, members: Sequence[Kept], weights: Sequence[float], counts: NDArray[np.integer],
    keep: str,
) -> Kept:  # fmt: skip
    """The best `keep` labels; `own` is the probability before rare labels are lifted."""
    sources, start = [], 0
    shares = list(weights) or [1.0] * len(members)
    for n, how in fusion.sources:
        span = slice(start, start + n)
        sources.append(blended(graph, members[span], how, graph.ints(DEPTH), shares[span]))
        start += n
    ids = graph.op("Concat", *(source.ids for source in sources), axis=1)
    theirs = [_said(graph, source, ids) for source in sources]
    there = graph.op("Concat", *(_there(graph, source) for source in sources), axis=1)
    new = graph.op("And", there, first_time(graph, same_label(graph, ids, ids, there)))
    own = graph.op("Sigmoid", _logits(graph, fusion, theirs, _gathered(graph, np.log1p(counts), ids)))
    lifted = graph.op("Mul", own, _gathered(graph, fusion.scorer.rarity.factors(counts), ids))
    if fusion.scorer.rarity.keep_first:
        highest = graph.op("ReduceMax", graph.op("Where", new, own, graph.number(-np.inf)), graph.ints(1), keepdims=1)
        lifted = graph.op("Where", graph.op("Equal", own, highest), own, lifted)
    return best(graph, Kept(ids, own, graph.op("Where", new, lifted, graph.number(-np.inf))), keep)


def probabilities(graph: Graph, calibration: Calibration, kept: Kept, value: str, counts: NDArray[np.integer]) -> str:
    """(texts, kept) the probability of each score by the map of its label's frequency bin."""
    bins = _gathered(graph, frequency_bin(counts), kept.ids, np.int64)
    found = graph.number(0.0)
    for b, (x, y) in enumerate(zip(*calibration.knots, strict=True)):
        here = graph.op("Equal", bins, graph.constant(b, np.int64))
        found = graph.op("Where", here, interpolated(graph, value, x, y), found)
    return found


def interpolated(graph: Graph, value: str, x: Floats, y: Floats) -> str:
    """`numpy.interp` of (texts, labels) by rising knots: flat outside of them."""
    x, y = x.astype(np.float32), y.astype(np.float32)
    inside = graph.op("Clip", value, graph.number(x[0]), graph.number(x[-1]))
    reached = graph.op("GreaterOrEqual", graph.op("Unsqueeze", inside, graph.ints(2)), graph.constant(x))
    count = graph.op("ReduceSum", graph.cast(reached, np.int64), graph.ints(2), keepdims=0)
    place = graph.op("Max", graph.op("Sub", count, graph.constant(1, np.int64)), graph.constant(0, np.int64))
    width = np.diff(x, append=x[-1:])
    slope = np.divide(np.diff(y, append=y[-1:]), width, out=np.zeros_like(y), where=width > 0)
    left, low, steep = (graph.op("Gather", graph.constant(table), place) for table in (x, y, slope))
    return graph.op("Add", low, graph.op("Mul", graph.op("Sub", inside, left), steep))


class Said(tuple[str, str, str]):
    """(texts, labels) each: a source's score, whether it returned the label (0 or 1), the gap to its best score."""


def _said(graph: Graph, source: Kept, ids: str) -> Said:
    """What a source says of labels; those it did not return count as its lowest."""
    there = _there(graph, source)
    same = same_label(graph, ids, source.ids, there)
    spread = graph.op("Unsqueeze", source.score, graph.ints(1))
    found = graph.op("ReduceMax", graph.cast(same, np.float32), graph.ints(2), keepdims=0)
    value = graph.op("Where", same, spread, graph.number(-np.inf))
    value = graph.op("ReduceMax", value, graph.ints(2), keepdims=0)
    high = graph.op("Where", there, source.score, graph.number(np.inf))
    lowest = _finite(graph, graph.op("ReduceMin", high, graph.ints(1), keepdims=1))
    top = _finite(graph, graph.op("ReduceMax", source.score, graph.ints(1), keepdims=1))
    score = graph.op("Where", graph.op("Greater", found, graph.number(0.5)), value, lowest)
    return Said((score, found, graph.op("Sub", score, top)))


def _finite(graph: Graph, value: str) -> str:
    """0 in the place of infinities: of a source that returned nothing."""
    return graph.op("Where", graph.op("IsInf", value), graph.number(0.0), value)


def _there(graph: Graph, source: Kept) -> str:
    return graph.op("Greater", source.score, graph.number(-np.inf))


def _gathered(graph: Graph, table: NDArray[np.generic], ids: str, dtype: type = np.float32) -> str:
    """(texts, labels) the entries of a table over labels."""
    return graph.op("Gather", graph.constant(table, dtype), ids)


def _logits(graph: Graph, fusion: Fusion, sources: Sequence[Said], frequency: str) -> str:
    if isinstance(fusion.scorer, Logistic):
        return _logistic(graph, fusion.scorer, sources, frequency)
    if isinstance(fusion.scorer, Boosted):
        return _boosted(graph, fusion.scorer, sources, frequency)
    raise ConfigError(
        f"fusion '{fusion.scorer.kind.split('.')[1]}' cannot be written as ONNX; those that can are logistic "
        "and boosted."
    )


def _logistic(graph: Graph, scorer: Logistic, sources: Sequence[Said], frequency: str) -> str:
    n, weight = scorer.n_sources, scorer.weight
    maps = [interpolated(graph, said[0], *scorer.knots[:, s]) for s, said in enumerate(sources)]
    terms = zip([*maps, *(said[1] for said in sources), frequency], weight[: 2 * n + 1].tolist(), strict=True)
    parts = [graph.op("Mul", value, graph.number(w)) for value, w in terms]
    return graph.op("Sum", *parts, graph.number(float(weight[-1])))


def _boosted(graph: Graph, scorer: Boosted, sources: Sequence[Said], frequency: str) -> str:
    """Every tree is a table whose place is read off comparisons of binned inputs with its cuts."""
    order = [said[column] for column in (0, 2, 1) for said in sources]
    inputs = graph.op("Concat", *(graph.op("Unsqueeze", v, graph.ints(2)) for v in [*order, frequency]), axis=2)
    trees, edges = scorer.trees, scorer.edges
    above = graph.op("Greater", graph.op("Unsqueeze", inputs, graph.ints(3)), graph.constant(edges, np.float32))
    bins = graph.op("ReduceSum", graph.cast(above, np.int64), graph.ints(3), keepdims=0)  # (texts, labels, inputs)
    looked = graph.op("Gather", bins, graph.constant(trees.feature, np.int64), axis=2)  # (..., trees, depth)
    beyond = graph.cast(graph.op("Greater", looked, graph.constant(trees.cut, np.int64)), np.int64)
    depth, size = trees.feature.shape[1], trees.leaf.shape[1]
    powers = graph.constant(1 << np.arange(depth), np.int64)
    place = graph.op("ReduceSum", graph.op("Mul", beyond, powers), graph.ints(3), keepdims=0)
    place = graph.op("Add", place, graph.constant(np.arange(len(trees.leaf)) * size, np.int64))
    leaves = graph.op("Gather", graph.constant(trees.leaf.ravel(), np.float32), place)
    return graph.op("Add", graph.op("ReduceSum", leaves, graph.ints(2), keepdims=0), graph.number(trees.base))
