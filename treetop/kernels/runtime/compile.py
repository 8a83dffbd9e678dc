"""How kernels are compiled: `kernel` for what is called from Python, `tight` for what runs inside its loops.

Both are compiled when first called, or, as `kernel_for`, at once for given types. They run without the lock of the
interpreter, and their code is kept on disk (`cache.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit

from treetop.kernels.runtime.cache import KernelCache

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled for the types it is called with."""
    return _cached(function)


def kernel_for(*types: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compiled for these types of arguments and no others."""

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        made: Any = _cached(function)
        if hasattr(made, "disable_compile"):  # not with NUMBA_DISABLE_JIT
            made.compile(types)
            made.disable_compile()
        return cast("Callable[P, R]", made)

    return compiled


def tight(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, but without counting references to arrays, which costs more than the work of a short call.

    Such a function may be called only by a kernel, which owns the arrays, and must not make new ones.
    """
    return _cached(function, _nrt=False)


def reassociating(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, but sums may be taken in another order, which lets the compiler use whole registers."""
    return _cached(function, fastmath={"reassoc", "contract", "nsz"})


def _cached(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    made: Any = njit(function, nogil=True, **options)
    if hasattr(made, "enable_caching"):
        made._cache = KernelCache(function)
    return cast("Callable[P, R]", made)
