"""The model folder: data only, hashed, checked before anything is used.

A component describes itself as a `Part`: plain settings, arrays, extra files and parts inside it. A part lies in one
folder as `part.json` and `arrays.safetensors`; the folder's `manifest.json` lists size and sha256 of every file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.arrays import let_go, read_arrays, write_arrays
from treetop.core.errors import ModelError
from treetop.core.sealed import Check, canonical, read_bytes, seal, unseal
from treetop.core.version import FORMAT_VERSION

MAX_FILES = 100_000
OUTSIDE = {"manifest.json", "run.json"}  # of what a manifest lists
PICKLES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin"}


@dataclass(frozen=True)
class Part:
    """What a component is as data; `kind` is its registry name with a version, such as "rank.neighbours.1"."""

    kind: str
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, Part] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def array(self, name: str, dtype: str, *shape: int | None) -> NDArray[Any]:
        """The array `name` after checking its type and shape (None: any length)."""
        found = self.arrays.get(name)
        if found is None:
            raise ModelError(f"{self.kind}: array '{name}' is missing. The model is damaged; save it again.")
        fits = found.ndim == len(shape) and all(b is None or a == b for a, b in zip(found.shape, shape, strict=True))
        if found.dtype != np.dtype(dtype) or not fits:
            want = "x".join("?" if n is None else str(n) for n in shape)
            raise ModelError(
                f"{self.kind}: array '{name}' is {found.dtype} {found.shape}, expected {np.dtype(dtype)} ({want})."
            )
        return found

    def indices(self, name: str, dtype: str, length: int | None, below: int) -> NDArray[Any]:
        """An index array whose values all lie in [0, below), read in blocks."""
        found = self.array(name, dtype, length)
        for start in range(0, len(found), 1 << 20):
            block = found[start : start + (1 << 20)]
            if int(block.min()) < 0 or int(block.max()) >= below:
                raise ModelError(f"{self.kind}: array '{name}' points outside 0..{below - 1}. The model is damaged.")
        return found

    def pointers(self, name: str, length: int, end: int) -> NDArray[np.int64]:
        """A row pointer array: `length` values that start at 0, never fall and end at `end`."""
        found = self.array(name, "<i8", length)
        steps_back = any(
            bool((np.diff(found[start : start + (1 << 20) + 1]) < 0).any()) for start in range(0, length, 1 << 20)
        )
        if length == 0 or found[0] != 0 or found[-1] != end or steps_back:
            raise ModelError(f"{self.kind}: row pointers '{name}' do not run from 0 to {end}. The model is damaged.")
        return found

    def same(self, other: Part) -> bool:
        """Whether the other holds the same data, to the bit."""
        mine, others = (canonical({"kind": part.kind, "config": part.config}) for part in (self, other))
        return (
            mine == others
            and self.files == other.files
            and self.arrays.keys() == other.arrays.keys()
            and self.parts.keys() == other.parts.keys()
            and all(_same_bits(array, other.arrays[name]) for name, array in self.arrays.items())
            and all(part.same(other.parts[name]) for name, part in self.parts.items())
        )

    def let_go(self) -> None:
        """Give back the memory that checking the arrays of this part and all below has taken."""
        for array in self.arrays.values():
            let_go(array)
        for part in self.parts.values():
            part.let_go()

    def setting(self, name: str, kind: type) -> Any:
        """The setting `name` after checking its type."""
        value = self.config.get(name)
        if type(value) is not kind:
            raise ModelError(f"{self.kind}: setting '{name}' is {value!r}, expected {kind.__name__}.")
        return value


def _same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    return bool(np.array_equal(a, b))


def write_part(folder: Path, part: Part) -> None:
    """Write a part and the parts inside it below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sub = {name: inner.kind for name, inner in part.parts.items()}
    (folder / "part.json").write_bytes(
        canonical({"kind": part.kind, "config": part.config, "parts": sub, "files": sorted(part.files)})
    )
    if part.arrays:
        write_arrays(folder / "arrays.safetensors", part.arrays)
    for name, content in part.files.items():
        (folder / name).write_bytes(content)
    for name, inner in part.parts.items():
        write_part(folder / name, inner)


def read_part(folder: Path) -> Part:
    """Read what `write_part` wrote; nothing in it is run, only named."""
    file = folder / "part.json"
    raw = read_bytes(file)
    try:
        values = json.loads(raw)
        kind, config, parts, files = (values[key] for key in ("kind", "config", "parts", "files"))
        sound = (
            isinstance(kind, str)
            and isinstance(config, dict)
            and all(isinstance(name, str) and _plain_name(name) for name in [*parts, *files])
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise ModelError(f"{file}: does not describe a part of a model. The file is damaged; copy the model again.")
    arrays = folder / "arrays.safetensors"
    return Part(
        kind,
        config,
        read_arrays(arrays) if arrays.exists() else {},
        {name: read_part(folder / name) for name in parts},
        {name: read_bytes(folder / name) for name in files},
    )


def _plain_name(name: str) -> bool:
    return bool(name) and PurePosixPath(name).name == name and name not in {".", ".."} and "\\" not in name


def sha256(file: Path) -> str:
    """Hex digest of a file."""
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def files_below(folder: Path) -> list[str]:
    """Relative paths of all files, sorted; a link is refused.

    What another process takes away meanwhile (a change of labels under way) is not there.
    """

    def gone(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    found = []
    for place, folders, names in os.walk(folder, onerror=gone):
        for file in sorted(Path(place, name) for name in (*folders, *names)):
            if file.is_symlink():
                raise ModelError(f"{file}: links are not allowed inside a model folder.")
            if file.is_file():
                found.append(file.relative_to(folder))
    return [file.as_posix() for file in sorted(found)]


def write_manifest(folder: Path, facts: Mapping[str, Any]) -> str:
    """Seal a folder: list size and sha256 of every file but `run.json`, which is its own; returns the seal."""
    files = {
        name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
        for name in files_below(folder)
        if name not in OUTSIDE
    }
    sealed = seal({**facts, "format": FORMAT_VERSION, "files": files})
    (folder / "manifest.json").write_bytes(sealed)
    return str(json.loads(sealed)["sha256"])


def check_folder(folder: Path, *, check: Check = "quick") -> dict[str, Any]:
    """The manifest, after comparing it with the folder: sizes always, every hash when `check` is "full"."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder. Give the folder that `treetop fit --out` wrote.")
    if not (folder / "manifest.json").is_file():
        pickled = [p.name for p in folder.iterdir() if p.suffix in PICKLES]
        why = f" It holds {pickled[0]}: pickled models can run code and are never opened." if pickled else ""
        raise ModelError(
            f"{folder}: no manifest.json, so this is no treetop model.{why} "
            "Give the folder that `treetop fit --out` wrote."
        )
    manifest = unseal(folder / "manifest.json", check=check)
    if manifest.get("format") != FORMAT_VERSION:
        raise ModelError(
            f"{folder}: model format {manifest.get('format')!r}, this treetop reads {FORMAT_VERSION}. "
            "Install a treetop version that fits, or train again."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or len(files) > MAX_FILES:
        raise ModelError(f"{folder}/manifest.json: the list of files is malformed.")
    for name, facts in files.items():
        check_file(folder, name, facts, check)
    if check == "full":
        known = {*files, *OUTSIDE}  # and `edits/`, which has a log of its own (`core/edits.py`)
        if extra := [n for n in files_below(folder) if n not in known and not n.startswith("edits/")]:
            raise ModelError(f"{folder}: file '{extra[0]}' is not in the manifest. Remove it or copy the model again.")
        if (folder / "run.json").exists():
            unseal(folder / "run.json")
    return manifest


def check_file(folder: Path, name: str, facts: Any, check: Check) -> None:
    """Compare a file below `folder` with what a sealed list says of it."""
    if any(part in {"", ".", ".."} for part in name.split("/")) or "\\" in name or ":" in name:
        raise ModelError(f"{folder}: its list of files names '{name}', which leaves the folder. Copy the model again.")
    file = folder / name
    inside = [name, *map(str, PurePosixPath(name).parents)][:-1]  # the folder itself may be reached by a link
    if not file.is_file() or any((folder / up).is_symlink() for up in inside):
        raise ModelError(f"{file}: missing (or a link). The model is incomplete; copy it again.")
    if not isinstance(facts, dict) or type(facts.get("size")) is not int:
        raise ModelError(f"{folder}: the entry of '{name}' in its list of files is malformed. Copy the model again.")
    if file.stat().st_size != facts["size"]:
        raise ModelError(
            f"{file}: {file.stat().st_size:,} bytes, the list of files says {facts['size']:,}. Copy it again."
        )
    if check == "full" and sha256(file) != facts.get("sha256"):
        raise ModelError(f"{file}: changed after the model was saved (sha256 differs). Copy the model again.")
