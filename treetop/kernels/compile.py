"""How kernels are compiled: `kernel` for what is called from Python, `tight` for what runs inside its loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled, cached on disk, without the lock of the interpreter."""
    return cast("Callable[P, R]", njit(function, cache=True, nogil=True))


def tight(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, but without counting references to arrays, which costs more than the work of a short call.

    Such a function may be called only by a kernel, which owns the arrays, and must not make new ones.
    """
    return cast("Callable[P, R]", njit(function, cache=True, nogil=True, _nrt=False))  # type: ignore[call-overload]
