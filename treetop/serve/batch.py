"""Micro-batches: whatever arrived while the last batch was computed is answered together.

A text alone costs five times as much as one of 32 (Python around the kernels). Where requests come faster than one a
millisecond or two, a batch waits a few milliseconds for more of them; otherwise nothing waits. What takes a few
milliseconds is computed where requests are read, in batches that are cut to that time, as a second thread would cost
more than it brings; a request that takes longer is computed on a thread of its own, so that health checks and refusals
go on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from treetop.core.texts import Texts
from treetop.kernels.runtime import threads
from treetop.model import Label
from treetop.serve.served import Served

LARGEST = 256  # texts of a batch
LONGEST = 1 << 20  # characters of a batch, but for a single request
QUICK = 0.004  # seconds of a batch that is computed where requests are read
FADE = 0.1  # weight of the newest batch in the time a character takes, and of the newest gap between two requests
MOST = 2.0  # times of late that a batch counts as having taken
LINGER = 0.004  # seconds a batch waits for more requests where they come often
WORTH = 3  # requests expected within that time that make it worth to wait


@dataclass(frozen=True)
class Row:
    """What a model says of one text."""

    labels: list[Label]
    unknown: bool
    known_words: float | None


Result = list[Row] | Exception


@dataclass(eq=False)
class Job:
    """Texts of one request."""

    served: Served
    texts: list[str]
    k: int
    answer: asyncio.Future[list[Row]]
    since: float
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.texts))


class Batcher:
    """Collects requests and computes batch after batch."""

    def __init__(self, n_threads: int) -> None:
        self.seconds = 0.0  # a text and a thousand characters take, of late; at first a thread finds out
        self._measured = False
        self._waiting: deque[Job] = deque()
        self._computing: list[Job] = []
        self._threads, self._running = n_threads, False
        self._gap, self._last = 1.0, 0.0  # seconds between two requests, of late; when the last one came
        self._pool = ThreadPoolExecutor(1, "predict")

    def submit(self, served: Served, texts: list[str], k: int) -> asyncio.Future[list[Row]]:
        """The best `k` labels of each text, later."""
        loop = asyncio.get_running_loop()
        job = Job(served, texts, k, loop.create_future(), loop.time())
        self._gap += FADE * (min(job.since - self._last, 1.0) - self._gap)
        self._last = job.since
        self._waiting.append(job)
        if not self._running:
            self._running = True
            if self._gap * WORTH <= LINGER:
                loop.call_later(LINGER, self._start, loop)
            else:
                loop.call_soon(self._start, loop)  # requests read in this round of the loop come along
        return job.answer

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        while batch := self._next():
            if not self._is_quick(_units(batch)):
                self._computing = batch
                computed = loop.run_in_executor(self._pool, self._compute, batch)
                computed.add_done_callback(partial(self._deliver, loop, batch))
                return
            _hand_out(batch, self._compute(batch))
            if self._waiting:
                loop.call_soon(self._start, loop)  # answers go out first
                return
        self._running = False

    def _is_quick(self, units: float) -> bool:
        return self._measured and units * self.seconds <= QUICK

    def _deliver(self, loop: asyncio.AbstractEventLoop, batch: list[Job], done: asyncio.Future[list[Result]]) -> None:
        _hand_out(batch, done.result())
        self._computing = []
        self._start(loop)

    def _next(self) -> list[Job]:
        """The first job that is still wanted, and those behind it that go with it."""
        batch: list[Job] = []
        texts, size, quick = 0, 0, False
        while self._waiting:
            job = self._waiting[0]
            if not job.answer.done():
                texts, size = texts + len(job.texts), size + job.size
                fits = not batch or (
                    (job.served, job.k) == (batch[0].served, batch[0].k)
                    and texts <= LARGEST
                    and size <= LONGEST
                    and self._is_quick(texts + size / 1000) >= quick  # a quick batch stays one
                )
                if not fits:
                    break
                batch.append(job)
                quick = self._is_quick(texts + size / 1000)
            self._waiting.popleft()
        return batch

    def _compute(self, batch: list[Job]) -> list[Result]:
        """What each job gets; if the batch fails, each is computed alone, so that one text does not fail the others."""
        started = time.perf_counter()
        try:
            results: list[Result] = list(self._rows(batch))
        except Exception as error:
            results = [error] if len(batch) == 1 else [self._compute([job])[0] for job in batch]
        took = (time.perf_counter() - started) / _units(batch)
        if self._measured:  # a moment in which others had the machine says little
            self.seconds += FADE * (min(took, MOST * self.seconds) - self.seconds)
        else:
            self.seconds, self._measured = took, True
        return results

    def _rows(self, batch: list[Job]) -> Iterator[list[Row]]:
        packed = Texts.of([text for job in batch for text in job.texts])
        served, at = batch[0].served, 0
        with threads.limited(self._threads):
            labels, unknown, known = served.model.predict_known(packed, batch[0].k)
        shares = [None if share != share else share for share in known.tolist()]  # NaN: the model cannot tell
        rows = [Row(*row) for row in zip(labels, unknown.tolist(), shares, strict=True)]
        for job in batch:
            yield rows[at : at + len(job.texts)]
            at += len(job.texts)

    def expire(self, before: float) -> None:
        """Give up requests that came before a time (of the loop)."""
        for job in [*self._computing, *self._waiting]:
            if job.since < before and not job.answer.done():
                job.answer.set_exception(TimeoutError())

    def close(self) -> None:
        """Let the thread end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _units(batch: list[Job]) -> float:
    """How much work a batch is: a text counts as much as a thousand characters."""
    return sum(len(job.texts) + job.size / 1000 for job in batch)


def _hand_out(batch: list[Job], results: list[Result]) -> None:
    for job, result in zip(batch, results, strict=True):
        if job.answer.done():
            continue  # given up meanwhile
        if isinstance(result, Exception):
            job.answer.set_exception(result)
        else:
            job.answer.set_result(result)
