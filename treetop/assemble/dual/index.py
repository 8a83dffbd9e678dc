"""How a dual encoder searches its labels: all of them, or those of the nearest inverted lists, measured beforehand.

A product with all labels runs at the speed of the CPU's matrix kernels; lists gather one row after the other, which
costs about twenty times as much for a label (`docs/log.md`). So `auto` scores all labels up to a million; beyond that
it takes as few lists as find 98 % of the exact search's best 100 labels for some training texts, unless these hold more
than a twentieth of the labels. What it takes depends on the vectors alone, not on this machine or on packages that
happen to be installed.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from treetop.assemble.dual.search import sampled
from treetop.assemble.dual.settings import IndexConfig
from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.types import Candidates, Floats, Join, Shortlist
from treetop.features.encoder.towers import Towers
from treetop.kernels.runtime import threads
from treetop.kernels.search.dense_dots import dots
from treetop.rank.dual import Dual
from treetop.rank.fusion import Fusion
from treetop.shortlist.everything import Everything
from treetop.shortlist.hnsw import Hnsw
from treetop.shortlist.ivf import Ivf

MANY = 1_000_000  # labels up to which `auto` scores all of them
TEXTS, DEPTH = 500, 100  # training texts, and the best labels of each, that lists are measured by
RECALL = 0.98  # of these labels that the probed lists must hold
SHARE = 20  # lists that hold more than one in so many labels save nothing


class Searched(NamedTuple):
    """A shortlist, the rank with its rows in the order that suits it, and a line for the model card."""

    shortlist: Shortlist
    rank: Dual
    said: str


def search_index(dataset: Dataset, features: Towers, view: str, rank: Dual, config: IndexConfig, seed: int) -> Searched:
    """The search that the settings ask for; `auto` and a free number of lists are decided by measuring recall."""
    exact = Searched(Everything(rank.n), rank, f"exact, {rank.n:,} labels")
    if config.index == "exact" or (config.index == "auto" and (rank.n <= MANY or isinstance(rank, Fusion))):
        return exact
    queries = features.views(sampled(dataset, seed, TEXTS))[view]
    if config.index == "hnsw":
        graph = Hnsw.of(rank.weight, rank.bias, keep=config.shortlist, effort=config.ef_search)
        return Searched(graph, rank, f"HNSW graph, {_shown(_found(graph, rank, queries), queries)}")
    lists = Ivf.of(rank.weight, rank.bias, probe=max(1, config.nprobe), seed=seed)
    held = recall_by_lists(lists, rank, queries)
    if config.nprobe == 0:
        enough = int(np.searchsorted(held, RECALL)) + 1
        lists = Ivf(lists.centres, lists.offset, lists.indptr, lists.members, min(enough, len(held)))
    probed = min(lists.probe, len(held))
    _log_times(lists, rank, queries)
    if config.index == "auto" and probed * SHARE > len(held):
        return exact
    said = f"{probed:,} of {len(held):,} inverted lists, {_shown(float(held[probed - 1]), queries)}"
    return Searched(lists, rank.ordered(lists.members), said)


def recall_by_lists(lists: Ivf, rank: Dual, queries: Floats) -> Floats:
    """(lists,) the share of the exact search's best labels that the nearest 1, 2, ... lists of each text hold."""
    if len(queries) == 0:
        return np.ones(len(lists.centres), np.float32)
    best = rank.rank(queries, Candidates.all(len(queries), rank.n), Join(), min(DEPTH, rank.n))
    home = np.empty(rank.n, np.int64)
    home[lists.members] = np.repeat(np.arange(len(lists.centres)), np.diff(lists.indptr))
    order = np.argsort(-(dots(lists.centres, queries) + lists.offset), axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1])[None], axis=1)
    rows = np.repeat(np.arange(len(queries)), np.diff(best.indptr))
    found = np.bincount(place[rows, home[best.ids]], minlength=len(lists.centres))
    return (np.cumsum(found) / max(1, len(rows))).astype(np.float32)


def _found(shortlist: Shortlist, rank: Dual, queries: Floats) -> float:
    """The share of the exact search's best labels among a shortlist's candidates."""
    best = rank.rank(queries, Candidates.all(len(queries), rank.n), Join(), min(DEPTH, rank.n))
    near = shortlist.candidates(queries, None)
    if near.ids is None or near.indptr is None or len(best.ids) == 0:
        return 1.0
    near_pairs = (near.indptr, near.ids)
    rows = np.arange(len(queries), dtype=np.int64) * rank.n
    wanted, there = ((np.repeat(rows, np.diff(ends)) + ids) for ends, ids in ((best.indptr, best.ids), near_pairs))
    return float(np.isin(wanted, there).mean())


def _shown(recall: float, queries: Floats) -> str:
    return f"{100 * recall:.1f} % of the exact search's best {DEPTH} labels for {len(queries)} training texts"


def _log_times(lists: Ivf, rank: Dual, queries: Floats) -> None:
    """What a text takes by itself, exactly and by lists; for the log alone, as the model must not depend on it."""
    if len(queries) == 0:
        return
    spent = []
    ordered = rank.ordered(lists.members)
    for shortlist, ranks in ((Everything(rank.n), rank), (lists, ordered)):
        started = time.perf_counter()
        for i in range(min(5, len(queries))):
            ranks.rank(queries[i : i + 1], shortlist.candidates(queries[i : i + 1], None), Join(), DEPTH)
        spent.append(1e3 * (time.perf_counter() - started) / min(5, len(queries)))
    logger.info(
        "search: %d of %d lists; one text takes %.1f ms by exact search, %.1f ms by lists (%d threads)",
        min(lists.probe, len(lists.centres)), len(lists.centres), *spent, threads.count(),
    )  # fmt: skip
