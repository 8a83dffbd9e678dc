"""Compiled kernels on disk, one file each, for all processes of one user.

numba's own cache looks at one source file at a time, so that it misses an edit in a file another one calls; it takes
no lock, so that of two processes one may leave its code under the other's name; and it runs whatever lies in its
folder, be it damaged or another user's. Here a file is named by a hash of all that decides its code, carries a hash of
its content, is put in place by one rename, and is read only where nobody but this user can have written it. Where no
folder will do, each process compiles for itself.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import compiler, serialize
from numba.core.caching import _Cache

from treetop.core.log import logger

PLACES = ("NUMBA_CACHE_DIR", "TREETOP_CACHE", "XDG_CACHE_HOME")  # environment variables, the first one set counts
ANNOUNCED = "announced"  # a file that says that compiling was announced on this machine
HASH = hashlib.sha256().digest_size
_dumps: Callable[[Any], bytes] = serialize.dumps
_rebuild: Callable[..., Any] = compiler.CompileResult._rebuild


class KernelCache(_Cache):
    """Replaces numba's own cache: stores the compiled code of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str | None:
        place = folder()
        return None if place is None else str(place)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for these types, or None where it has to be compiled; a damaged file is removed."""
        target_context.refresh()
        place = folder()
        if place is not None and (code := self._stored(place, sig, target_context)) is not None:
            return code
        _announce_compilation(cached=place is not None)
        return None

    def _stored(self, place: Path, sig: Any, target_context: Any) -> Any:
        file = None
        try:
            key = self._key(sig, target_context.codegen())
            file = place / self._name(key)
            stored, code = pickle.loads(_read(file))
            return _rebuild(target_context, *code) if stored == key else None
        except (OSError, MemoryError):  # not there, or out of reach
            return None
        except Exception:  # of what a damaged file may raise
            if file is None:
                raise
            with suppress(OSError):
                file.unlink()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code; where that fails, the next process compiles again."""
        place = folder()
        if place is None or data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            return
        with suppress(OSError):
            key = self._key(sig, data.codegen)
            _write(place / self._name(key), _dumps((key, data._reduce())))

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """What determines the code besides the kernel files, whose hash names the folder; OSError without source."""
        function = self._function
        code, cells = function.__code__, tuple(cell.cell_contents for cell in function.__closure__ or ())
        inner = hashlib.sha256(code.co_code + _dumps(cells)).hexdigest()
        return sig, codegen.magic_tuple(), function.__qualname__, code.co_firstlineno, inner, _source(code.co_filename)

    def _name(self, key: tuple[Any, ...]) -> str:
        readable = re.sub(r"\W+", "-", f"{self._function.__module__.rpartition('.')[2]}.{self._function.__qualname__}")
        return f"{readable[:80]}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}"


@functools.cache
def _source(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _read(file: Path) -> bytes:
    """What `_write` put there; anything else is an error."""
    with file.open("rb") as source:
        if not _ours(os.fstat(source.fileno())):
            raise PermissionError(file)
        raw = source.read()
    if hashlib.sha256(raw[HASH:]).digest() != raw[:HASH]:
        raise ValueError(file)
    return raw[HASH:]


def _write(file: Path, content: bytes) -> None:
    descriptor, fresh = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(hashlib.sha256(content).digest() + content)
        Path(fresh).replace(file)
    except OSError:
        Path(fresh).unlink(missing_ok=True)
        raise


@functools.cache
def folder() -> Path | None:
    """Where compiled kernels are kept: a folder that only this user can write to, or None where there is none."""
    name = f"kernels-{_sources()}"
    for base, home in _homes():
        with suppress(OSError):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            unsafe = _unsafe(base, home, name)
            if unsafe is None:
                return base / home / name
            logger.warning(
                "%s: not used for compiled kernels, as it is a link, or another user owns it or may write to it. Set "
                "TREETOP_CACHE to a folder of your own.",
                unsafe,
            )
    return None


def _homes() -> Iterator[tuple[Path, str]]:
    """Folders that may hold a cache, each with the name of ours in it, best first."""
    named = next(filter(None, map(os.environ.get, PLACES)), None)
    with suppress(OSError, RuntimeError):  # no working folder; no home
        yield (Path(named).absolute() if named else Path.home() / ".cache"), "treetop"
    with suppress(OSError):  # no folder for temporary files
        yield Path(tempfile.gettempdir()), f"treetop-{os.geteuid() if hasattr(os, 'geteuid') else 'kernels'}"


def _unsafe(base: Path, *names: str) -> Path | None:
    """Make the folders below `base`; returns the first into which another user may have put something."""
    found = base.stat()
    if hasattr(os, "geteuid") and (
        found.st_uid not in {0, os.geteuid()} or (found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX)
    ):
        return base
    for name in names:
        base /= name
        with suppress(FileExistsError):
            base.mkdir(mode=0o700)
        found = base.lstat()
        if not (stat.S_ISDIR(found.st_mode) and _ours(found)):
            return base
    tempfile.TemporaryFile(dir=base).close()  # it may belong to us and yet be out of reach: OSError
    return None


def _ours(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and nobody else may write to it."""
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def _sources() -> str:
    """A hash of every kernel file, the interpreter and numba: other code, other folder."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    for file in sorted(Path(__file__).parent.parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def holds(kernel: str) -> bool:
    """Whether code of a kernel (its module and name, or the start of them) is on disk."""
    place = folder()
    return place is not None and any(file.name.startswith(kernel) for file in place.iterdir())


@functools.cache
def _announce_compilation(*, cached: bool) -> None:
    """Log that kernels are being compiled: once per machine, and where none are kept once per process."""
    place = folder() if cached else None
    if place is not None and logger.isEnabledFor(logging.INFO):
        try:
            (place / ANNOUNCED).touch(mode=0o600, exist_ok=False)
        except OSError:  # there already
            return
    often = "once" if cached else "in every process, as no folder to keep them in is safe and writable (TREETOP_CACHE)"
    logger.info("compiling numeric kernels for this machine; this takes up to a minute, %s", often)
