"""Which forms a label may have in a text: its name, its alternative names, and what they are without additions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints, LabelSet
from treetop.core.texts import Texts
from treetop.features.lexical.words import Lexicon, Sequences, read
from treetop.kernels.text.matching import LONGEST

NAME, ALTERNATIVE, DERIVED = 0, 1, 2  # where a form comes from
QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")
HEADING = re.compile(r"^(.{1,200}?): .")  # "car, automobile: a motor vehicle with four wheels"
FLOOR = np.float32(0.05)  # weight of a word that all forms have


@dataclass(frozen=True, eq=False)
class Forms:
    """Distinct sets of words, and for each the labels that have it, best source first."""

    lexicon: Lexicon
    ends: NDArray[np.int32]  # (forms + 1,)
    words: NDArray[np.int32]  # ids of stems, the rarest of a form first
    hashes: NDArray[np.uint32]  # of the words as written
    weight: NDArray[np.float32]  # (stems,)
    label_ends: NDArray[np.int32]  # (forms + 1,)
    labels: NDArray[np.int32]  # columns
    source: NDArray[np.uint8]  # NAME, ALTERNATIVE or DERIVED

    @property
    def information(self) -> NDArray[np.float32]:
        """(forms,) the sum of the weights of its words."""
        return np.add.reduceat(self.weight[self.words], self.ends[:-1]) if len(self.ends) > 1 else self.weight[:0]


def collect(labels: LabelSet, texts: Texts, language: str, longest: int) -> Forms:
    """All forms of labels of up to `longest` words; words frequent among forms or in `texts` weigh little."""
    strings, columns, sources = zip(*written_forms(labels), strict=True) if len(labels) else ((), (), ())
    found = read(Texts.of(strings))
    lexicon = Lexicon.of(found.distinct, language)
    ids = lexicon.find(list(found.distinct))
    stems, hashes, lengths = _distinct_words(found, ids)
    kept = (lengths > 0) & (lengths <= min(longest, LONGEST))
    weight = _weights(stems, kept, lengths, len(lexicon.stems), _document_share(lexicon, texts))
    owner, source = np.array(columns, np.int32), np.array(sources, np.uint8)
    groups = [_grouped(n, stems, hashes, lengths, kept, weight) for n in range(1, LONGEST + 1)]
    sizes = np.concatenate([np.full(len(words), n + 1) for n, (words, _, _) in enumerate(groups)])
    form = np.concatenate([[], *(at + first for (_, _, at), first in zip(groups, _starts(groups), strict=True))])
    rows = np.concatenate([np.flatnonzero(kept & (lengths == n)) for n in range(1, LONGEST + 1)])
    label_ends, pair_labels, pair_source = _pairs(form.astype(np.int64), owner[rows], source[rows], len(sizes))
    return Forms(
        lexicon,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int32),
        np.concatenate([words.ravel() for words, _, _ in groups]).astype(np.int32),
        np.concatenate([written.ravel() for _, written, _ in groups]).astype(np.uint32),
        weight, label_ends, pair_labels, pair_source,
    )  # fmt: skip


def written_forms(labels: LabelSet) -> Iterator[tuple[str, int, int]]:
    """(string, column, source) of every form, names before alternative names."""
    for column, name in enumerate(labels.names):
        yield from ((string, column, source) for string, source in _variants(name, NAME))
    if labels.thesaurus is not None:
        for name, column in zip(labels.thesaurus.names, labels.thesaurus.owners.tolist(), strict=True):
            yield from ((string, column, source) for string, source in _variants(name, ALTERNATIVE))


def _variants(name: str, source: int) -> Iterator[tuple[str, int]]:
    """A name, or the heading of a described one in its parts; and without a qualifier in parentheses."""
    heading = HEADING.match(name)
    for string in re.split(r"[,;] ", heading[1]) if heading else [name]:
        yield string, source
        if (bare := QUALIFIER.sub("", string)) != string:
            yield bare, DERIVED


def _distinct_words(found: Sequences, ids: NDArray[np.int32]) -> tuple[Ints, NDArray[np.uint32], Ints]:
    """(stem, hash) of every string's distinct words, strings in order and stems ascending; words of each string."""
    rows = np.repeat(np.arange(len(found.ends) - 1, dtype=np.int64), np.diff(found.ends))
    stems = ids[found.words].astype(np.int64)
    _, first = np.unique(rows * max(len(ids), 1) + stems, return_index=True)
    return stems[first], found.hashes[first], np.bincount(rows[first], minlength=len(found.ends) - 1)


def _document_share(lexicon: Lexicon, texts: Texts) -> NDArray[np.floating]:
    """(stems,) the smoothed share of texts that have each."""
    words, _, ends = lexicon.sequences(texts)
    rows = np.repeat(np.arange(len(texts), dtype=np.int64), np.diff(ends))[words >= 0]
    pairs = np.unique(rows * max(len(lexicon.stems), 1) + words[words >= 0])
    counts = np.bincount(pairs % max(len(lexicon.stems), 1), minlength=len(lexicon.stems))
    shares: NDArray[np.floating] = (counts + 0.5) / (len(texts) + 1.0)
    return shares


def _weights(
    stems: Ints, kept: NDArray[np.bool_], lengths: Ints, n: int, in_texts: NDArray[np.floating]
) -> NDArray[np.float32]:
    """(stems,) the lower of two logarithms of rarity: among forms and in texts."""
    counts = np.bincount(stems[np.repeat(kept, lengths)], minlength=n)
    among_forms = np.maximum(counts, 1) / max(int(kept.sum()), 1)
    return np.maximum(-np.log(np.maximum(among_forms, in_texts)), FLOOR).astype(np.float32)


Group = tuple[Ints, NDArray[np.uint32], Ints]


def _grouped(
    n: int, stems: Ints, hashes: NDArray[np.uint32], lengths: Ints, kept: NDArray[np.bool_], weight: NDArray[np.float32]
) -> Group:
    """The distinct forms of `n` words: (stems, heaviest first; hashes; which of them each string is)."""
    chosen = np.repeat(kept & (lengths == n), lengths)
    table, written = stems[chosen].reshape(-1, n), hashes[chosen].reshape(-1, n)
    if len(table) == 0:
        return table, written, np.zeros(0, np.int64)
    words, first, at = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(-weight[words], axis=1, kind="stable")
    return np.take_along_axis(words, order, 1), np.take_along_axis(written[first], order, 1), at.reshape(-1)


def _starts(groups: list[Group]) -> list[int]:
    return [0, *np.cumsum([len(words) for words, _, _ in groups[:-1]]).tolist()]


def _pairs(
    form: Ints, owner: NDArray[np.int32], source: NDArray[np.uint8], n: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
    """Labels of each form, each once with its best source: (pointers, labels, sources)."""
    order = np.lexsort((source, owner, form))
    form, owner, source = form[order], owner[order], source[order]
    first = np.ones(len(form), bool)
    first[1:] = (np.diff(form) != 0) | (np.diff(owner) != 0)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(form[first], minlength=n))]).astype(np.int32)
    return ends, owner[first], source[first]
