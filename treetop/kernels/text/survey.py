"""What some texts are written in: letters per script, terms per text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel_for
from treetop.kernels.text.characters import MARK, WORD, characters, decode
from treetop.kernels.text.scanner import U8, U32, scan_words
from treetop.kernels.text.scripts import SCRIPTS, WITHOUT_SPACES, script_table

BLOCK = 1 << 24  # bytes scanned at a time


@kernel_for(U8, U32, U8)
def count_letters(blob: Any, table: Any, scripts: Any) -> NDArray[np.int64]:
    """(256,) the letters of each script by its position in SCRIPTS; ASCII digits and the underscore are none."""
    counts = np.zeros(256, np.int64)
    i, end = 0, len(blob)
    while i < end:
        point, step = decode(blob, i, end)
        i += step
        if point >= 0 and table[point] & WORD and (point >= 0x80 or scripts[point] > 0):
            counts[scripts[point]] += 1
    return counts


def letters(blob: NDArray[np.uint8]) -> dict[str, int]:
    """Script -> its letters in UTF-8 text; only scripts that occur, the most frequent first."""
    counts = count_letters(blob, characters(), script_table())[: len(SCRIPTS)].tolist()
    ordered = sorted(zip(counts, SCRIPTS, strict=True), key=lambda pair: (-pair[0], pair[1]))
    return {name: count for count, name in ordered if count}


def unspaced_letters(blob: NDArray[np.uint8]) -> int:
    """The letters of scripts without blanks between words."""
    counts = letters(blob)
    return sum(counts.get(script, 0) for script in WITHOUT_SPACES)


def terms(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n_texts,) how many words each text has, and characters of scripts without blanks: tf-idf's default terms."""
    n, found, start = len(offsets) - 1, [np.zeros(0, np.int64)], 0
    while start < n:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + BLOCK, side="right")) - 1)
        inside, base = blob[offsets[start] : offsets[stop]], offsets[start]
        scan = scan_words(inside, offsets[start : stop + 1] - base, characters(), WORD | MARK, 2, True, True)
        found.append(np.diff(scan[3][scan[4]]))
        start = stop
    return np.concatenate(found)
