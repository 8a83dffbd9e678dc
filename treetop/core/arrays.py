"""Arrays on disk: safetensors files with every array on a 64-byte boundary, read as read-only memory maps.

Our own header parser trusts no declared length: nothing is allocated or mapped before the numbers add up.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ModelError
from treetop.core.sealed import parse

ALIGN = 64
MAX_HEADER = 64 << 20
MAX_ARRAYS = 100_000
MAX_DIMENSIONS, MAX_LENGTH = 8, 1 << 48
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1", "BF16": "<u2",
}  # fmt: skip
NAMES = {np.dtype(code).str: name for name, code in DTYPES.items() if name != "BF16"}


def write_arrays(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as a safetensors file; padding entries named '~n' put every array on a 64-byte boundary."""
    header: dict[str, Any] = {}
    at, chunks = 0, list[NDArray[Any] | bytes]()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if gap := -at % ALIGN:
            header[f"~{len(header)}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [at, at + gap]}
            chunks.append(bytes(gap))
            at += gap
        shape = list(arrays[name].shape)
        header[name] = {"dtype": NAMES[array.dtype.str], "shape": shape, "data_offsets": [at, at + array.nbytes]}
        chunks.append(array)
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGN)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for chunk in chunks:
            out.write(chunk if isinstance(chunk, bytes) else chunk.reshape(-1).view(np.uint8).data)


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file (`map_arrays`)."""
    with file.open("rb") as source:
        return map_arrays(source, file)


def map_arrays(source: BinaryIO, file: Path) -> dict[str, NDArray[Any]]:
    """Arrays of a safetensors file, open as `source`, as read-only memory maps; every declared length is checked first.

    No array is touched, however large.
    """
    base, room, header = _read_header(source, file)
    entries = {name: _check_entry(file, name, entry, room) for name, entry in header.items()}
    at = 0
    for start, stop in sorted((start, stop) for _, _, start, stop in entries.values()):
        if start != at:
            raise _damaged(file, "arrays overlap or leave holes")
        at = stop
    if at != room:
        raise _damaged(file, f"arrays cover {at:,} of {room:,} bytes")
    data = _map(source, base + room) if room else np.zeros(base, np.uint8)
    arrays: dict[str, NDArray[Any]] = {}
    for name, (dtype, shape, start, stop) in entries.items():
        if name.startswith("~"):
            continue
        if (base + start) % dtype.itemsize:
            raise _damaged(file, f"array '{name}' does not start on a boundary of {dtype.itemsize} bytes")
        # a view of an array of its own size: scipy copies what looks like a small part of something larger
        own = np.frombuffer(data, dtype, math.prod(shape), base + start)[:] if stop > start else np.zeros(0, dtype)
        arrays[name] = own.reshape(shape)
    return arrays


def _map(source: BinaryIO, size: int) -> NDArray[np.uint8]:
    try:
        return np.frombuffer(mmap.mmap(source.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise ModelError(f"{source.name}: cannot be read ({error.strerror}).") from None


def release(array: Any) -> None:
    """Release the pages of a mapped file that checks have touched; they are loaded again on use."""
    while isinstance(array, np.ndarray):
        array = array.base
    mapped = array.obj if isinstance(array, memoryview) else array
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _damaged(file: Path, reason: str) -> ModelError:
    return ModelError(f"{file}: {reason}. The file is damaged or not a safetensors file; copy the model again.")


def _read_header(source: BinaryIO, file: Path) -> tuple[int, int, dict[str, Any]]:
    size = os.fstat(source.fileno()).st_size
    length = int.from_bytes(source.read(8), "little")
    if size < 8 or length > MAX_HEADER or length > size - 8:
        raise _damaged(file, f"the header declares {length:,} bytes in a file of {size:,}")
    try:
        header = parse(source.read(length))
    except ValueError:
        raise _damaged(file, "the header is not valid JSON") from None
    if not isinstance(header, dict) or len(header) > MAX_ARRAYS:
        raise _damaged(file, "the header is not a table of arrays")
    header.pop("__metadata__", None)
    return 8 + length, size - 8 - length, header


def _check_entry(file: Path, name: str, entry: Any, room: int) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    try:
        dtype, shape, (start, stop) = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise _damaged(file, f"the entry of array '{name}' is malformed") from None
    if len(shape) > MAX_DIMENSIONS or any(type(n) is int and n > MAX_LENGTH for n in shape):
        raise _damaged(file, f"array '{name}' has shape {shape[: MAX_DIMENSIONS + 1]}, which no array can have")
    if not all(type(n) is int and n >= 0 for n in (*shape, start, stop)) or not start <= stop <= room:
        raise _damaged(file, f"array '{name}' lies outside the file")
    if math.prod(shape) * dtype.itemsize != stop - start:
        raise _damaged(file, f"array '{name}' has shape {shape} but {stop - start} bytes")
    return dtype, shape, start, stop
