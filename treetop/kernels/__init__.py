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


def _cache_folder() -> Path:
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    root = os.environ.get("TREETOP_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "treetop" / f"kernels-{digest.hexdigest()[:16]}"
    if not folder.exists():
        logger.info("compiling the numeric kernels; this takes about a minute, once")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: compile into a private folder instead of failing
        folder = Path(tempfile.gettempdir()) / f"treetop-{os.getuid()}" / folder.name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]
