"""Levels of a member as operators, the beam unrolled: candidates, margins, scores, and the best of each text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import HasParents, StandsForAll
from treetop.core.errors import ConfigError
from treetop.core.graph import Graph
from treetop.core.types import Join, Level, Shortlist
from treetop.export.margins import Margins, margins_of
from treetop.shortlist.everything import Everything


class Kept(NamedTuple):
    """(texts, kept) each: nodes, own and combined scores, best first; -inf where a text has fewer."""

    ids: str
    own: str
    score: str


class Candidates(NamedTuple):
    """(texts or 1, candidates) nodes with their parents' scores; `there` marks those that exist."""

    ids: str
    there: str | None = None
    above: Kept | None = None


def walk(graph: Graph, levels: Sequence[Level], views: Mapping[str, str], keep: str) -> Kept:
    """The best `keep` labels of each text as one member sees it."""
    above: Kept | None = None
    for level in levels[:-1]:
        above = step(graph, level, views, above, graph.ints(level.beam))
    return step(graph, levels[-1], views, above, keep)


def step(graph: Graph, level: Level, views: Mapping[str, str], above: Kept | None, keep: str) -> Kept:
    """One level: `predict/beam.py` has its twin."""
    margins, whole = margins_of(level.rank), _scores_all(level.shortlist, above)
    view = views[level.view]
    if whole:
        given = Candidates(graph.constant(np.arange(level.rank.n)[None]))
        margin = margins.all(graph, view)
    else:
        given = _children(graph, level.shortlist, above)
        margin = margins.some(graph, view, given.ids)
    kept = _scored(graph, margins, given, margin, level.join)
    if level.keep_by == "own":
        kept = best(graph, kept, keep, by_own=True, ordered=whole)
        return best(graph, kept, graph.size(kept.ids, 1))
    return best(graph, kept, keep, ordered=whole)


def best(graph: Graph, kept: Kept, keep: str, *, by_own: bool = False, ordered: bool = False) -> Kept:
    """The best `keep` (1,) of each text by score, of equals the lower node; `ordered`: nodes are ascending already."""
    if not ordered:
        order = graph.ops("TopK", 2, kept.ids, graph.size(kept.ids, 1), largest=0)[1]
        kept = taken(graph, kept, order)
    key = kept.score
    if by_own:
        key = graph.op("Where", _there(graph, kept.score), kept.own, graph.number(-np.inf))
    few = graph.op("Min", keep, graph.size(kept.ids, 1))
    return taken(graph, kept, graph.ops("TopK", 2, key, few)[1])


def taken(graph: Graph, kept: Kept, places: str) -> Kept:
    """The entries at these places of each text."""
    return Kept(*(graph.op("GatherElements", part, places, axis=1) for part in kept))


def _there(graph: Graph, score: str) -> str:
    """Which entries are not fillers."""
    return graph.op("Greater", score, graph.number(-np.inf))


def _scores_all(shortlist: Shortlist, above: Kept | None) -> bool:
    """Whether every node is scored; a shortlist that only saves work is left out."""
    if isinstance(shortlist, Everything | StandsForAll):
        return True
    if not isinstance(shortlist, HasParents):
        raise ConfigError(
            f"shortlist '{shortlist.kind.split('.')[1]}' cannot be written as ONNX; those that can are "
            "everything, descend, ann and graph."
        )
    return above is None


def _children(graph: Graph, shortlist: Shortlist, above: Kept | None) -> Candidates:
    """The children of the nodes above; each has room for as many as the largest family."""
    if not isinstance(shortlist, HasParents) or above is None:
        raise ConfigError("a level below another one has no parents. The model is damaged; copy it again.")
    table = children_table(shortlist.indptr, shortlist.children)
    found = graph.op("Gather", graph.constant(table), above.ids)  # (texts, beam, family), -1 fills up
    room = graph.op("Shape", found)

    def spread(value: str) -> str:
        wide = graph.op("Expand", graph.op("Unsqueeze", value, graph.ints(2)), room)
        return graph.reshape(wide, 0, -1)

    parents = Kept(*(spread(value) for value in above))
    ids = graph.reshape(found, 0, -1)
    there = graph.op("And", graph.op("GreaterOrEqual", ids, graph.constant(0, np.int64)), _there(graph, parents.score))
    return Candidates(graph.op("Max", ids, graph.constant(0, np.int64)), there, parents)


def children_table(indptr: NDArray[np.integer], children: NDArray[np.integer]) -> NDArray[np.int64]:
    """(parents, children of the largest family) with -1 behind those of smaller ones."""
    sizes = np.diff(indptr)
    table = np.full((len(sizes), max(1, int(sizes.max(initial=0)))), -1, np.int64)
    table[np.arange(table.shape[1]) < sizes[:, None]] = children
    return table


def _scored(graph: Graph, margins: Margins, given: Candidates, margin: str, join: Join) -> Kept:
    """Candidates with their scores."""
    own = transformed(graph, margin, join)
    score = own
    if given.above is not None and join.combine != "own":
        parent = given.above.own if join.combine == "parent" else given.above.score
        score = graph.op("Add" if join.adds else "Mul", own, parent)
    if given.above is not None and margins.copied is not None:
        copied = graph.op("Gather", graph.constant(margins.copied), given.ids)
        own = graph.op("Where", copied, given.above.own, own)
        score = graph.op("Where", copied, given.above.score, score)
    gone = graph.number(-np.inf)
    if margins.absent is not None:
        score = graph.op("Where", graph.op("Gather", graph.constant(margins.absent), given.ids), gone, score)
    if given.there is not None:
        score = graph.op("Where", given.there, score, gone)
    ids = graph.op("Expand", given.ids, graph.op("Shape", score))
    return Kept(ids, own, score)


def transformed(graph: Graph, margin: str, join: Join) -> str:
    """Own scores of margins, as `Join.own` makes them."""
    name = join.transform.removeprefix("log_")
    if name == "noop":
        return margin
    if name == "sigmoid":
        return (
            graph.op("Neg", graph.op("Softplus", graph.op("Neg", margin))) if join.adds else graph.op("Sigmoid", margin)
        )
    gap = graph.op("Max", graph.op("Sub", graph.number(1.0), margin), graph.number(0.0))
    log = graph.op("Neg", graph.op("Pow", gap, graph.number(int(name[-1]))))
    return log if join.adds else graph.op("Exp", log)
