"""N-grams and their vocabulary: how texts are split, which n-grams get a column, and their counts in each text.

Texts are worked on in blocks. Each block counts its own terms; blocks are then merged in order, so neither threads
nor the cut into blocks change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core import spill
from treetop.core.errors import InputError
from treetop.core.executor import executor
from treetop.core.texts import Texts
from treetop.features.tfidf.stems import stemmed
from treetop.kernels.runtime.threads import blocks, stream
from treetop.kernels.text import scanner
from treetop.kernels.text import terms as kernel
from treetop.kernels.text.characters import MARK, WORD, characters
from treetop.kernels.text.weigh import weigh

Array = NDArray[Any]
LONGEST = 1 << 26  # bytes of one text: places and entries inside a block are 32-bit numbers
NONE = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Cutter:
    """How texts are split into n-grams of `low` to `high` words, or characters `within` words or the whole text."""

    unit: str  # "words" | "characters"
    low: int
    high: int
    lower: bool = True
    marks: bool = True  # combining marks and joiners go on with a word
    shortest: int = 2  # characters of a word
    within: str = "words"
    unspaced: tuple[int, int] | None = None  # characters of a gram in scripts without blanks; None: they form words
    stem: str | None = None  # language of the stemmer

    def __call__(self, texts: Texts) -> tuple[Array, ...]:
        """(buffer, hashes, begins, ends, rows) of all n-grams; see `kernels/text/`."""
        table = characters()
        odd = scanner.odd_texts(texts.blob, texts.offsets, table, self.lower)
        if odd.any():
            texts = _tidy(texts, np.flatnonzero(odd), self.lower)
        scan, shape = self._words(texts, table) if self.unit == "words" else self._characters(texts, table)
        return (scan[0], *scanner.list_grams(scan, shape, self.unspaced or (1, 1)))

    def _words(self, texts: Texts, table: Array) -> tuple[tuple[Array, ...], tuple[int, int, int, int]]:
        inside = WORD | MARK if self.marks else WORD
        rules = (inside, self.shortest, self.lower, self.unspaced is not None)
        scan = scanner.scan_words(texts.blob, texts.offsets, table, *rules)
        return (stemmed(scan, self.stem) if self.stem else scan), (self.low, self.high, 1, 0)

    def _characters(self, texts: Texts, table: Array) -> tuple[tuple[Array, ...], tuple[int, int, int, int]]:
        within_words = self.within == "words"
        scan = scanner.scan_characters(texts.blob, texts.offsets, table, within_words, self.lower)
        return scan, (self.low, self.high, 0, int(within_words))

    @property
    def block(self) -> int:
        """Bytes of text in a block."""
        return 1 << 20 if self.unit == "words" else 1 << 18

    def ranges(self, texts: Texts) -> list[tuple[int, int]]:
        """Blocks of neighbouring texts with about `block` bytes each."""
        n, size = len(texts), len(texts.blob)
        if size <= self.block:
            return [(0, n)]
        longest = int(texts.lengths().max())
        if longest > LONGEST:
            raise InputError(
                f"features.tfidf: text {int(texts.lengths().argmax())} has {longest:,} bytes, "
                f"at most {LONGEST:,} are allowed. Split it."
            )
        cuts = np.searchsorted(texts.offsets, np.arange(self.block, size, self.block))
        bounds = np.unique([0, *cuts.tolist(), n]).tolist()
        return list(pairwise(bounds))


def _tidy(texts: Texts, rows: Array, lower: bool) -> Texts:
    """The texts with Python's own decoding and lower case in `rows`: final sigma, dotted capital I, broken UTF-8."""
    pieces: list[Array] = []
    lengths = texts.lengths()
    done = 0
    for row in rows.tolist():
        string = texts[row].lower() if lower else texts[row]
        piece = np.frombuffer(string.encode(), np.uint8)
        pieces += [texts.blob[texts.offsets[done] : texts.offsets[row]], piece]
        lengths[row] = len(piece)
        done = row + 1
    pieces.append(texts.blob[texts.offsets[done] :])
    return Texts(np.concatenate(pieces), np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


@dataclass(frozen=True)
class Rules:
    """Which terms get a column (document frequencies as counts or fractions, maximum features) and their weights."""

    min_df: int | float = 1
    max_df: int | float = 1.0
    max_features: int | None = None
    stable: bool = (
        True  # equal counts at the cap: earlier terms win; else numpy's unstable order, as scikit-learn has it
    )
    idf: str = "smooth"
    binary: bool = False
    sublinear: bool = False
    l2: bool = True

    @property
    def weights(self) -> tuple[bool, bool, bool]:
        return self.binary, self.sublinear, self.l2


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms in column order (by code point) with their weights; turns texts into rows."""

    cutter: Cutter
    rules: Rules
    terms: Texts
    idf: NDArray[np.float64]

    @cached_property
    def table(self) -> Array:
        """Where to find a term by its hash; made from the terms when first needed, about 0.1 s for a million."""
        words = self.cutter.unit == "words"
        return kernel.build_table(scanner.hash_terms(self.terms.blob, self.terms.offsets, words))

    def rows(self, texts: Texts, *, count_known: bool = True) -> tuple[Array, Array, Array, Array]:
        """(indptr, indices, data, known) of texts: columns ascend; `known` is the share of its words with a column.

        Without `count_known`, which is a fifth of the time, it is NaN.
        """
        terms = (self.table, self.terms.blob, self.terms.offsets)
        has_words = count_known and self.cutter.unit == "words" and self.cutter.low == 1

        def work(start: int, stop: int) -> tuple[Array, Array, Array, Array]:
            grams = self.cutter(texts.span(start, stop))
            ids = kernel.find_terms(grams, terms)
            known = kernel.known_words(grams, ids) if has_words else np.full(stop - start, np.nan, np.float32)
            return *weigh(grams[4], ids, NONE, NONE, self.idf, self.rules.weights), known

        ranges = self.cutter.ranges(texts)
        if len(ranges) == 1:
            return work(*ranges[0])
        lengths, known = [np.zeros(1, np.int64)], list[Array]()
        indices, data = spill.Growing(np.int32), spill.Growing(np.float32)
        for indptr, columns, values, shares in stream(work, ranges):
            lengths.append(np.diff(indptr))
            indices.append(columns)
            data.append(values)
            known.append(shares)
        return np.cumsum(np.concatenate(lengths)), indices.array(), data.array(), np.concatenate(known)

    def find(self, terms: Sequence[str]) -> list[int]:
        """The columns of terms, -1 for those without."""
        packed = Texts.of(terms)
        hashes = scanner.hash_terms(packed.blob, packed.offsets, self.cutter.unit == "words")
        ends = packed.offsets.astype(np.int32)
        grams = (packed.blob, hashes, ends[:-1], ends[1:], np.arange(len(terms) + 1))
        return kernel.find_terms(grams, (self.table, self.terms.blob, self.terms.offsets)).tolist()


@dataclass(eq=False)
class Count:
    """A block counted: distinct terms of each text by id, and how often."""

    pointers: Array
    ids: Array
    counts: Array
    known: Array  # the block's ids -> ids among all blocks


class Collector:
    """All terms seen so far, in growing arrays: about 30 bytes per term plus its text."""

    def __init__(self, *, totals: bool = False) -> None:
        self.n, self.totals = 0, totals
        self.table = np.zeros(1 << 12, np.uint64)
        self.hashes = np.zeros(1 << 11, np.uint64)
        self.offsets = np.zeros((1 << 11) + 1, np.int64)
        self.blob = np.zeros(1 << 15, np.uint8)
        self.df = np.zeros(1 << 11, np.int32)
        self.tf = np.zeros(1 << 11, np.int64)

    def add(self, grams: tuple[Array, ...], counted: tuple[Array, ...]) -> Count:
        """Merge what `count_terms` found in a block."""
        ids, counts, pointers, places, uses = counted
        self._make_room(len(places), int((grams[3][places] - grams[2][places]).sum()))
        store = (self.table, self.hashes, self.offsets, self.blob)
        known, self.n = kernel.merge_terms(grams, places, store, self.n)
        self.df[known] += uses  # a block's terms are distinct
        if self.totals:
            self.tf[known] += np.bincount(ids, weights=counts, minlength=len(known)).astype(np.int64)
        return Count(pointers, ids, counts, known)

    def _make_room(self, terms: int, size: int) -> None:
        if self.n + terms >= 1 << 31:
            raise InputError("features.tfidf: more than 2 billion terms. Use fewer n-grams.")
        if self.n + terms > len(self.hashes):
            room = kernel.table_size(self.n + terms)
            self.hashes, self.df, self.tf = (_grown(a, room) for a in (self.hashes, self.df, self.tf))
            self.offsets = _grown(self.offsets, room + 1)
            self.table = np.zeros(2 * room, np.uint64)
            kernel.fill_table(self.table, self.hashes[: self.n])
        if (need := int(self.offsets[self.n]) + size) > len(self.blob):
            self.blob = _grown(self.blob, 2 * need)


def _grown(array: Array, size: int) -> Array:
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


def learn(cutter: Cutter, rules: Rules, texts: Texts) -> Vocabulary:
    """The vocabulary of texts, keeping no counts of single texts."""
    vocabulary, _ = _learn(cutter, rules, texts, keep=False)
    return vocabulary


def learn_rows(cutter: Cutter, rules: Rules, texts: Texts) -> tuple[Vocabulary, tuple[Array, Array, Array]]:
    """The vocabulary and the rows of the same texts, scanned once; keeps 8 bytes per text and distinct term.

    Where these lie in files, texts are scanned twice instead.
    """
    if spill.spills(len(texts.blob)):  # about as many bytes as their terms take
        vocabulary = learn(cutter, rules, texts)
        return vocabulary, vocabulary.rows(texts, count_known=False)[:3]
    vocabulary, fill = _learn(cutter, rules, texts, keep=True)
    return vocabulary, fill()


def _learn(
    cutter: Cutter, rules: Rules, texts: Texts, *, keep: bool
) -> tuple[Vocabulary, Callable[[], tuple[Array, Array, Array]]]:
    here, ranges = executor.current(), cutter.ranges(texts)
    together = blocks(len(ranges), -(-len(ranges) // here.pieces))
    shards = [[texts.span(*span) for span in ranges[start:stop]] for start, stop in together]
    seen, counts = Collector(totals=rules.max_features is not None), list[Count]()
    wait = here.remote or len(shards) < len(ranges)  # blocks that wait, or travel, are made small first
    for counted in here.stream(_count, shards, cutter, keep or seen.totals, wait):
        for grams, block in counted:
            count = seen.add(grams, block)
            if keep:
                counts.append(count)
    kept = _choose(seen, rules, len(texts))
    df = seen.df[kept].astype(np.float64)
    vocabulary = Vocabulary(
        cutter, rules, Texts(*kernel.take_terms(seen.blob, seen.offsets, kept)), _idf(df, len(texts), rules.idf)
    )
    columns = np.full(seen.n, -1, np.int32)
    columns[kept] = np.arange(len(kept), dtype=np.int32)
    return vocabulary, lambda: _fill(vocabulary, counts, columns, int(df.sum()))


def _count(
    texts: list[Texts], cutter: Cutter, entries: bool, shrink: bool
) -> list[tuple[tuple[Array, ...], tuple[Array, ...]]]:
    """(n-grams, what `count_terms` says of them) of each block; without `entries` those of single texts less.

    With `shrink`, n-grams that occur again in a block are left behind, which takes a twelfth of the time.
    """
    counted: list[tuple[tuple[Array, ...], tuple[Array, ...]]] = []
    for block in texts:
        grams = cutter(block)
        ids, counts, pointers, places, uses = kernel.count_terms(grams)
        if not entries:
            ids, counts, pointers = NONE, NONE, np.zeros(1, np.int64)
        if shrink:
            grams, places = kernel.distinct_terms(grams, places), np.arange(len(places))
        counted.append((grams, (ids, counts, pointers, places, uses)))
    return counted


def _choose(seen: Collector, rules: Rules, n: int) -> Array:
    """Ids of the terms that get a column, in column order."""
    low = rules.min_df if isinstance(rules.min_df, int) else rules.min_df * n
    high = rules.max_df if isinstance(rules.max_df, int) else rules.max_df * n
    df = seen.df[: seen.n]
    kept = np.flatnonzero((df >= low) & (df <= high))
    if len(kept) == 0:
        raise InputError(
            f"features.tfidf: none of {seen.n:,} terms in {n:,} texts is left with min_df={rules.min_df} and "
            f"max_df={rules.max_df}. Give texts with words, or lower min_df."
        )
    keys = kernel.prefixes(seen.blob, seen.offsets, kept)
    order = np.argsort(keys)
    kept = kept[order]
    kernel.settle_ties(seen.blob, seen.offsets, keys[order], kept)
    if rules.max_features is not None and len(kept) > rules.max_features:
        uses = (seen.df if rules.binary else seen.tf)[kept].astype(np.float64)
        most = np.argsort(-uses, kind="stable" if rules.stable else None)[: rules.max_features]
        kept = kept[np.sort(most)]
    return kept


def _idf(df: NDArray[np.float64], n: int, kind: str) -> NDArray[np.float64]:
    if kind == "none":
        return np.ones(len(df))
    smooth = float(kind == "smooth")
    return np.log((n + smooth) / (df + smooth)) + 1.0


def _fill(vocabulary: Vocabulary, counts: list[Count], columns: Array, size: int) -> tuple[Array, Array, Array]:
    """Rows from counted blocks, written into their final place as blocks arrive; each block is then freed."""

    def work(block: int, _: int) -> tuple[Array, Array, Array]:
        count = counts[block]
        counts[block] = None  # type: ignore[call-overload]
        mapped = columns[count.known]
        return weigh(count.pointers, count.ids, count.counts, mapped, vocabulary.idf, vocabulary.rules.weights)

    lengths, at = list[Array](), 0
    indices, data = np.empty(size, np.int32), np.empty(size, np.float32)
    for part in stream(work, [(i, i + 1) for i in range(len(counts))]):
        stop = at + len(part[1])
        indices[at:stop], data[at:stop] = part[1], part[2]
        lengths.append(np.diff(part[0]))
        at = stop
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))]), indices, data
