"""Files and folders that exist only until a piece of work ends: a process that must end at once removes them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

_live: set[Path] = set()


@contextlib.contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """Remember a file or folder while the block runs; whoever made it removes it."""
    _live.add(path)
    try:
        yield path
    finally:
        _live.discard(path)


def remove_all() -> None:
    """Remove what is remembered, whatever still writes into it."""
    for path in list(_live):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
