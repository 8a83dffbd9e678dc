"""The files that a sealed list names, and the only way to read them: listed, plain and of the listed size."""

from __future__ import annotations

import hashlib
import os
from io import BufferedReader
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from treetop.core.arrays import map_arrays
from treetop.core.errors import ModelError
from treetop.core.folder import LARGEST, Folder
from treetop.core.sealed import Check

MAX_FILES = 100_000
AT_ONCE = 1 << 30  # bytes of all files that are read, not mapped


class Listed:
    """Files of a folder by a list {name: {"size", "sha256"}}, checked when it is made; hashes if `check` is "full"."""

    def __init__(self, folder: Folder, files: Any, check: Check) -> None:
        if not isinstance(files, dict) or len(files) > MAX_FILES:
            raise ModelError(f"{folder.path}: the list of files is malformed. Copy the model again.")
        self.folder, self._files, self._left = folder, files, AT_ONCE
        for name in files:
            with self._open(name) as source:
                if check == "full" and hashlib.file_digest(source, "sha256").hexdigest() != files[name].get("sha256"):
                    raise ModelError(
                        f"{self.place(name)}: changed after the model was saved (sha256 differs). Copy the model again."
                    )

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def place(self, name: str) -> Path:
        """The path of a file, for messages."""
        return self.folder.path / name

    def read(self, name: str) -> bytes:
        """The bytes of a file that must not be large."""
        with self._open(name) as source:
            size = self._files[name]["size"]
            if size > min(LARGEST, self._left):
                raise ModelError(
                    f"{self.place(name)}: {size:,} bytes, at most {LARGEST:,} are allowed, and {AT_ONCE:,} in all "
                    "such files."
                )
            self._left -= size
            return source.read(size)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a safetensors file, memory-mapped."""
        with self._open(name) as source:
            return map_arrays(source, self.place(name))

    def _open(self, name: str) -> BufferedReader:
        folder = self.folder.path
        if name not in self._files:
            raise ModelError(f"{folder}: a part of the model needs {name!r:.200}, which is not in its list of files.")
        facts = self._files[name]
        if not isinstance(facts, dict) or type(facts.get("size")) is not int:
            raise ModelError(
                f"{folder}: the entry of '{name}' in its list of files is malformed. Copy the model again."
            )
        source = self.folder.open(name)
        if (size := os.fstat(source.fileno()).st_size) != facts["size"]:
            source.close()
            raise ModelError(
                f"{self.place(name)}: {size:,} bytes, the list of files says {facts['size']:,}. Copy it again."
            )
        return source
