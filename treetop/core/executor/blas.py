"""One thread of numpy's BLAS, where the threads of the pool share the work already.

A BLAS that starts threads of its own for every block makes them wait for each other. Numpy's wheels bring OpenBLAS,
which can be told; other libraries are left as they are.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")
_lock = threading.Lock()
_held = {"depth": 0, "before": 1}


@cache
def _controls() -> tuple[Any, Any] | None:
    """(get, set) the number of threads; None where this is not known."""
    folder = Path(np.__file__).parent
    for file in sorted([*folder.with_name("numpy.libs").glob("*openblas*"), *folder.glob(".dylibs/*openblas*")]):
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue
        for name in NAMES:
            found = [getattr(library, name.format(verb), None) for verb in ("get", "set")]
            if None not in found:
                return found[0], found[1]
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the BLAS use the calling thread alone; whoever is last inside restores what was set."""
    controls = _controls()
    if controls is None:
        yield
        return
    get, put = controls
    with _lock:
        if _held["depth"] == 0:
            _held["before"] = int(get())
            put(1)
        _held["depth"] += 1
    try:
        yield
    finally:
        with _lock:
            _held["depth"] -= 1
            if _held["depth"] == 0:
                put(_held["before"])
