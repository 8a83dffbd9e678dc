"""The parent of the workers: binds the port, starts them, replaces one that died, ends them all within five seconds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from treetop.core.errors import ModelError, ResourceError
from treetop.core.log import logger
from treetop.serve import metrics
from treetop.serve.feedback.store import FeedbackStore
from treetop.serve.settings import Settings
from treetop.serve.sockets import listen

END = 4.8  # seconds from the signal to the end; what still runs then is killed
STARTS, SPAN = 5, 30.0  # a worker that died so often within so many seconds is not started again
THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}


@dataclass
class Child:
    """A worker process and the pipe by which it tells that it is ready, and learns that its parent is gone."""

    process: SpawnProcess
    pipe: Connection
    started: float


class Parent:
    """Starts workers and looks after them."""

    def __init__(self, settings: Settings) -> None:
        self.sockets = listen(settings.host, settings.port, settings.workers)
        host, port = self.sockets[0].getsockname()[:2]
        self.settings = replace(settings, port=port)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self.figures = metrics.create([id_ for id_, _ in settings.models], settings.workers)
        self.children: dict[int, Child] = {}
        self._deaths: list[float] = []
        self._stopping = False

    def start(self) -> None:
        """Start all workers and wait until they answer; one that cannot start says why in one sentence."""
        with _environment(self.settings.threads):
            for slot in range(self.settings.workers):
                self.children[slot] = self._spawn(slot)
        for child in self.children.values():
            self._await_ready(child)

    def run(self) -> None:
        """Look after the workers until SIGTERM or SIGINT; SIGHUP makes them open the models again."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._reload)
        with _woken_by_signals() as wake:
            while not self._stopping:
                wait([wake, *(child.process.sentinel for child in self.children.values())])
                with contextlib.suppress(BlockingIOError):
                    wake.recv(1024)
                for slot, child in list(self.children.items()):
                    if not self._stopping and not child.process.is_alive():
                        self._replace(slot, child)

    def close(self) -> None:
        """End all workers, and remove the file of figures."""
        deadline = time.monotonic() + END
        for sock in self.sockets:  # or else clients could connect to a socket that nobody answers any more
            sock.close()
        for child in self.children.values():
            child.process.terminate()
        for child in self.children.values():
            child.process.join(max(0.0, deadline - time.monotonic()))
            if child.process.is_alive():
                child.process.kill()
                child.process.join()
        self.figures.unlink(missing_ok=True)

    def _spawn(self, slot: int) -> Child:
        from treetop.serve import worker

        context = multiprocessing.get_context("spawn")  # threads of numeric libraries do not survive a fork
        ours, theirs = context.Pipe()
        process = context.Process(
            target=worker.main, args=(self.settings, self.sockets[slot], self.figures, slot, theirs), daemon=True
        )
        process.start()
        theirs.close()
        return Child(process, ours, time.monotonic())

    def _await_ready(self, child: Child) -> None:
        from treetop.serve.worker import READY

        try:
            told = child.pipe.recv()
        except EOFError:
            child.process.join()
            told = f"serve: a worker ended with code {child.process.exitcode} before it was ready. Its output says why."
            raise ResourceError(told) from None
        if told != READY:
            raise ModelError(told)

    def _replace(self, slot: int, child: Child) -> None:
        now = time.monotonic()
        self._deaths = [then for then in self._deaths if now - then < SPAN] + [now]
        if len(self._deaths) > STARTS:
            raise ResourceError(f"serve: workers ended {len(self._deaths)} times in {SPAN:g} s. The log says why.")
        logger.error("worker %d ended with code %s; another takes its place", slot, child.process.exitcode)
        child.pipe.close()
        with _environment(self.settings.threads):
            self.children[slot] = self._spawn(slot)

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True

    def _reload(self, number: int, frame: object) -> None:
        for child in self.children.values():
            if child.process.pid is not None and child.process.is_alive():
                os.kill(child.process.pid, signal.SIGHUP)


def serve(settings: Settings) -> None:
    """Serve until told to stop."""
    if settings.feedback is not None:
        store = FeedbackStore(settings.feedback)
        store.open()
        store.close()
    parent = Parent(settings)
    try:
        parent.start()
        names = ", ".join(id_ for id_, _ in settings.models)
        logger.info("%s at %s, %d worker%s", names, parent.address, settings.workers, "s" * (settings.workers > 1))
        parent.run()
    finally:
        parent.close()


@contextlib.contextmanager
def _woken_by_signals() -> Iterator[socket.socket]:
    """A socket that a signal makes readable."""
    wake, woken = socket.socketpair()
    with wake, woken:
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(-1)  # another signal, while workers end, must not be written to what is closed


@contextlib.contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Numeric libraries of workers keep to their share of the cores, unless the user set it."""
    unset = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, str(threads)))
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)
