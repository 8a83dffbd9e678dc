"""Shards as tasks of a Ray cluster, one core each.

Ray schedules, moves objects and starts a task again where a process or node died. What is left to do here: refuse a
cluster that will not do before the work starts, keep few tasks under way, hand back results in order, and submit a
shard again when Ray has given up on it.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import re
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from treetop.core.errors import ConfigError, ResourceError, WorkError, extra
from treetop.core.executor import nodes, threads
from treetop.core.executor.executor import LOCAL, Executor, current, using
from treetop.core.forecast import size
from treetop.core.installed import command_for
from treetop.core.log import logger

T = TypeVar("T")
ALLOWED = "Give auto (the cluster that this machine is part of), HOST:PORT, ray://HOST:PORT or local:CORES."
PER_CORE = 4  # shards that a large job is cut into
AHEAD = 3  # tasks under way for each core; their results wait in the object store until it is their turn
RETRIES = 5  # by Ray, after a process or a node died
TRIES = 3  # of ours, each with its own retries by Ray
CONNECT = 5.0  # seconds


@dataclass(frozen=True, eq=False)
class Shared:
    """A value in the object store: the driver's own, and the reference that tasks get it by."""

    value: Any
    reference: Any


class Cluster(Executor):
    """Shards on the nodes of a Ray cluster; `cluster` opens one."""

    remote = True

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.nodes = nodes.check_nodes(ray)
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(_call)

    @property
    def cores(self) -> int:
        """Of the nodes that are there now."""
        self.nodes = nodes.alive(self._ray) or self.nodes
        return sum(node.cores for node in self.nodes)

    @property
    def pieces(self) -> int:
        return PER_CORE * self.cores

    def share(self, value: Any) -> Shared:
        """Put a value into the object store; every node fetches it once."""
        nodes.check_store(self.nodes, size_of(value), "data that all shards read")
        try:
            return Shared(value, self._ray.put(value))
        except self._ray.exceptions.ObjectStoreFullError:
            raise ResourceError(
                f"--cluster: the object store has no room for {size(size_of(value))} of data that all shards read. "
                "Start Ray with a larger --object-store-memory."
            ) from None

    def on_each_node(self, question: Callable[..., T], *given: Any) -> list[T]:
        return nodes.ask_each(self._ray, self.nodes, question, *given)

    def stream(self, work: Callable[..., T], shards: Iterable[Any], *shared: Any, gpus: int = 0) -> Iterator[T]:
        """Results in order; a single shard is not worth the way and runs here."""
        source = iter(shards)
        first = list(islice(source, 2))
        if len(first) < 2 and not gpus:
            values = [item.value if isinstance(item, Shared) else item for item in shared]
            yield from LOCAL.stream(work, first, *values)
            return
        task = self._task.options(num_gpus=gpus)
        held = [item if isinstance(item, Shared) else self.share(item) for item in shared]
        references = [item.reference for item in held]

        def submit(shard: Any) -> Any:
            return task.remote(nodes.code(), work, shard, *references)

        waiting: deque[tuple[Any, Any]] = deque()
        room = AHEAD * self.cores
        try:
            for shard in chain(first, source):
                waiting.append((submit(shard), shard))
                if len(waiting) >= room:
                    yield self._result(*waiting.popleft(), submit)
            while waiting:
                yield self._result(*waiting.popleft(), submit)
        finally:
            for reference, _ in waiting:
                with suppress(Exception):  # the cluster may be gone
                    self._ray.cancel(reference)

    def _result(self, reference: Any, shard: Any, submit: Callable[[Any], Any]) -> Any:
        """The result of a task, copied so that the object store can forget it; a lost shard is submitted again."""
        lost = self._ray.exceptions
        for attempt in range(1, TRIES + 1):
            try:
                return copy.deepcopy(self._ray.get(reference))
            except lost.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
            except (lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError, lost.OutOfMemoryError) as error:
                if attempt == TRIES:
                    raise WorkError(
                        f"--cluster: a shard was lost {TRIES * (RETRIES + 1)} times ({type(error).__name__}), as "
                        "processes or nodes ended, perhaps for lack of memory. What is finished is kept: run again "
                        "with --resume, or with fewer cores per node."
                    ) from None
                logger.warning("a shard was lost with the process that had it (%s); again", type(error).__name__)
                reference = submit(shard)
        raise AssertionError  # the loop returns or raises


def _call(code: str, work: Callable[..., T], shard: Any, *shared: Any) -> T:
    """What a task does, in a process on some node: one shard on one thread."""
    if nodes.code() != code:  # a node that joined after the check
        raise WorkError("--cluster: a node that joined has other code of treetop. Install the same on all machines.")
    with threads.limited(1):
        return work(shard, *shared)


def size_of(value: Any) -> float:
    """Bytes of the arrays in a value, and of the rest."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return float(len(rest) + sum(array.raw().nbytes for array in arrays))


@contextmanager
def cluster(address: str | None) -> Iterator[Executor]:
    """Run shards on the cluster at `address` inside the block (None: as before); it is checked before anything runs."""
    if address is None:
        yield current()
        return
    check_address(address)
    ray = extra("ray", "cluster")
    _check_protocol(address)
    logging.getLogger("ray").setLevel(logging.ERROR)
    before = ray.is_initialized()  # by a program that uses Ray itself
    if not before:
        _open(ray, address)
    try:
        executor = Cluster(ray)
        store = min(node.store for node in executor.nodes)
        logger.info(
            "cluster: %d %s with %d cores, object stores of %s",
            len(executor.nodes),
            "node" if len(executor.nodes) == 1 else "nodes",
            executor.cores,
            size(store),
        )
        with using(executor):
            yield executor
    finally:
        if not before:
            ray.shutdown()


def check_address(address: str) -> None:
    """Refuse what is no address, or one where nothing listens."""
    local = re.fullmatch(r"local:([0-9]+)", address)
    if address == "auto" or (local is not None and 1 <= int(local[1]) <= 4096):
        return
    place = re.fullmatch(r"(?:ray://)?(\[[0-9a-fA-F:.]+\]|[^\s:/]+):([0-9]+)", address)
    if place is None or address.startswith("local:") or not 0 < int(place[2]) < 65536:
        raise ConfigError(f"--cluster '{address}': is no cluster. {ALLOWED}")
    try:
        socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=CONNECT).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        option = "--ray-client-server-port" if address.startswith("ray://") else "--port"
        raise WorkError(
            f"--cluster {address}: nothing answers there ({reason}). Start Ray with `ray start --head {option} "
            f"{place[2]}`, or correct the address."
        ) from None


def _check_protocol(address: str) -> None:
    """Refuse an address where something else than Ray listens, which Ray itself would try for many minutes."""
    if ":" not in address or address.startswith("local:") or os.environ.get("RAY_USE_TLS", "0") == "1":
        return
    grpc = extra("grpc", "cluster")
    with grpc.insecure_channel(address.removeprefix("ray://")) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=2 * CONNECT)
        except grpc.FutureTimeoutError:
            raise WorkError(f"--cluster {address}: something listens there, but it is not Ray. Correct it.") from None


def _open(ray: Any, address: str) -> None:
    """Join the cluster, or start one on this machine."""
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        with _silent():
            if address.startswith("local:"):
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                ray.init(num_cpus=int(address[6:]), include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        if ray.is_initialized():
            ray.shutdown()
        raise WorkError(f"--cluster {address}: {_reason(error)}") from None


@contextmanager
def _silent() -> Iterator[None]:
    """Without what libraries of Ray print while they try to connect, again and again; an error says it once."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        for number in (kept, nowhere):
            os.close(number)


def _reason(error: Exception) -> str:
    """Why Ray refused, and what to do, in a sentence."""
    text = " ".join(str(error).split())
    if "ersion mismatch" in text:
        found = re.findall(r"(?:Ray|ray): ?([0-9][\w.]*)|Python: ?([0-9][\w.]*)", text)
        named = ", ".join(ray or f"Python {python}" for ray, python in found)
        return (
            f"the versions of Ray or Python differ between the cluster and this machine ({named or text[:200]}). "
            "Install the same on all machines."
        )
    if "any running Ray instance" in text:
        return "no Ray runs on this machine. Start it with `ray start --head`, or give the address of a cluster."
    if "grpc" in text.lower() and isinstance(error, ImportError):
        return f"ray:// needs the client of Ray. Install it with: {command_for('cluster')}"
    return (
        f"Ray cannot connect ({text[:300] or type(error).__name__}). See that this is the address of a Ray head, and "
        "set RAY_AUTH_MODE=token here if the cluster asks for a token (docs/cluster.md)."
    )
