"""Whether the compiler of the kernels is there: they have no other form, so its absence is said before any is used."""

from __future__ import annotations

import importlib

from treetop.core.errors import MissingExtraError

REMEDY = "Install versions that go together with: pip install --upgrade numba numpy scipy"


def check_compiler() -> None:
    """Refuse to go on without a numba that compiles; every kernel needs it."""
    try:
        numba = importlib.import_module("numba")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in {"numba", "llvmlite"}:
            raise
        raise MissingExtraError(
            f"numeric kernels need the package '{error.name.split('.')[0]}', which is not installed. "
            "Install it with: pip install numba"
        ) from None
    except (ImportError, OSError) as error:  # numba refuses versions of numpy it does not know; a library is missing
        reason = " ".join(str(error).split()).rstrip(".")
        raise MissingExtraError(f"numeric kernels need the package 'numba', which fails: {reason}. {REMEDY}") from error
    if numba.config.DISABLE_JIT:
        raise MissingExtraError(
            "numeric kernels need numba's compiler, which NUMBA_DISABLE_JIT turns off. Remove this variable from the "
            "environment."
        )
