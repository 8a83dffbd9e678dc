"""The contract of an executor: a function is called for every shard of a job, and results come in order of the shards.

What all shards read is shared: large arrays go to every node once and are read there without a copy. A shard's result
depends on nothing but the shard and what is shared, so neither the executor nor the cut into shards changes a bit of
a result. Threads are the default; `using` puts another executor in place for everything inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.executor import threads

T = TypeVar("T")


class Executor(ABC):
    """Calls `work(shard, *shared)` for every shard; `work` is a function of a module, so that its name is enough."""

    remote: ClassVar[bool]  # whether shards run in other processes

    @property
    @abstractmethod
    def cores(self) -> int:
        """Shards that run at a time."""

    @property
    @abstractmethod
    def pieces(self) -> int:
        """Shards that a large job should be cut into: enough that all cores work to the end."""

    @abstractmethod
    def share(self, value: T) -> Any:
        """`value` for `stream` to share, put where nodes read it once for several calls; nobody may change it."""

    @abstractmethod
    def stream(self, work: Callable[..., T], shards: Iterable[Any], *shared: Any, gpus: int = 0) -> Iterator[T]:
        """Results in order of the shards, while later ones run; few wait at a time, and no shard is made early.

        `gpus` are those that each shard needs for itself.
        """

    def on_each_node(self, question: Callable[..., T], *given: Any) -> list[T]:
        """What `question(*given)` returns on every node, for what nodes may see differently."""
        return [question(*given)]

    def run(self, work: Callable[..., T], shards: Iterable[Any], *shared: Any) -> list[T]:
        """All results of `stream`."""
        return list(self.stream(work, shards, *shared))


class Threads(Executor):
    """Shards on the threads of this process, which share all memory anyway."""

    remote = False

    @property
    def cores(self) -> int:
        return threads.count()

    @property
    def pieces(self) -> int:
        return 256  # whatever the number of threads: progress is shown after each, and an idle thread waits for few

    def share(self, value: T) -> T:
        return value

    def stream(self, work: Callable[..., T], shards: Iterable[Any], *shared: Any, gpus: int = 0) -> Iterator[T]:
        listed = list(shards)
        return threads.stream(lambda i, _: work(listed[i], *shared), [(i, i + 1) for i in range(len(listed))])


LOCAL = Threads()
_current: ContextVar[Executor] = ContextVar("executor", default=LOCAL)


def current() -> Executor:
    """The executor in use."""
    return _current.get()


@contextmanager
def using(executor: Executor) -> Iterator[Executor]:
    """Run shards on this executor inside the block."""
    token = _current.set(executor)
    try:
        yield executor
    finally:
        _current.reset(token)


def cut(costs: NDArray[Any], pieces: int) -> list[tuple[int, int]]:
    """At most `pieces` ranges of neighbours that together cover all items and cost about the same each.

    >>> cut(np.array([8, 1, 1, 1, 1, 4]), 3)
    [(0, 1), (1, 4), (4, 6)]
    """
    n = len(costs)
    if n == 0:
        return []
    ends = np.cumsum(np.maximum(costs, 0), dtype=np.float64)
    if not ends[-1] > 0:
        ends = np.arange(1, n + 1, dtype=np.float64)
    wanted = ends[-1] * np.arange(1, pieces) / pieces
    bounds = np.unique([0, *(np.searchsorted(ends, wanted, side="left") + 1).tolist(), n]).tolist()
    return list(pairwise(bounds))
