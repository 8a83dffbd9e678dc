"""One logger, one progress bar. Library code logs and never prints; the command decides what is shown."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from treetop.core.errors import shortened, visible

logger = logging.getLogger("treetop")
logger.addHandler(logging.NullHandler())

_state: dict[str, Any] = {"bars": False}


def show(*, level: int = logging.INFO, bars: bool = True) -> None:
    """Send log lines to standard error and draw progress there; the command line calls this once."""
    logger.handlers = [handler for handler in logger.handlers if isinstance(handler, logging.NullHandler)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Format())
    logger.addHandler(handler)
    logger.setLevel(level)
    _state["bars"] = bars


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log lines and bars except warnings, for nested work."""
    level, bars = logger.level, _state["bars"]
    logger.setLevel(logging.WARNING)
    _state["bars"] = False
    try:
        yield
    finally:
        logger.setLevel(level)
        _state["bars"] = bars


@contextmanager
def each_once() -> Iterator[None]:
    """Show a warning that several trainings repeat only once."""
    seen: set[str] = set()

    def new(record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        before = len(seen)
        seen.add(record.getMessage())
        return len(seen) > before

    logger.addFilter(new)
    try:
        yield
    finally:
        logger.removeFilter(new)


class _Format(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno < logging.WARNING else record.levelname.lower() + ": "
        return prefix + visible(shortened(record.getMessage()))


class Progress:
    """Counts steps of a long job; `step(n)` moves it, `note(text)` shows a text next to it."""

    def __init__(self, title: str, total: int | None, bar: Any = None) -> None:
        self.title, self.total, self.done = title, total, 0
        self._bar = bar
        self._task = bar.add_task(title, total=total) if bar is not None else None
        self._started = self._spoke = time.monotonic()

    def step(self, count: int = 1) -> None:
        self.done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif time.monotonic() - self._spoke > 30.0 and self.done != self.total:  # a log file gets a line now and then
            self._spoke = time.monotonic()
            logger.info("%s: %s", self.title, self.remaining())

    def note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self.title} ({text})")

    def remaining(self) -> str:
        """Progress and remaining seconds as text."""
        spent = time.monotonic() - self._started
        if not self.total or not self.done:
            return f"{self.done:,} done in {spent:.0f} s"
        left = spent * max(self.total - self.done, 0) / self.done
        return f"{self.done:,} of {self.total:,}, about {left:.0f} s left"


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Progress]:
    """A progress bar on standard error when it is a terminal and the command asked for bars, else sparse log lines."""
    if not (_state["bars"] and sys.stderr.isatty()):
        yield Progress(title, total)
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    with bars.Progress(*columns, bars.TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        yield Progress(title, total, bar)
