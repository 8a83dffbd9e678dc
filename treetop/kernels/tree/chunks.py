"""Weights of many linear functions in chunks: the functions of one chunk are scored together, feature by feature.

Per chunk the features that any of its functions uses, each followed by its (slot, weight) pairs. A feature is found by
its name: an odd multiple of its number, cut to a power of two, which spreads any numbering evenly. The upper bits of a
name choose a bucket of some six rows, the lower ones, stored in two bytes, tell them apart. Slots are stored in as few
bytes as the widest chunk needs; weights as float32, as float16 bits or as int8 with a scale per function. All arrays
may be read-only memory maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from treetop.core import spill
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, U32

Ints = NDArray[np.int64]
BLOCK = 1 << 22  # weights that are rounded at a time
NORMAL, COPY, ABSENT = 0, 1, 2  # flags of a slot: scored; passes its parent's scores on; never returned


class Chunks(NamedTuple):
    """Weights of all functions of one level."""

    sizes: Ints  # (2,) slots of the widest chunk; bits of a name
    special: NDArray[np.int64]  # slots with a flag (usually none)
    slot_ptr: Ints  # (n_chunks + 1,) slots of each chunk
    ids: NDArray[np.int32]  # (n,) function of each slot, ascending within a chunk
    bias: F32  # (n,) per slot
    flags: NDArray[np.uint8]  # (n,) per slot
    scale: F32  # (n,) per slot for int8 weights, else empty
    shifts: NDArray[np.uint8]  # (n_chunks,) lower bits of a name
    bucket_ptr: Ints  # (n_chunks + 1,) buckets of each chunk, one more at its end
    buckets: Any  # (n_buckets, 2) uint32: first row and first entry of a bucket, counted from the chunk's first
    row_ptr: Ints  # (n_chunks + 1,) rows of each chunk
    lows: NDArray[np.uint16]  # (n_rows,) lower bits of each row's name
    counts: Any  # (n_rows,) entries of each row, in as many bytes as a slot
    entry_ptr: Ints  # (n_chunks + 1,) entries of each chunk
    slots: Any  # (n_entries,) uint8, uint16 or uint32: place of the function within its chunk
    weights: Any  # (n_entries,) float32, uint16 (float16 bits) or int8


ODD = np.uint64(0x9E3779B1)  # 2 ** 32 divided by the golden ratio


def name_bits(n_features: int) -> int:
    """Bits that name every feature."""
    return max(1, int(n_features - 1).bit_length())


@tight
def name_of(feature: Any, bits: Any) -> Any:
    """The name of a feature: no two share one, because the factor is odd."""
    return (np.uint64(feature) * ODD) & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))


def slot_at(slots: Any, p: Any, end: Any) -> Any:
    """The p-th slot, below `end` where it takes more than one byte: sums have a place for all slots of one byte."""
    raise NotImplementedError  # only kernels call it; numba takes the version below


@overload(slot_at, inline="always")
def _slot_at(slots: Any, p: Any, end: Any) -> Any:
    def byte(slots: Any, p: Any, end: Any) -> Any:
        return slots[p]

    def wider(slots: Any, p: Any, end: Any) -> Any:
        return min(np.uint64(slots[p]), end - np.uint64(1))

    return byte if slots.dtype == types.uint8 else wider


def weight_at(weights: Any, p: Any) -> Any:
    """The p-th weight as float32 (before its scale, if it has one)."""
    raise NotImplementedError  # only kernels call it; numba takes the version below


@overload(weight_at, inline="always")
def _weight_at(weights: Any, p: Any) -> Any:
    def plain(weights: Any, p: Any) -> Any:
        return np.float32(weights[p])

    if weights.dtype != types.uint16:
        return plain

    def half(weights: Any, p: Any) -> Any:
        bits = np.uint32(weights[p])
        # a float16 exponent read as a float32 one is 112 too small; subnormals come out right as well
        size = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32) * np.float32(2.0**112)
        return -size if bits & np.uint32(0x8000) else size

    return half


@tight
def rows_at(chunks: Chunks, chunk: Any, name: Any) -> Any:
    """(first row, end, first entry) of the bucket a name falls into, whatever the arrays hold."""
    bucket = np.uint64(chunks.bucket_ptr[chunk]) + (name >> np.uint64(chunks.shifts[chunk]))
    base = np.uint64(chunks.row_ptr[chunk])
    end = min(
        base + np.uint64(chunks.buckets[bucket + np.uint64(1), 0]), np.uint64(chunks.row_ptr[chunk + np.uint32(1)])
    )
    entry = np.uint64(chunks.entry_ptr[chunk]) + np.uint64(chunks.buckets[bucket, 1])
    return base + np.uint64(chunks.buckets[bucket, 0]), end, entry


@tight
def entries_in(chunks: Chunks, chunk: Any, name: Any, bucket: Any) -> Any:
    """(first, end) of a name's entries among the rows of its bucket; equal where it has none."""
    first, end, entry = bucket
    low = name & ((np.uint64(1) << np.uint64(chunks.shifts[chunk])) - np.uint64(1))
    for row in range(first, end):
        if np.uint64(chunks.lows[row]) == low:  # most names find nothing: counts are read only by those that do
            for before in range(first, row):
                entry += np.uint64(chunks.counts[before])
            after = entry + np.uint64(chunks.counts[row])
            return entry, min(after, np.uint64(chunks.entry_ptr[chunk + np.uint32(1)]))
    return np.uint64(0), np.uint64(0)


def entries(chunks: Chunks, chunk: int, feature: int) -> tuple[int, int]:
    """(first, end) of a feature's entries in a chunk, for Python code."""
    first, end = _entries(chunks, np.uint32(chunk), np.uint32(feature))
    return int(first), int(end)


@kernel
def _entries(chunks: Chunks, chunk: Any, feature: Any) -> Any:
    name = name_of(feature, chunks.sizes[1])
    return entries_in(chunks, chunk, name, rows_at(chunks, chunk, name))


def features_of(chunks: Chunks, chunk: int, slot: int) -> tuple[Ints, Ints]:
    """(features, entries) of one function of a chunk, given by its place there."""
    a = int(chunks.entry_ptr[chunk])
    features = features_in(chunks, chunk)
    entries_ = np.flatnonzero(chunks.slots[a : int(chunks.entry_ptr[chunk + 1])][: len(features)] == slot)
    return features[entries_], entries_ + a


def features_in(chunks: Chunks, chunk: int) -> Ints:
    """The feature of every entry of a chunk; names are turned back into numbers."""
    bits, shift = int(chunks.sizes[1]), int(chunks.shifts[chunk])
    first, end = int(chunks.row_ptr[chunk]), int(chunks.row_ptr[chunk + 1])
    starts = chunks.buckets[int(chunks.bucket_ptr[chunk]) : int(chunks.bucket_ptr[chunk + 1]), 0].astype(np.int64)
    bucket = np.searchsorted(starts, np.arange(end - first), side="right") - 1
    names = (bucket << shift) | chunks.lows[first:end].astype(np.int64)
    back = pow(int(ODD), -1, 1 << bits)
    features = (names.astype(np.uint64) * np.uint64(back)) & np.uint64((1 << bits) - 1)
    return np.repeat(features.astype(np.int64), chunks.counts[first:end])


@kernel
def _place(features: U32, ends: U32, slots: U32, weights: F32, bits: int, narrow: Any) -> Any:
    """Rows in buckets: the fields of a `Piece`; counts and slots get the type of the array `narrow`."""
    n, shift = len(features), np.uint64(min(bits, 16))
    while shift > 0 and (np.uint64(8) << (np.uint64(bits) - shift)) < np.uint64(n):
        shift -= np.uint64(1)
    buckets = np.zeros(((np.int64(1) << (bits - np.int64(shift))) + 1, 2), np.uint32)
    for row in range(n):
        bucket = (name_of(features[row], bits) >> shift) + np.uint64(1)
        buckets[bucket, 0] += np.uint32(1)
        buckets[bucket, 1] += ends[row] - (ends[row - 1] if row else np.uint32(0))
    for b in range(1, len(buckets)):
        buckets[b, 0] += buckets[b - 1, 0]
        buckets[b, 1] += buckets[b - 1, 1]
    places, lows, counts = buckets.copy(), np.empty(n, np.uint16), np.empty(n, narrow.dtype)
    new_slots, new_weights = np.empty(len(slots), narrow.dtype), np.empty(len(slots), np.float32)
    for row in range(n):
        name = name_of(features[row], bits)
        first, bucket = ends[row - 1] if row else np.uint32(0), name >> shift
        at, to = places[bucket, 0], places[bucket, 1]
        lows[at] = np.uint16(name & ((np.uint64(1) << shift) - np.uint64(1)))
        counts[at] = ends[row] - first
        for p in range(ends[row] - first):
            new_slots[to + p], new_weights[to + p] = slots[first + p], weights[first + p]
        places[bucket, 0] += np.uint32(1)
        places[bucket, 1] += ends[row] - first
    return shift, buckets, lows, counts, new_slots, new_weights


@tight
def _mark(features: U32, counts: U32, marks: Any) -> int:
    rows = 0
    for f in features:
        if counts[f] == 0:
            rows += 1
            marks[f >> np.uint32(6)] |= np.uint64(1) << np.uint64(f & np.uint32(63))
        counts[f] += np.uint32(1)
    return rows


@kernel
def transpose(counts_per_slot: U32, features: U32, values: F32, scratch: Any) -> Any:
    """(features, ends, slots, values) by feature of columns given slot by slot; `scratch` is left zero."""
    counts, marks = scratch
    n_rows, n = _mark(features, counts, marks), len(features)
    rows, ends = np.empty(n_rows, np.uint32), np.empty(n_rows, np.uint32)
    at, row = np.uint32(0), 0
    for word in range(len(marks)):
        bits = marks[word]
        if bits:
            marks[word] = np.uint64(0)
            for bit in range(64):
                if bits & (np.uint64(1) << np.uint64(bit)):
                    f = np.uint32(word * 64 + bit)
                    rows[row] = f
                    here = counts[f]
                    counts[f] = at  # from now on: where the next entry of f goes
                    at += here
                    ends[row] = at
                    row += 1
    slots, weights = np.empty(n, np.uint32), np.empty(n, np.float32)
    p = 0
    for slot in range(len(counts_per_slot)):
        for _ in range(counts_per_slot[slot]):
            q = counts[features[p]]
            slots[q], weights[q] = slot, values[p]
            counts[features[p]] = q + np.uint32(1)
            p += 1
    for f in rows:
        counts[f] = np.uint32(0)
    return rows, ends, slots, weights


def half_bits(values: F32) -> tuple[NDArray[np.uint16], F32]:
    """Weights rounded to float16 and stored as bits; too large ones stop at the largest float16."""
    limit, bits = np.float32(np.finfo(np.float16).max), spill.empty(len(values), np.uint16)
    for start in range(0, len(values), BLOCK):
        block = np.clip(values[start : start + BLOCK], -limit, limit)
        bits[start : start + BLOCK] = block.astype(np.float16).view(np.uint16)
    return bits, np.zeros(0, np.float32)


def small_integers(values: F32, owner: NDArray[Any], n: int) -> tuple[NDArray[np.int8], F32]:
    """Weights as int8 multiples of a scale per function (its largest weight is 127); `owner` is each entry's slot."""
    largest = np.zeros(n, np.float32)
    np.maximum.at(largest, owner, np.abs(values))
    scale = (largest / np.float32(127)).astype(np.float32)
    safe = np.where(scale > 0, scale, np.float32(1))
    return np.rint(values / safe[owner]).astype(np.int8), scale


def narrowest(n: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned type that can number `n` things."""
    return np.uint8 if n <= 1 << 8 else np.uint16 if n <= 1 << 16 else np.uint32


class Piece(NamedTuple):
    """The weights of one chunk, laid out as in `Chunks`."""

    shift: Any
    buckets: Any
    lows: NDArray[np.uint16]
    counts: Any
    slots: Any
    weights: F32


def piece(columns: tuple[U32, U32, F32], scratch: Any, n_features: int, width: int) -> Piece:
    """The piece of (counts per slot, features, weights); `width` is the maximum number of slots of any chunk."""
    narrow = np.zeros(0, narrowest(width + 1))
    rows, ends, slots, weights = transpose(*columns, scratch)
    return Piece(*_place(rows, ends, slots, weights, name_bits(n_features), narrow))


class Pieces:
    """The pieces of a level as they arrive; in memory, or in one file (`core/spill.py`)."""

    def __init__(self, n: int) -> None:
        self._pieces: list[Any] = [None] * n
        self._bytes = None if spill.current() is None else spill.Growing(np.uint8)

    def put(self, chunk: int, piece: Piece) -> None:
        """Keep the piece of a chunk."""
        self._pieces[chunk] = piece if self._bytes is None else Piece(piece[0], *(self._kept(a) for a in piece[1:]))

    def _kept(self, array: NDArray[Any]) -> Any:
        """(place, shape, type) of an array among the bytes, at a multiple of eight."""
        assert self._bytes is not None  # noqa: S101 - only called with them
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._bytes.append(np.zeros(-len(self._bytes) % 8, np.uint8))
        return self._bytes.append(flat), array.shape, array.dtype

    def in_order(self) -> list[Piece]:
        """All pieces by chunk, which are forgotten here."""
        pieces, self._pieces = self._pieces, []
        if self._bytes is None:
            return pieces
        held = self._bytes.array()

        def mapped(kept: Any) -> NDArray[Any]:
            at, shape, dtype = kept
            n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            array: NDArray[Any] = held[at : at + n].view(dtype).reshape(shape)
            return array

        return [Piece(piece[0], *(mapped(kept) for kept in piece[1:])) for piece in pieces]


def pack(
    slots: tuple[Ints, NDArray[np.int32]], bias: F32, flags: NDArray[np.uint8], pieces: list[Piece], n_features: int
) -> Chunks:
    """`Chunks` of the pieces in chunk order, which are taken out of their list field by field to save memory."""
    slot_ptr, ids = slots
    narrow = narrowest(int(np.diff(slot_ptr).max(initial=0)) + 1)
    ends = [
        np.concatenate([np.zeros(1, np.int64), np.cumsum([len(piece[field]) for piece in pieces], dtype=np.int64)])
        for field in (1, 2, 4)
    ]
    shifts = np.array([piece.shift for piece in pieces], np.uint8)
    fields: list[list[Any]] = [list(field) for field in zip(*pieces, strict=True)] or [[] for _ in Piece._fields]
    pieces.clear()
    flat = (np.float32, narrow, narrow, np.uint16)
    weights, places, counts, lows = (spill.joined(fields.pop(), dtype) for dtype in flat)
    buckets = spill.joined([field.reshape(-1) for field in fields.pop()], np.uint32).reshape(-1, 2)
    sizes = np.array([np.diff(slot_ptr).max(initial=0), name_bits(n_features)], np.int64)
    return Chunks(
        sizes, np.flatnonzero(flags), slot_ptr, ids, bias, flags, np.zeros(0, np.float32), shifts, ends[0], buckets,
        ends[1], lows, counts, ends[2], places, weights,
    )  # fmt: skip


def joined(parts: Sequence[Chunks]) -> Chunks:
    """Chunks behind each other, their functions numbered on; all have one storage and chunks equally wide."""
    if len(parts) == 1:
        return parts[0]
    functions = np.cumsum([0, *(len(part.ids) for part in parts)])
    fields: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Chunks._fields}
    for name in ("slot_ptr", "bucket_ptr", "row_ptr", "entry_ptr"):
        lengths = np.concatenate([np.diff(getattr(part, name)) for part in parts])
        fields[name] = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    fields["ids"] += np.repeat(functions[:-1], np.diff(functions)).astype(np.int32)
    fields |= {"sizes": parts[0].sizes, "special": np.flatnonzero(fields["flags"])}
    return Chunks(**fields)


def stored_as(chunks: Chunks, storage: str) -> Chunks:
    """The same chunks with weights as 'float32', 'float16' or 'int8'."""
    if storage == "float32":
        return chunks
    if storage == "float16":
        return chunks._replace(weights=half_bits(chunks.weights)[0])
    sizes = np.diff(chunks.entry_ptr)
    owner = chunks.slots + np.repeat(chunks.slot_ptr[:-1], sizes)
    weights, scale = small_integers(chunks.weights, owner, len(chunks.ids))
    return chunks._replace(weights=weights, scale=scale)


def sealed(chunks: Chunks) -> Chunks:
    """The same arrays, read-only: kernels are compiled once for a model just trained and for one mapped from disk."""
    held: list[Any] = [array.view() for array in chunks]
    for array in held:
        array.setflags(write=False)
    return Chunks(*held)


def plain_weights(weights: NDArray[Any]) -> F32:
    """Stored weights as float32, before their scale."""
    return (weights.view(np.float16) if weights.dtype == np.uint16 else weights).astype(np.float32)


def sound(chunks: Chunks) -> bool:
    """Whether every chunk has the buckets its names need.

    That is all a walk takes on trust: rows, entries and slots are cut to their chunk while it reads them, so opening a
    model reads next to nothing of it, and a damaged one answers nonsense but touches no foreign memory.
    """
    bits, shifts = int(chunks.sizes[1]), chunks.shifts.astype(np.int64)
    if shifts.max(initial=0) > min(bits, 16):
        return False
    return bool(np.array_equal(np.diff(chunks.bucket_ptr) - 1, np.int64(1) << (bits - shifts)))
