"""Words replaced by their stems, between the scan of a block and the listing of its n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.language import stemmer
from treetop.core.texts import Texts
from treetop.kernels.text import scanner, terms

Array = NDArray[Any]


def stemmed(scan: tuple[Array, ...], language: str) -> tuple[Array, ...]:
    """A scan of words with the stem of each in its place; every distinct word of the block is stemmed once."""
    buffer, starts, _, groups, docs, runs = scan
    words = (buffer, *scanner.list_grams(scan, (1, 1, 1, 0), (1, 1)))  # one n-gram per unit, in order
    _, values, begins, ends, _ = words
    if len(values) == 0:
        return scan
    places = terms.count_terms(words)[3]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends[places] - begins[places], dtype=np.int64)])
    raw = buffer.tobytes()
    strings = [raw[a:b] for a, b in zip(begins[places].tolist(), ends[places].tolist(), strict=True)]
    blob = np.frombuffer(b"".join(strings), np.uint8)
    ids = terms.find_terms(words, (terms.build_table(values[places]), blob, offsets))
    stems = Texts.of(stemmer(language)([string.decode() for string in strings]))
    gaps = (starts[1:] - ends).astype(np.int32)  # the blank after a word; none within a run
    return (*scanner.rewrite(ids, gaps, stems.blob, stems.offsets), groups, docs, runs)
