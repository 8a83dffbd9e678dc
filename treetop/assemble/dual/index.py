"""Label search of a dual encoder: exact, by inverted lists (IVF) or by an HNSW graph; `auto` measures recall first.

Exact search is a matrix product; inverted lists gather single rows, which costs about twenty times as much per label
(`docs/log.md`). So `auto` searches exactly up to a million labels. Beyond, it probes as few lists as find 98 % of the
100 best labels for a sample of training texts, unless that is more than a twentieth of the lists. The choice depends on
the vectors alone, not on the machine or on installed packages.
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

EXACT = 1_000_000  # labels up to which `auto` searches exactly
TEXTS, DEPTH = 500, 100  # recall is measured on so many training texts and their best labels by exact search
RECALL = 0.98  # recall that the probed lists must reach
SHARE = 20  # `auto` searches exactly if it would probe more than one in so many lists


class SearchIndex(NamedTuple):
    """A shortlist, the rank with its rows in the shortlist's order, and a line for the model card."""

    shortlist: Shortlist
    rank: Dual
    summary: str


def search_index(
    dataset: Dataset, features: Towers, view: str, rank: Dual, config: IndexConfig, seed: int
) -> SearchIndex:
    """The search that the settings ask for; `auto`, and `nprobe` of 0, are decided by measured recall."""
    exact = SearchIndex(Everything(rank.n), rank, f"exact, {rank.n:,} labels")
    if config.index == "exact" or (config.index == "auto" and (rank.n <= EXACT or isinstance(rank, Fusion))):
        return exact
    queries = features.views(sampled(dataset, seed, TEXTS))[view]
    if config.index == "hnsw":
        graph = Hnsw.of(rank.weight, rank.bias, keep=config.shortlist, effort=config.ef_search)
        return SearchIndex(graph, rank, f"HNSW graph, {_recall_text(_recall(graph, rank, queries), queries)}")
    lists = Ivf.of(rank.weight, rank.bias, probe=max(1, config.nprobe), seed=seed)
    recall = recall_by_lists(lists, rank, queries)
    if config.nprobe == 0:
        enough = int(np.searchsorted(recall, RECALL)) + 1
        lists = Ivf(lists.centres, lists.offset, lists.indptr, lists.members, min(enough, len(recall)))
    probed = min(lists.probe, len(recall))
    _log_times(lists, rank, queries)
    if config.index == "auto" and probed * SHARE > len(recall):
        return exact
    summary = f"{probed:,} of {len(recall):,} inverted lists, {_recall_text(float(recall[probed - 1]), queries)}"
    return SearchIndex(lists, rank.ordered(lists.members), summary)


def recall_by_lists(lists: Ivf, rank: Dual, queries: Floats) -> Floats:
    """(lists,) recall of the exact search's best labels when the nearest 1, 2, ... lists are probed."""
    if len(queries) == 0:
        return np.ones(len(lists.centres), np.float32)
    best = rank.rank(queries, Candidates.all(len(queries), rank.n), Join(), min(DEPTH, rank.n))
    list_of = np.empty(rank.n, np.int64)
    list_of[lists.members] = np.repeat(np.arange(len(lists.centres)), np.diff(lists.indptr))
    order = np.argsort(-(dots(lists.centres, queries) + lists.offset), axis=1, kind="stable")
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.arange(order.shape[1])[None], axis=1)
    rows = np.repeat(np.arange(len(queries)), np.diff(best.indptr))
    hits = np.bincount(position[rows, list_of[best.ids]], minlength=len(lists.centres))
    return (np.cumsum(hits) / max(1, len(rows))).astype(np.float32)


def _recall(shortlist: Shortlist, rank: Dual, queries: Floats) -> float:
    """Recall of the exact search's best labels among a shortlist's candidates."""
    best = rank.rank(queries, Candidates.all(len(queries), rank.n), Join(), min(DEPTH, rank.n))
    near = shortlist.candidates(queries, None)
    if near.ids is None or near.indptr is None or len(best.ids) == 0:
        return 1.0
    near_pairs = (near.indptr, near.ids)
    rows = np.arange(len(queries), dtype=np.int64) * rank.n
    exact, kept = ((np.repeat(rows, np.diff(ends)) + ids) for ends, ids in ((best.indptr, best.ids), near_pairs))
    return float(np.isin(exact, kept).mean())


def _recall_text(recall: float, queries: Floats) -> str:
    return f"{100 * recall:.1f} % of the exact search's best {DEPTH} labels for {len(queries)} training texts"


def _log_times(lists: Ivf, rank: Dual, queries: Floats) -> None:
    """Log the time of a single text by exact search and by lists; the model must not depend on it."""
    if len(queries) == 0:
        return
    times = []
    ordered = rank.ordered(lists.members)
    for shortlist, ranks in ((Everything(rank.n), rank), (lists, ordered)):
        started = time.perf_counter()
        for i in range(min(5, len(queries))):
            ranks.rank(queries[i : i + 1], shortlist.candidates(queries[i : i + 1], None), Join(), DEPTH)
        times.append(1e3 * (time.perf_counter() - started) / min(5, len(queries)))
    logger.info(
        "search: %d of %d lists; one text takes %.1f ms by exact search, %.1f ms by lists (%d threads)",
        min(lists.probe, len(lists.centres)), len(lists.centres), *times, threads.count(),
    )  # fmt: skip
