"""Numbers only: knows arrays, no word of XMC. Each fast kernel has a slow, plain twin, in `reference.py` or beside it.

Compiled code is cached on disk between processes. numba's own cache looks at one file at a time and would miss an
edit in a file that another one calls, so the cache folder carries a hash of every kernel file.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

import numba

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


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]
