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
    features: U32  # (n_rows,)
    entry_ptr: Ints  # (n_chunks + 1,) entries of each chunk
    ends: U32  # (n_rows,) end of each row's entries, counted from the chunk's first
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
def find_row(features: U32, low: int, high: int, feature: Any) -> int:
    """Place of `feature` in the ascending features[low:high], or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if features[np.uint64(middle)] < feature:
            low = middle + 1
        else:
            high = middle
    return low if low < end and features[np.uint64(low)] == feature else -1


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


@kernel
def _gather_columns(starts: Ints, features: U32, values: F32, wanted: NDArray[np.int32]) -> Any:
    counts, total = np.empty(len(wanted), np.uint32), 0
    for k in range(len(wanted)):
        counts[k] = starts[wanted[k] + 1] - starts[wanted[k]]
        total += counts[k]
    own_features, own_values = np.empty(total, np.uint32), np.empty(total, np.float32)
    at = 0
    for k in range(len(wanted)):
        first, n = starts[wanted[k]], counts[k]
        own_features[at : at + n] = features[first : first + n]
        own_values[at : at + n] = values[first : first + n]
        at += n
    return counts, own_features, own_values


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


def pack(slots: tuple[Ints, NDArray[np.int32]], bias: F32, flags: NDArray[np.uint8], pieces: list[Piece]) -> Chunks:
    """`Chunks` of the pieces in chunk order; each piece is dropped once it is copied, so memory holds them once."""
    slot_ptr, ids = slots
    rows = np.array([len(piece[0]) for piece in pieces], np.int64)
    entries = np.array([len(piece[2]) for piece in pieces], np.int64)
    row_ptr, entry_ptr = (np.concatenate([np.zeros(1, np.int64), np.cumsum(n)]) for n in (rows, entries))
    widest = int(np.diff(slot_ptr).max(initial=0))
    special = np.flatnonzero(flags)
    made = Chunks(
        np.array([widest]), special, slot_ptr, ids, bias, flags, np.zeros(0, np.float32), row_ptr, np.empty(row_ptr[-1], np.uint32), entry_ptr,
        np.empty(row_ptr[-1], np.uint32), np.empty(entry_ptr[-1], narrowest(widest)), np.empty(entry_ptr[-1], np.float32),
    )  # fmt: skip
    for chunk in range(len(pieces)):
        features, ends, places, weights = pieces[chunk]
        pieces[chunk] = (features[:0], ends[:0], places[:0], weights[:0])
        made.features[row_ptr[chunk] : row_ptr[chunk + 1]] = features
        made.ends[row_ptr[chunk] : row_ptr[chunk + 1]] = ends
        made.slots[entry_ptr[chunk] : entry_ptr[chunk + 1]] = places
        made.weights[entry_ptr[chunk] : entry_ptr[chunk + 1]] = weights
    return made


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
def sound(chunks: Chunks) -> bool:
    """Whether every row's entries lie inside its chunk and every slot exists: what makes the walk safe."""
    for chunk in range(len(chunks.slot_ptr) - 1):
        n_slots = chunks.slot_ptr[chunk + 1] - chunks.slot_ptr[chunk]
        n_entries = chunks.entry_ptr[chunk + 1] - chunks.entry_ptr[chunk]
        before = np.int64(0)
        for row in range(chunks.row_ptr[chunk], chunks.row_ptr[chunk + 1]):
            end = np.int64(chunks.ends[row])
            if end < before or end > n_entries:
                return False
            before = end
        for p in range(chunks.entry_ptr[chunk], chunks.entry_ptr[chunk + 1]):
            if np.int64(chunks.slots[p]) >= n_slots:
                return False
    return True
