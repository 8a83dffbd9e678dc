"""Search labels by the beginnings of words in their names, or of their ids; some milliseconds at a million labels.

Every word of a normalised name is an entry (a place in one blob of bytes), and so are every id and its last word: what
tells addresses apart, such as http://www.yso.fi/onto/yso/p19378, stands at their end. Entries are sorted by their first
`KEY` bytes, so the entries that begin with a prefix stand together and are found by bisection.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints, LabelSet

KEY = 16  # bytes by which entries are sorted; longer prefixes are compared in full among those that share them
WORD = re.compile(rb"[^\s]+")
PUNCTUATION = re.compile(r"[^\w\s]+")


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """Entries sorted by their bytes, and the label of each."""

    blob: bytes
    places: Ints  # (entries,) where each begins in the blob
    owners: NDArray[np.int32]  # (entries,) its label
    starts: Ints  # (labels,) where each label's name begins in the blob
    ids_from: int  # where the ids begin there
    order: NDArray[np.int32]  # labels by training texts, most first

    @classmethod
    def of(cls, labels: LabelSet, counts: NDArray[np.integer]) -> LabelIndex:
        """The index of all labels' names and ids."""
        n = len(labels)
        names, ids = _blob(labels.names), _blob(labels.ids)
        blob = b"".join((names, ids, b"\0" * KEY))
        ends = np.flatnonzero(np.frombuffer(blob, np.uint8) == 0)  # a zero byte behind every name and id
        starts = np.concatenate([[0], ends[: 2 * n] + 1])[: 2 * n].astype(np.int64)
        words = np.fromiter(_word_starts(names), np.int64)
        last = _last_words(blob, starts[n:], ends[n : 2 * n])
        places = np.concatenate([words, starts[n:], last[last > starts[n:]]])
        owners = np.searchsorted(starts, places, side="right") - 1
        owners[owners >= n] -= n
        order = _sorted_by_bytes(blob, places)
        frequent = np.argsort(-counts, kind="stable").astype(np.int32)
        return cls(blob, places[order], owners[order].astype(np.int32), starts[:n], len(names), frequent)

    def find(self, query: str, limit: int, offset: int = 0) -> tuple[list[int], int]:
        """(labels, how many in all) with a word beginning with each word of the query, or an id with the query.

        First comes the label that has this id, then names that begin with the whole query, then labels with more
        training texts.
        """
        words = normalised(query).encode().split()
        if not words:
            return self.order[offset : offset + limit].tolist(), len(self.order)
        mask = self._with(words[0])
        for word in {*words[1:]} - {words[0]}:
            mask &= self._with(word)
        whole = b" ".join(words)
        entries = self._range(whole)
        owners, places = self.owners[entries], self.places[entries]
        is_id = places >= self.ids_from
        mask[owners[is_id]] = True
        found = self.order[mask[self.order]]
        place = np.full(len(self.starts), 2, np.int8)
        place[owners[places == self.starts[owners]]] = 1
        place[owners[is_id & (self._bytes(places + len(whole)) == 0)]] = 0
        ranked = found[np.argsort(place[found], kind="stable")]
        return ranked[offset : offset + limit].tolist(), len(found)

    def _with(self, word: bytes) -> NDArray[np.bool_]:
        """(labels,) which have a word that begins so."""
        mask = np.zeros(len(self.starts), bool)
        mask[self.owners[self._range(word)]] = True
        return mask

    def _range(self, prefix: bytes) -> Ints:
        """Entries that begin with a prefix."""
        key = prefix[:KEY]
        low = bisect_left(self.places, key, key=lambda place: self.blob[place : place + len(key)])
        high = bisect_right(self.places, key, lo=low, key=lambda place: self.blob[place : place + len(key)])
        entries = np.arange(low, high)
        for i in reversed(range(KEY, len(prefix))):  # addresses differ at their end
            entries = entries[self._bytes(self.places[entries] + i) == prefix[i]]
        return entries

    def _bytes(self, places: Ints) -> NDArray[np.uint8]:
        """The blob's bytes at some places; 0 beyond its end."""
        return np.frombuffer(self.blob, np.uint8).take(places, mode="clip")


def normalised(text: str) -> str:
    """Without case, accents and punctuation, so that 'cafe' finds 'Café'."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).casefold()
    return PUNCTUATION.sub(" ", text).replace("\0", " ").lower()


def _blob(texts: Iterable[str]) -> bytes:
    """All texts normalised, words with one blank between them, a zero byte behind each."""
    return "\0".join([*(" ".join(normalised(text).split()) for text in texts), ""]).encode()


def _word_starts(names: bytes) -> Iterator[int]:
    """Where a word begins: behind a blank, or behind the end of another name."""
    array = np.frombuffer(names, np.uint8)
    divides = (array == 0x20) | (array == 0)
    begins = np.concatenate([[True], divides[:-1]]) & ~divides if len(array) else np.zeros(0, bool)
    yield from np.flatnonzero(begins).tolist()


def _last_words(blob: bytes, starts: Ints, ends: Ints) -> Ints:
    """Where the last word of each of some pieces begins."""
    blanks = np.concatenate([[-1], np.flatnonzero(np.frombuffer(blob, np.uint8) == 0x20)])
    return np.maximum(starts, blanks[np.searchsorted(blanks, ends) - 1] + 1)


def _sorted_by_bytes(blob: bytes, places: Ints) -> Ints:
    """The order of entries by their first `KEY` bytes."""
    array = np.frombuffer(blob, np.uint8)
    keys = [np.zeros(len(places), np.uint64) for _ in range(KEY // 8)]
    for i in range(KEY):
        keys[i // 8] = (keys[i // 8] << np.uint64(8)) | array[places + i]
    return np.lexsort(keys[::-1])
