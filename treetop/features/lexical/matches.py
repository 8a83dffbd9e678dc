"""Forms of labels found in texts: the view "matches", CHANNELS values for every form that a text holds.

A form is a set of words; it is found where a text has words of at least `share` of its weight, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.abilities import Gradient, Share, Shares, SharesOut
from treetop.core.dataset import Csr, Ints
from treetop.core.errors import ConfigError, ModelError
from treetop.core.part_checks import DAMAGED, MOST, floats, number
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS, Floats
from treetop.features.lexical.forms import Forms
from treetop.features.lexical.words import CUTTER, Lexicon
from treetop.features.tfidf.places import places
from treetop.features.views import Views
from treetop.kernels.runtime import threads
from treetop.kernels.text.matching import CHANNELS, LONGEST, Index, file_forms, match

BLOCK = 512  # texts that a thread takes at a time
VIEW = "matches"


class Matches(SharesOut):
    """Words of forms, and where a text has them."""

    kind: ClassVar[str] = "features.matches.1"

    def __init__(self, lexicon: Lexicon, index: Index, share: float) -> None:
        self.lexicon, self.index, self.share = lexicon, index, share

    @classmethod
    def of(cls, forms: Forms, share: float) -> Matches:
        filed = file_forms(forms.ends, forms.words, forms.weight, share)
        return cls(forms.lexicon, Index(forms.ends, forms.words, forms.hashes, *filed, forms.weight), share)

    @property
    def n_forms(self) -> int:
        return len(self.index.ends) - 1

    def transform(self, texts: Texts) -> Csr:
        """(texts, CHANNELS x forms) what is known of every form found."""
        return self._read(texts)[0]

    def views(self, texts: Texts) -> Mapping[str, Any]:
        """The view "matches" of a batch and the words known of it, by one scan when one of them is first asked for."""
        scan = cache(lambda: self._read(texts))
        return Views({VIEW: lambda: scan()[0], KNOWN_WORDS: lambda: scan()[1]})

    def _read(self, texts: Texts) -> tuple[Csr, Floats]:
        """What is known of every form found, and the share of each text's words that occur in a form."""

        def work(start: int, stop: int) -> Any:
            words, hashes, ends = self.lexicon.sequences(texts.span(start, stop))
            return *match(words, hashes, ends, self.index, self.share), _shares_known(words, ends)

        parts = threads.run(work, threads.blocks(len(texts), BLOCK) or [(0, 0)])
        lengths = np.concatenate([np.diff(pointers) for pointers, *_ in parts]) * CHANNELS
        forms = np.concatenate([forms for _, forms, _, _ in parts]).astype(np.int64)
        columns = (forms[:, None] * CHANNELS + np.arange(CHANNELS)).astype(np.int32).reshape(-1)
        values = np.concatenate([values for _, _, values, _ in parts]).reshape(-1)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        shape = (len(texts), CHANNELS * self.n_forms)
        return sparse.csr_matrix((values, columns, indptr), shape), np.concatenate([known for *_, known in parts])

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares]:
        """What a form adds is divided among its words in the text by their weights."""
        row = self.transform(Texts.of([text]))
        value = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        found = places(CUTTER, text)
        words, spans = [word for word, _, _ in found], [(start, end) for _, start, end in found]
        stems = self.lexicon.find(words).tolist()
        return [self._shares(gradient, value, words, spans, stems) for gradient in gradients]

    def _shares(
        self, gradient: Gradient, value: Mapping[int, float], words: list[str], spans: list[tuple[int, int]],
        stems: list[int],
    ) -> Shares:  # fmt: skip
        amounts: dict[str, float] = {}
        columns = range(len(gradient.weights)) if gradient.columns is None else gradient.columns.tolist()
        for column, weight in zip(columns, gradient.weights.tolist(), strict=True):
            form = column // CHANNELS
            ids = self.index.words[self.index.ends[form] : self.index.ends[form + 1]].tolist()
            there = {
                word: float(self.index.weight[stem]) for word, stem in zip(words, stems, strict=True) if stem in ids
            }
            for word, part in there.items():
                amount = weight * value.get(column, 0.0) * part / sum(there.values())
                amounts[word] = amounts.get(word, 0.0) + amount
        places = {word: tuple(s for w, s in zip(words, spans, strict=True) if w == word) for word in amounts}
        return Shares([Share(word, amount, places[word]) for word, amount in amounts.items() if amount])

    def to_part(self) -> Part:
        stems = self.lexicon.stems
        arrays: dict[str, NDArray[Any]] = {**self.index._asdict(), "crowded": self.index.crowded.view(np.uint8)}
        arrays |= {"stems_blob": stems.blob, "stems_ends": stems.offsets}
        return Part(self.kind, {"language": self.lexicon.language, "share": self.share}, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Matches:
        blob, weight = part.array("stems_blob", "|u1", None), floats(part, "weight", None)
        stems = Texts(blob, part.pointers("stems_ends", len(weight) + 1, len(blob)))
        index = _read_index(part, weight)
        sizes = np.diff(index.ends)
        sound = bool(((sizes > 0) & (sizes <= LONGEST)).all()) and len(sizes) * CHANNELS <= MOST
        if not sound or not ((weight > 0) & (weight < 1e6)).all():
            raise ModelError(f"{part.kind}: its forms do not fit together. {DAMAGED}")
        try:
            lexicon = Lexicon(stems, part.setting("language", str))
        except ConfigError as error:
            raise ModelError(f"{part.kind}: {error} {DAMAGED}") from None
        return cls(lexicon, index, number(part, "share", 0.01, 1.0))


def _shares_known(words: NDArray[np.int32], ends: Ints) -> Floats:
    before, counts = np.concatenate([[0], np.cumsum(words >= 0)]), np.diff(ends)
    known = np.full(len(counts), np.nan, np.float32)
    np.divide(np.diff(before[ends]), counts, out=known, where=counts > 0, casting="unsafe")
    return known


def _read_index(part: Part, weight: NDArray[np.float32]) -> Index:
    words = part.indices("words", "<i4", None, len(weight))
    ends = part.pointers("ends", len(part.array("ends", "<i4", None)), len(words), "<i4")
    filed = part.indices("filed", "<i4", None, len(ends) - 1)
    return Index(
        ends, words, part.array("hashes", "<u4", len(words)),
        part.pointers("filed_ends", len(weight) + 1, len(filed), "<i4"), filed,
        part.indices("crowded", "|u1", len(weight), 2).view(np.bool_), weight,
    )  # fmt: skip
