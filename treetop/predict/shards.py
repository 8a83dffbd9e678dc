"""Many documents ranked in shards, wherever the executor runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from treetop.core.dataset import Csr
from treetop.core.executor import executor
from treetop.core.executor.threads import blocks
from treetop.core.texts import Texts
from treetop.core.types import Ranking

ROWS = 4096  # documents that are worth a task of a cluster
Rank = Callable[[Texts, Mapping[str, Csr]], Ranking]


def ranked(rank: Rank, texts: Texts, given: Mapping[str, Csr]) -> Ranking:
    """`rank(texts, given)`; on a cluster, nodes share the documents."""
    here, n = executor.current(), len(texts)
    if not here.remote or n < 2 * ROWS:
        return rank(texts, given)
    rank(texts.span(0, 1), _rows(given, 0, 1))  # what a model makes of itself at its first answer is shared as well
    ranges = blocks(n, max(ROWS, -(-n // here.pieces)))
    shards = [(texts.span(start, stop), _rows(given, start, stop)) for start, stop in ranges]
    return Ranking.concat(here.run(_ranked, shards, rank))


def _rows(given: Mapping[str, Csr], start: int, stop: int) -> dict[str, Any]:
    return {name: X[start:stop] for name, X in given.items()}


def _ranked(shard: tuple[Texts, Mapping[str, Csr]], rank: Rank) -> Ranking:
    return rank(*shard)
