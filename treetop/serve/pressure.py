"""How many texts may be in flight: as many as are answered within 50 ms at the measured rate, then 429.

By Little's law the time a text spends here is texts in flight divided by the rate. Each worker measures its own rate
while it has something to do, and takes its part of the limit of all workers. The time a request lay unread in its
connection counts as well: where that stays long, the worker does not keep up with reading, and refuses what is old.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from treetop.serve.problem import Busy
from treetop.serve.settings import IN_FLIGHT

AIM = 0.05  # seconds a text may wait and be answered in
OLD = 0.03  # seconds a request may lie unread
GRACE = 0.1  # seconds of old requests before they are refused: a pause of the machine is none of the clients' fault
FEWEST = 8  # texts in flight that are always allowed
WINDOW = 0.25  # seconds of work after which the rate is renewed
WINDOWS = 8  # the best of the last ones counts, as a moment in which others had the machine says little
OTHERS = 32  # requests of other kinds that a worker answers at a time


class Pressure:
    """Counts the texts in flight in one worker and says when there are too many."""

    def __init__(self, workers: int = 1, rate: float = 1000.0, clock: Callable[[], float] = time.perf_counter) -> None:
        self.most = max(FEWEST, IN_FLIGHT // workers)
        self.rate = rate
        self._rates: deque[float] = deque([rate], WINDOWS)
        self.texts = self.others = 0
        self._clock = clock
        self._busy_since = 0.0
        self._busy = self._done = 0.0
        self._old_since, self._old_last = -GRACE, -GRACE  # when old requests began to come; when the last one came

    @property
    def limit(self) -> int:
        """Texts that may be in flight."""
        return min(self.most, max(FEWEST, int(self.rate * AIM)))

    def check(self, unread: float = 0.0) -> None:
        """Refuse a request if there are too many texts in flight already, or if it lay unread for too long."""
        if unread > OLD:
            self._check_old()
        elif self.texts >= max(FEWEST, self.limit * (1 - unread / AIM)):
            raise _too_many(f"{self.texts} texts are being answered")

    def _check_old(self) -> None:
        now = self._clock()
        if now - self._old_last > GRACE:
            self._old_since = now
        self._old_last = now
        if self.texts >= (FEWEST if now - self._old_since > GRACE else self.limit):
            raise _too_many(f"{self.texts} texts are being answered, and more wait to be read")

    def enter(self, texts: int) -> None:
        """So many texts more are in flight."""
        if not self.texts:
            self._busy_since = self._clock()
        self.texts += texts

    def leave(self, texts: int) -> None:
        """They are answered, or given up."""
        self.texts -= texts
        self._done += texts
        now = self._clock()
        busy = self._busy + now - self._busy_since
        if busy >= WINDOW:
            self._rates.append(self._done / busy)
            self.rate = max(self._rates)
            self._busy = self._done = 0.0
            self._busy_since = now
        elif not self.texts:
            self._busy = busy

    def enter_other(self) -> None:
        """A request of another kind begins; refused if there are too many."""
        if self.others >= OTHERS:
            raise _too_many(f"{self.others} requests are being answered")
        self.others += 1

    def leave_other(self) -> None:
        """It is answered."""
        self.others -= 1


def _too_many(what: str) -> Busy:
    return Busy(429, f"Too many requests: {what}. Try again in a second.", {"retry-after": "1"})
