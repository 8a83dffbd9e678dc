"""SIGTERM and Ctrl-C: an exception that cleans up, and a thread that ends the process where it comes too late.

Python raises between two of its own instructions, but a kernel may run for minutes. Kernels let other threads run, so
a thread that the system wakes at once (`signal.set_wakeup_fd`) waits a little and then ends the process itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from treetop.core import leftovers

INTERRUPTED, TERMINATED = 130, 143  # exit codes after Ctrl-C and after SIGTERM
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
PATIENCE = 0.5  # seconds in which the exception may end the process
MESSAGE = "interrupted; temporary files were removed. Run the command again\n"

_came: list[int] = []  # signals, in order
_told = threading.Lock()  # taken by whoever writes the message
_pipe: list[int] = []  # both ends of the pipe that wakes the thread


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Both signals raise KeyboardInterrupt once, and end the process soon; earlier handlers return with the block."""
    with contextlib.suppress(OSError, RuntimeError):  # no more files or threads: the exception has to do
        _start_thread()
    unraisable, before = sys.unraisablehook, {number: signal.signal(number, _raise) for number in CODES}
    sys.unraisablehook = _silent
    woken = signal.set_wakeup_fd(_pipe[1] if _pipe else -1, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_thread() -> None:
    if not _pipe:
        ends = os.pipe()
        os.set_blocking(ends[1], False)
        threading.Thread(target=_watch, args=(ends[0],), name="treetop-ending", daemon=True).start()
        _pipe.extend(ends)


def came() -> bool:
    """Whether one of the signals came."""
    return bool(_came)


def leave() -> NoReturn:
    """End with the message and the exit code of the first signal; no signal counts as Ctrl-C."""
    tell()
    sys.exit(CODES[signal.Signals(_came[0])] if _came else INTERRUPTED)


def tell() -> None:
    """Write the message, once."""
    if _told.acquire(blocking=False):
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(MESSAGE)
            sys.stderr.flush()


def _raise(number: int, frame: object) -> None:
    """Interrupt once: what cleans up is not interrupted again."""
    _came.append(number)
    if len(_came) == 1:
        raise KeyboardInterrupt


def _silent(unraisable: Any) -> None:
    """An interrupt where Python cannot pass it on ends the process by the thread, so it is not worth a traceback."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _watch(pipe: int) -> None:
    """End the process `PATIENCE` after a signal, unless it has other handlers by now (a server)."""
    while True:
        number = os.read(pipe, 1)[0]
        if number in CODES and signal.getsignal(number) is _raise:
            time.sleep(PATIENCE)
            leftovers.remove_all()
            tell()
            os._exit(CODES[signal.Signals(number)])
