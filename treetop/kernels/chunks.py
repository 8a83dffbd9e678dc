"""Weights of many linear functions in chunks: the functions of one chunk are scored together, feature by feature.

Per chunk the features that any of its functions uses, ascending, and behind each the (slot, weight) pairs. Slots are
stored in as few bytes as the widest chunk needs; weights as float32, as float16 bits or as int8 with a scale per
function. All arrays may be read-only memory maps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from treetop.kernels.compile import kernel, tight
from treetop.kernels.sparse import F32, U32

Ints = NDArray[np.int64]
NORMAL, COPY, ABSENT = 0, 1, 2  # flags of a slot: scored; passes its parent's scores on; never returned


class Chunks(NamedTuple):
    """Weights of all functions of one level."""

    widest: Ints  # (1,) slots of the widest chunk
    special: NDArray[np.int64]  # slots with a flag (usually none)
    slot_ptr: Ints  # (n_chunks + 1,) slots of each chunk
    ids: NDArray[np.int32]  # (n,) function of each slot, ascending within a chunk
    bias: F32  # (n,) per slot
    flags: NDArray[np.uint8]  # (n,) per slot
    scale: F32  # (n,) per slot for int8 weights, else empty
    row_ptr: Ints  # (n_chunks + 1,) rows of each chunk
    rows: Any  # (n_rows, 2) uint32: feature; end of its entries, counted from the chunk's first
    entry_ptr: Ints  # (n_chunks + 1,) entries of each chunk
    jump_ptr: Ints  # (n_chunks + 1,) jumps of each chunk
    jumps: U32  # first row of a chunk whose feature, shifted right, is at least the jump's place
    shifts: NDArray[np.uint8]  # (n_chunks,)
    slots: Any  # (n_entries,) uint8, uint16 or uint32: place of the function within its chunk
    weights: Any  # (n_entries,) float32, uint16 (float16 bits) or int8


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
def find_row(chunks: Chunks, chunk: Any, feature: Any) -> Any:
    """1 + place of a feature among the rows of a chunk, or 0: a jump near it, then a short search."""
    low = np.uint64(chunks.row_ptr[chunk])
    jump = np.uint64(chunks.jump_ptr[chunk]) + (np.uint64(feature) >> np.uint64(chunks.shifts[chunk]))
    first, end = np.uint64(chunks.jumps[jump]), np.uint64(chunks.jumps[jump + np.uint64(1)])
    while end - first > np.uint64(8):
        middle = (first + end) >> np.uint64(1)
        if chunks.rows[low + middle, 0] <= feature:
            first = middle
        else:
            end = middle
    while first < end:
        if chunks.rows[low + first, 0] == feature:
            return first + np.uint64(1)
        first += np.uint64(1)
    return np.uint64(0)


@tight
def entries_of(chunks: Chunks, chunk: Any, row: Any) -> Any:
    """(first, end) of the entries behind 1 + place of a row."""
    base, at = np.uint64(chunks.entry_ptr[chunk]), np.uint64(chunks.row_ptr[chunk]) + row
    first = np.uint64(0) if row == np.uint64(1) else np.uint64(chunks.rows[at - np.uint64(2), 1])
    return base + first, base + np.uint64(chunks.rows[at - np.uint64(1), 1])


@kernel
def jumps_of(features: U32, n_features: int) -> Any:
    """(jumps, shift) of a chunk with ascending `features`: about four rows to a jump."""
    shift = np.uint64(0)
    while (np.uint64(n_features) >> shift) * np.uint64(4) > np.uint64(len(features)) + np.uint64(4):
        shift += np.uint64(1)
    jumps = np.zeros((np.uint64(n_features) >> shift) + np.uint64(2), np.uint32)
    for f in features:
        jumps[(np.uint64(f) >> shift) + np.uint64(1)] += np.uint32(1)
    for k in range(1, len(jumps)):
        jumps[k] += jumps[k - 1]
    return jumps, np.uint8(shift)


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
    limit = np.float32(np.finfo(np.float16).max)
    return np.clip(values, -limit, limit).astype(np.float16).view(np.uint16), np.zeros(0, np.float32)


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


Piece = tuple[U32, U32, U32, F32]  # rows, ends, slots, weights of one chunk


def pack(
    slots: tuple[Ints, NDArray[np.int32]], bias: F32, flags: NDArray[np.uint8], pieces: list[Piece], n_features: int
) -> Chunks:
    """`Chunks` of the pieces in chunk order; each piece is dropped once it is copied, so memory holds them once."""
    slot_ptr, ids = slots
    jumps = [jumps_of(piece[0], n_features) for piece in pieces]
    row_ptr, entry_ptr, jump_ptr = (
        np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(sizes, np.int64))])
        for sizes in ([len(p[0]) for p in pieces], [len(p[2]) for p in pieces], [len(jump) for jump, _ in jumps])
    )
    widest = int(np.diff(slot_ptr).max(initial=0))
    rows = np.empty((row_ptr[-1], 2), np.uint32)
    places, weights = np.empty(entry_ptr[-1], narrowest(widest)), np.empty(entry_ptr[-1], np.float32)
    for chunk in range(len(pieces)):
        features, ends, slot, weight = pieces[chunk]
        pieces[chunk] = (features[:0], ends[:0], slot[:0], weight[:0])
        rows[row_ptr[chunk] : row_ptr[chunk + 1], 0] = features
        rows[row_ptr[chunk] : row_ptr[chunk + 1], 1] = ends
        places[entry_ptr[chunk] : entry_ptr[chunk + 1]] = slot
        weights[entry_ptr[chunk] : entry_ptr[chunk + 1]] = weight
    return Chunks(
        np.array([widest]),
        np.flatnonzero(flags),
        slot_ptr,
        ids,
        bias,
        flags,
        np.zeros(0, np.float32),
        row_ptr,
        rows,
        entry_ptr,
        jump_ptr,
        np.concatenate([np.zeros(0, np.uint32), *(jump for jump, _ in jumps)]),
        np.array([shift for _, shift in jumps], np.uint8),
        places,
        weights,
    )


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


def plain_weights(weights: NDArray[Any]) -> F32:
    """Stored weights as float32, before their scale."""
    return (weights.view(np.float16) if weights.dtype == np.uint16 else weights).astype(np.float32)


@kernel
def sound(chunks: Chunks, n_features: int) -> bool:
    """Whether rows, entries, slots and jumps all lie inside their chunk: what makes the walk safe."""
    for chunk in range(len(chunks.slot_ptr) - 1):
        n_slots = chunks.slot_ptr[chunk + 1] - chunks.slot_ptr[chunk]
        n_entries = chunks.entry_ptr[chunk + 1] - chunks.entry_ptr[chunk]
        low, high = chunks.row_ptr[chunk], chunks.row_ptr[chunk + 1]
        before = np.int64(0)
        for row in range(low, high):
            end = np.int64(chunks.rows[row, 1])
            if end < before or end > n_entries or np.int64(chunks.rows[row, 0]) >= n_features:
                return False
            before = end
        for p in range(chunks.entry_ptr[chunk], chunks.entry_ptr[chunk + 1]):
            if np.int64(chunks.slots[p]) >= n_slots:
                return False
        n_jumps = chunks.jump_ptr[chunk + 1] - chunks.jump_ptr[chunk]
        shift = np.int64(chunks.shifts[chunk])
        if shift > 63 or (n_features >> shift) + 2 != n_jumps:
            return False
        for jump in range(chunks.jump_ptr[chunk], chunks.jump_ptr[chunk + 1]):
            if np.int64(chunks.jumps[jump]) > high - low:
                return False
    return True
