"""Numbers only: knows arrays, no word of XMC. Each fast kernel has a slow, plain twin, in `reference.py` or beside it.

Compiled code is cached on disk between processes. numba's own cache looks at one file at a time and would miss an
edit in a file that another one calls, so the cache folder carries a hash of every kernel file. Nor does it lock what
it writes: of two processes that compile a kernel for different types, one could leave its code under the other's name.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

from treetop.core.log import logger


class _TellOnce(numba.core.event.Listener):  # type: ignore[name-defined, misc]
    """Says why nothing seems to happen when a kernel of ours is compiled, the first time in a process."""

    told = False

    def on_start(self, event: object) -> None:
        kernel = getattr(event, "data", {}).get("dispatcher")
        if not self.told and getattr(kernel, "__module__", "").startswith("treetop."):
            self.told = True
            logger.info("compiling numeric kernels for this machine; this takes up to a minute, once")

    def on_end(self, event: object) -> None:
        pass


numba.core.event.register("numba:compile", _TellOnce())  # type: ignore[no-untyped-call]  # only where the cache on disk has none


def _cache_folder() -> Path:
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    root = os.environ.get("TREETOP_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "treetop" / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: compile into a private folder instead of failing
        folder = Path(tempfile.gettempdir()) / f"treetop-{os.getuid()}" / folder.name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among all processes that write to a folder; where it takes no lock, together with them."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context((folder / ".lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)  # a process that is killed gives it back
            stack.callback(fcntl.flock, file, fcntl.LOCK_UN)  # for a child forked meanwhile, too
        yield


def _one_writer_at_a_time() -> None:
    plain: Any = IndexDataCacheFile.save
    if hasattr(plain, "__wrapped__"):  # done already
        return

    @functools.wraps(plain)
    def save(self: Any, key: Any, data: Any) -> None:
        with _locked(Path(self._cache_path)):
            plain(self, key, data)

    IndexDataCacheFile.save = save  # type: ignore[method-assign]


_one_writer_at_a_time()
if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]
