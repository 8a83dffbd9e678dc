"""The clock of a time budget: when a training should be done with its steps, and when it must stop.

A network trains fewer steps where all of them would not end in time (`train/loop.py`) and keeps what it has. What
cannot be shortened asks now and then whether it may go on: `check` ends it, for someone who has another way.
Moments are those of `time.monotonic`; without a budget nothing is ever late.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from treetop.core.errors import ResourceError

_steps: ContextVar[float] = ContextVar("steps", default=math.inf)
_stop: ContextVar[float] = ContextVar("stop", default=math.inf)


class TimeUpError(ResourceError):
    """The time budget is used up."""


@contextmanager
def ending(*, steps: float = math.inf, stop: float = math.inf) -> Iterator[None]:
    """Inside, training steps should end by the moment `steps`, and everything by `stop`; outer limits stay."""
    tokens = _steps.set(min(steps, _steps.get())), _stop.set(min(stop, _stop.get()))
    try:
        yield
    finally:
        _steps.reset(tokens[0])
        _stop.reset(tokens[1])


def seconds_for_steps() -> float:
    """Seconds that are left for training steps; infinite without a budget."""
    return _steps.get() - time.monotonic()


def check(what: str) -> None:
    """Refuse to go on with `what` where the time is up."""
    if time.monotonic() > _stop.get():
        raise TimeUpError(f"{what}: the time budget is used up. Raise it (--budget time=...), or use less data.")
