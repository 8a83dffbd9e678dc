"""How kernels are compiled: `kernel` for functions called from Python, `tight` for those inside its loops.

Both are compiled when first called, or, as `kernel_for`, at once for given types. They release the GIL, and their
code is cached on disk (`cache.py`).
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
        dispatcher: Any = _cached(function)
        dispatcher.compile(types)
        dispatcher.disable_compile()
        return cast("Callable[P, R]", dispatcher)

    return compiled


def tight(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, but without reference counting of arrays, which costs more than a short call itself.

    Such a function may be called only by a kernel, which owns the arrays, and must not allocate new ones.
    """
    return _cached(function, _nrt=False)


def reassociating(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, but sums may be reordered, which lets the compiler vectorise them."""
    return _cached(function, fastmath={"reassoc", "contract", "nsz"})


def _cached(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    dispatcher: Any = njit(function, nogil=True, **options)
    dispatcher._cache = KernelCache(function)
    return cast("Callable[P, R]", dispatcher)
