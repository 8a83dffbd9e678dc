"""Texts as sequences of words, each named by its stem: what names and texts are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.language import stemmer
from treetop.core.texts import Texts
from treetop.features.tfidf.grams import Collector, Cutter
from treetop.kernels.text import scanner
from treetop.kernels.text import terms as kernel

CUTTER = Cutter("words", 1, 1, shortest=1)
SHORT = 3  # characters of a word up to which it keeps an s


class Sequences(NamedTuple):
    """Words of texts: which of some distinct words each is, its hash, and where each text ends."""

    words: NDArray[np.int32]
    hashes: NDArray[np.uint32]
    ends: Ints
    distinct: Texts


def read(texts: Texts) -> Sequences:
    """The words of texts in order."""
    seen = Collector()
    grams = [CUTTER(texts.span(start, stop)) for start, stop in CUTTER.ranges(texts)]
    for block in grams:
        seen.add(block, kernel.count_terms(block))
    offsets = seen.offsets[: seen.n + 1]
    known = (seen.table, seen.blob, offsets)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([np.diff(block[4]) for block in grams]))])
    return Sequences(
        np.concatenate([kernel.find_terms(block, known) for block in grams]),
        np.concatenate([block[1] for block in grams]).astype(np.uint32),
        ends,
        Texts(seen.blob[: int(offsets[-1])], offsets),
    )


def stems_of(words: Sequence[str], language: str) -> list[str]:
    """What lower-case words are compared by: Snowball stems, or without a language the words less a plural s."""
    return stemmer(language, "language")(words) if language else [singular(word) for word in words]


def singular(word: str) -> str:
    """A word without the s of an English, French or Spanish plural; -ies becomes -y.

    >>> [singular(word) for word in ("cats", "stories", "glass", "gas", "virus")]
    ['cat', 'story', 'glass', 'gas', 'virus']
    """
    if len(word) <= SHORT or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return word[:-3] + "y" if word.endswith("ies") and len(word) > SHORT + 1 else word[:-1]


class Lexicon:
    """Stems with ids 0, 1, ...; finds those of words."""

    def __init__(self, stems: Texts, language: str) -> None:
        self.stems, self.language = stems, language
        self._table = kernel.build_table(scanner.hash_terms(stems.blob, stems.offsets, True))

    @classmethod
    def of(cls, words: Texts, language: str) -> Lexicon:
        """The lexicon of all stems of some words."""
        return cls(Texts.of(sorted(set(stems_of(list(words), language)))), language)

    def find(self, words: Sequence[str]) -> NDArray[np.int32]:
        """The id of each word's stem, -1 for those without."""
        packed = Texts.of(stems_of(words, self.language))
        hashes = scanner.hash_terms(packed.blob, packed.offsets, True)
        ends = packed.offsets.astype(np.int32)
        grams = (packed.blob, hashes, ends[:-1], ends[1:], np.arange(len(words) + 1))
        return kernel.find_terms(grams, (self._table, self.stems.blob, self.stems.offsets))

    def sequences(self, texts: Texts) -> tuple[NDArray[np.int32], NDArray[np.uint32], Ints]:
        """(stem id or -1, hash as written) of every word, and where each text ends."""
        found = read(texts)
        ids = np.append(self.find(list(found.distinct)), np.int32(-1))
        return ids[found.words], found.hashes, found.ends
