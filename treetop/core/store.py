"""The model folder: data only, hashed, written aside and renamed, checked before anything is used.

A component describes itself as a `Part`: plain settings, arrays, extra files and parts inside it. A part lies in one
folder as `part.json` and `arrays.safetensors`; the folder's `manifest.json` lists size and sha256 of every file.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from treetop.core.arrays import let_go, read_arrays, write_arrays
from treetop.core.errors import ModelError, ResourceError, WorkError
from treetop.core.version import FORMAT_VERSION

Check = Literal["quick", "full"]
MAX_JSON = 64 << 20
MAX_FILES = 100_000
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
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
        mine, others = (_canonical({"kind": part.kind, "config": part.config}) for part in (self, other))
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


# --- sealed JSON: canonical bytes that carry their own hash ---------------------------------------------------------


def seal(values: Mapping[str, Any]) -> bytes:
    """Canonical JSON with a hash of itself, so that any changed byte shows."""
    body = {key: value for key, value in values.items() if key != "sha256"}
    digest = hashlib.sha256(_canonical(body)).hexdigest()
    return _canonical({**body, "sha256": digest})


def _canonical(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def unseal(file: Path, *, check: Check = "full") -> dict[str, Any]:
    """The values of a sealed file; a full check refuses any byte that is not as `seal` wrote it."""
    raw = _read(file, MAX_JSON)
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file}: not valid JSON ({error}). The file is damaged; copy the model again.") from None
    if not isinstance(values, dict):
        raise ModelError(f"{file}: expected a JSON object, got {type(values).__name__}.")
    if check == "full":
        try:
            intact = seal(values) == raw
        except (ValueError, UnicodeEncodeError, RecursionError):
            intact = False
        if not intact:
            raise ModelError(f"{file}: changed after it was written (its own hash does not match).")
    return values


def _read(file: Path, limit: int) -> bytes:
    try:
        if file.stat().st_size > limit:
            raise ModelError(f"{file}: {file.stat().st_size:,} bytes, allowed are {limit:,}.")
        return file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror}).") from None


# --- folders --------------------------------------------------------------------------------------------------------


def write_part(folder: Path, part: Part) -> None:
    """Write a part and the parts inside it below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sub = {name: inner.kind for name, inner in part.parts.items()}
    (folder / "part.json").write_bytes(
        _canonical({"kind": part.kind, "config": part.config, "parts": sub, "files": sorted(part.files)})
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
    raw = _read(file, MAX_JSON)
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
        {name: _read(folder / name, MAX_JSON) for name in files},
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


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a place for a model that is taken; `overwrite` replaces a model or an empty folder, never other files."""
    if target.name in {"", ".."}:
        raise WorkError(f"'{target}': no name for a folder. Give one to be made, such as model/.")
    target = without_dots(target)
    check_outside(target)
    if not (target.exists() or target.is_symlink()):
        return
    if not overwrite:
        raise WorkError(
            f"{target}: exists already. Choose another folder, or replace it with --overwrite (overwrite=True)."
        )
    if not target.is_dir() or target.is_symlink() or not ((target / "manifest.json").is_file() or _is_empty(target)):
        raise WorkError(
            f"{target}: is no treetop model, and only models are overwritten. Choose another folder or remove it."
        )


def check_new_file(target: Path, *, overwrite: bool) -> None:
    """Refuse a place for a file that is taken; `overwrite` replaces a plain file, never a folder or a device."""
    target = without_dots(target)
    check_outside(target)
    if not (target.exists() or target.is_symlink()):
        return
    if not target.is_file():
        raise WorkError(f"{target}: exists already and is no plain file. Choose another name.")
    if not overwrite:
        raise WorkError(f"{target}: exists already. Choose another name, or replace it with --overwrite.")


def check_outside(target: Path) -> None:
    """Refuse a place that cannot be written, and one inside a model's folder, which would spoil the model."""
    if found := model_at(target.parent):
        raise WorkError(f"{target}: lies in the model's folder {found}, which may hold nothing else. Choose another.")
    above = next(up for up in without_dots(target).absolute().parents if up.exists() or up.is_symlink())
    if not above.is_dir():
        raise WorkError(f"{target}: cannot be made, as {above} is no folder. Choose another place.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise WorkError(
            f"{target}: nothing may be written in {above}. Change the rights of that folder, or choose another."
        )


def without_dots(target: Path) -> Path:
    """The same place with no `..` on the way, which would lead through folders that need not be there yet."""
    return Path(os.path.realpath(target.parent)) / target.name if ".." in target.parts else target


def model_at(folder: Path) -> Path | None:
    """The model's folder that `folder` is or lies in, links followed; None where there is none."""
    place = Path(os.path.realpath(folder))
    files = ("manifest.json", "part.json")
    return next((up for up in (place, *place.parents) if all(os.access(up / name, os.F_OK) for name in files)), None)


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` that takes its place, synced to disk, when the block ends without an error."""
    fresh = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
        fresh.chmod(0o755)
        yield fresh
        for file in [fresh / name for name in files_below(fresh)]:
            sync(file)
        sync(fresh)
        if target.exists() and _exchange(fresh, target):
            shutil.rmtree(fresh)  # the old one now
        elif target.exists():  # not in one step: a kill between the two leaves the old one in the folder beside
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
            target.rename(old / target.name)
            fresh.rename(target)
            shutil.rmtree(old)
        else:
            fresh.rename(target)
        sync(target.parent)
    except OSError as error:
        raise _unwritten(target, error) from error
    finally:
        if fresh is not None and fresh.exists():
            shutil.rmtree(fresh, ignore_errors=True)


@contextlib.contextmanager
def replacing_file(target: Path) -> Iterator[TextIO]:
    """A fresh text file beside `target` that takes its place when the block ends without an error."""
    fresh = target.with_name(f".{target.name}.tmp")
    try:
        with named(target), fresh.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def named(target: Path) -> Iterator[None]:
    """Tell of a full disk by what was to be written there; the system itself does not say it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise _unwritten(target, error) from error


def _unwritten(target: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"{target}: could not be written ({error.strerror}); nothing was replaced. Free some space, or choose "
        "another place."
    )


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders take each other's place in one step where the system can (Linux)."""
    call = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_manifest(folder: Path, facts: Mapping[str, Any], *, outside: tuple[str, ...] = ("run.json",)) -> str:
    """Seal a folder: list size and sha256 of every file but those `outside` the identity claim; returns the seal."""
    files = {
        name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
        for name in files_below(folder)
        if name not in outside and name != "manifest.json"
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
        known = {"manifest.json", "run.json"}  # and `edits/`, which has a log of its own (`core/edits.py`)
        if extra := [
            n for n in files_below(folder) if n not in files and n not in known and not n.startswith("edits/")
        ]:
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
