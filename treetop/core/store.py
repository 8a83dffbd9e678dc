"""The model folder: data only, hashed, checked before use.

A component describes itself as a `Part`: plain settings, arrays, extra files and nested parts. A part is a folder with
`part.json` and `arrays.safetensors`; the folder's `manifest.json` lists size and sha256 of every file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.arrays import release, write_arrays
from treetop.core.errors import ModelError
from treetop.core.folder import DEEPEST, MANIFEST, Folder, open_folder
from treetop.core.listed import Listed
from treetop.core.sealed import Check, canonical, parse, seal, unsealed
from treetop.core.steady import read_steadily
from treetop.core.version import FORMAT_VERSION, VERSION

T = TypeVar("T")
OUTSIDE = {MANIFEST, "run.json"}  # not listed in the manifest
PICKLES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin"}


@dataclass(frozen=True)
class Part:
    """A component as data; `kind` is its registry name with a version, such as "rank.neighbours.1"."""

    kind: str
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, Part] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def array(self, name: str, dtype: str, *shape: int | None) -> NDArray[Any]:
        """The array `name` after checking its type and shape (None: any length)."""
        stored = self.arrays.get(name)
        if stored is None:
            raise ModelError(f"{self.kind}: array '{name}' is missing. The model is damaged; save it again.")
        fits = stored.ndim == len(shape) and all(b is None or a == b for a, b in zip(stored.shape, shape, strict=True))
        if stored.dtype != np.dtype(dtype) or not fits:
            want = "x".join("?" if n is None else str(n) for n in shape)
            raise ModelError(
                f"{self.kind}: array '{name}' is {stored.dtype} {stored.shape}, expected {np.dtype(dtype)} ({want})."
            )
        return stored

    def indices(self, name: str, dtype: str, length: int | None, below: int) -> NDArray[Any]:
        """An index array whose values all lie in [0, below), read in blocks."""
        stored = self.array(name, dtype, length)
        for start in range(0, len(stored), 1 << 20):
            block = stored[start : start + (1 << 20)]
            if int(block.min()) < 0 or int(block.max()) >= below:
                raise ModelError(f"{self.kind}: array '{name}' points outside 0..{below - 1}. The model is damaged.")
        return stored

    def pointers(self, name: str, length: int, end: int, dtype: str = "<i8") -> NDArray[Any]:
        """A row pointer array: `length` values that start at 0, never fall and end at `end`."""
        stored = self.array(name, dtype, length)
        steps_back = any(
            bool((np.diff(stored[start : start + (1 << 20) + 1]) < 0).any()) for start in range(0, length, 1 << 20)
        )
        if length == 0 or stored[0] != 0 or stored[-1] != end or steps_back:
            raise ModelError(f"{self.kind}: row pointers '{name}' do not run from 0 to {end}. The model is damaged.")
        return stored

    def same(self, other: Part) -> bool:
        """Whether both hold the same data, bit by bit."""
        mine, others = (canonical({"kind": part.kind, "config": part.config}) for part in (self, other))
        return (
            mine == others
            and self.files == other.files
            and self.arrays.keys() == other.arrays.keys()
            and self.parts.keys() == other.parts.keys()
            and all(_same_bits(array, other.arrays[name]) for name, array in self.arrays.items())
            and all(part.same(other.parts[name]) for name, part in self.parts.items())
        )

    def release(self) -> None:
        """Release the memory that checking the arrays of this part and its nested parts has taken."""
        for array in self.arrays.values():
            release(array)
        for part in self.parts.values():
            part.release()

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
    """The part that `write_part` wrote into a sealed folder; nothing in it is executed."""
    return read_model(folder, lambda opened: part_of(open_manifest(opened)[1]))


def part_of(listed: Listed, inside: str = "") -> Part:
    """The part in a subfolder `inside` ("" or "name/") of listed files."""
    name = f"{inside}part.json"
    raw = listed.read(name)
    try:
        values = parse(raw)
        kind, config, parts, files = (values[key] for key in ("kind", "config", "parts", "files"))
        sound = (
            isinstance(kind, str)
            and isinstance(config, dict)
            and isinstance(parts, dict)
            and isinstance(files, list)
            and all(isinstance(file, str) for file in files)
        )
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        file = listed.place(name)
        raise ModelError(f"{file}: does not describe a part of a model. The file is damaged; copy the model again.")
    arrays = f"{inside}arrays.safetensors"
    return Part(
        kind,
        config,
        listed.arrays(arrays) if arrays in listed else {},
        {part: part_of(listed, f"{inside}{part}/") for part in parts},
        {file: listed.read(inside + file) for file in files},
    )


def sha256(file: Path) -> str:
    """Hex digest of a file."""
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def files_below(folder: Path) -> list[str]:
    """Relative paths of all files, sorted; a link is refused.

    Files that another process removes in the meantime (a label change under way) are left out.
    """

    def gone(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    files = []
    for current, folders, names in os.walk(folder, onerror=gone):
        if len(Path(current).relative_to(folder).parts) > DEEPEST:
            raise ModelError(
                f"{folder}: more than {DEEPEST} folders inside one another. No model is nested this deeply."
            )
        for name in sorted((*folders, *names)):
            if Path(current, name).is_symlink():
                raise ModelError(f"{Path(current, name)}: links are not allowed inside a model folder.")
        files += [Path(current, name).relative_to(folder) for name in names if Path(current, name).exists()]
    return [file.as_posix() for file in sorted(files)]


def write_manifest(folder: Path, facts: Mapping[str, Any]) -> str:
    """Seal a folder: list size and sha256 of every file except `run.json`, which has its own seal; returns the seal."""
    files = {
        name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
        for name in files_below(folder)
        if name not in OUTSIDE
    }
    sealed = seal({**facts, "format": FORMAT_VERSION, "files": files})
    (folder / MANIFEST).write_bytes(sealed)
    return str(json.loads(sealed)["sha256"])


def check_folder(folder: Path, *, check: Check = "quick") -> dict[str, Any]:
    """The manifest, after comparing it with the folder: sizes always, every hash when `check` is "full"."""
    return read_model(folder, lambda opened: open_manifest(opened, check=check)[0])


def read_model(folder: Path, read: Callable[[Folder], T]) -> T:
    """The result of `read` on one model: the old or the new one if another process replaces it in the meantime."""
    unsteady = ModelError(f"{folder}: replaced repeatedly while it was read. Load it when no process saves to it.")
    return read_steadily(lambda: open_folder(folder), read, unsteady)


def open_manifest(folder: Folder, *, check: Check = "quick") -> tuple[dict[str, Any], Listed]:
    """The manifest and the files it lists, after the checks of `check_folder`."""
    if not os.path.lexists(folder.path / MANIFEST):
        raise _no_model(folder.path)
    manifest = unsealed(folder.read(MANIFEST), folder.path / MANIFEST, check=check)
    if manifest.get("format") != FORMAT_VERSION:
        raise _other_format(folder.path, manifest)
    listed = Listed(folder, manifest.get("files"), check)
    if check == "full":
        _check_rest(folder, listed)
    return manifest, listed


def _other_format(folder: Path, manifest: Mapping[str, Any]) -> ModelError:
    versions = manifest.get("versions")
    writer = str(versions.get("treetop", "")) if isinstance(versions, dict) else ""
    named = f"treetop=={writer}, which" if re.fullmatch(r"\d+\.\d+\.\d+", writer) else "the treetop version that"
    return ModelError(
        f"{folder}: model format {manifest.get('format')!r}, but this treetop ({VERSION}) reads {FORMAT_VERSION}. "
        f"Install {named} wrote it, or train again."
    )


def _check_rest(folder: Folder, listed: Listed) -> None:
    """Refuse files that are not listed, except `edits/`, which has its own log (`core/edits.py`)."""
    there = files_below(folder.path)
    if extra := [n for n in there if n not in listed and n not in OUTSIDE and not n.startswith("edits/")]:
        raise ModelError(f"{folder.path}: file '{extra[0]}' is not in the manifest. Remove it or copy the model again.")
    if "run.json" in there:
        unsealed(folder.read("run.json"), folder.path / "run.json")


def _no_model(folder: Path) -> ModelError:
    pickled = sorted(file.name for ending in PICKLES for file in folder.glob(f"*{ending}"))
    why = f" It holds {pickled[0]}: pickled models can run code and are never opened." if pickled else ""
    return ModelError(
        f"{folder}: no manifest.json, so this is not a treetop model.{why} Give the folder that `treetop fit --out` "
        "wrote."
    )
