"""Blocks of work on a thread pool: fixed block sizes and results in block order, so threads never change results.

Kernels are compiled `nogil` and never `parallel=True` (numba's own layer aborts when two Python threads enter it).
Where there are several blocks, the BLAS keeps to one thread inside each (`blas.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from treetop.core.executor.blas import one_thread

T = TypeVar("T")
_count: ContextVar[int | None] = ContextVar("threads", default=None)


def count() -> int:
    """Threads to use: the surrounding `limited(n)`, else the cores this process may run on."""
    chosen = _count.get()
    return cores() if chosen is None else chosen


def cores() -> int:
    """The cores this process may run on; where the system does not say (macOS, Windows), all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited(n: int | None) -> Iterator[None]:
    """Use `n` threads inside the block (None: all cores)."""
    token = _count.set(n if n is None else max(1, n))
    try:
        yield
    finally:
        _count.reset(token)


def blocks(n: int, size: int) -> list[tuple[int, int]]:
    """Ranges of at most `size` that cover 0..n; the cut depends on nothing else."""
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def run(work: Callable[[int, int], T], ranges: Sequence[tuple[int, int]]) -> list[T]:
    """`work(start, stop)` for every range, on the pool; results in the order of `ranges`."""
    return [work(*ranges[0])] if len(ranges) == 1 else list(stream(work, ranges))


def stream(work: Callable[[int, int], T], ranges: Sequence[tuple[int, int]]) -> Iterator[T]:
    """Like `run`, yielding results in order while later ranges run; few results are buffered at a time."""
    threads = min(count(), len(ranges))
    if len(ranges) <= 1:
        yield from (work(start, stop) for start, stop in ranges)
        return
    if threads == 1:
        with one_thread():
            yield from (work(start, stop) for start, stop in ranges)
        return
    with one_thread(), ThreadPoolExecutor(threads) as pool:
        waiting: list[Future[T]] = []
        try:
            for start, stop in ranges:
                waiting.append(pool.submit(work, start, stop))
                if len(waiting) > 2 * threads:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
