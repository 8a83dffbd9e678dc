"""tf-idf of words and characters: term frequency times inverse document frequency, L2-normalised.

With `words: sklearn` and the same settings the numbers are those of scikit-learn's TfidfVectorizer. The default
`unicode` differs in two things: combining marks stay inside words, without which Hindi has hardly any, and scripts that
put no blanks between words (Chinese, Japanese, Thai and others) give character n-grams (`unspaced`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import config as settings
from treetop.core.abilities import Gradient, Share, Shares, SharesOut
from treetop.core.config import setting
from treetop.core.dataset import Csr
from treetop.core.errors import ConfigError, ModelError, choose
from treetop.core.language import LANGUAGES
from treetop.core.renamed import translated
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS
from treetop.features.tfidf.grams import Cutter, Rules, Vocabulary, learn, learn_rows
from treetop.features.tfidf.places import places
from treetop.features.views import Views
from treetop.kernels.sparse import sound_csr

AUTO: Literal["auto"] = "auto"  # settled before training (assemble/char_ngrams.py)
Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # indptr, indices, data


@dataclass(frozen=True, kw_only=True)
class TfidfConfig:
    """Settings of `Tfidf`."""

    tokenizer: Literal["unicode", "sklearn"] = setting(
        "unicode", "word tokenisation: as scikit-learn's, or keeping combining marks within words (unicode)"
    )
    ngrams: tuple[int, int] | None = setting((1, 1), "word n-gram range; null: no word terms")
    char_ngrams: tuple[int, int] | Literal["auto"] | None = setting(
        None, "character n-gram range; null: no character terms; auto: [2, 4] where texts are few and short"
    )
    char_ngrams_within: Literal["words", "text"] = setting(
        "words", "character n-grams within words, or across word boundaries"
    )
    char_weight: float = setting(
        0.5,
        "weight of character n-grams beside words (share of the squared row norm); auto raises it",
        low=0.0,
        high=1.0,
    )
    unspaced: tuple[int, int] | None = setting(
        (1, 2),
        "character n-gram range in scripts without spaces between words, such as Chinese, Japanese and Thai; "
        "null: as words; tokenizer sklearn: always as words",
    )
    stem: str | None = setting(
        None, "language of the Snowball stemmer for words, such as english; auto: that of the data; null: no stemming"
    )
    min_word_length: int = setting(2, "minimum word length in characters", low=1)
    lowercase: bool = setting(True, "lowercase texts")
    sublinear: bool = setting(True, "sublinear term frequency: 1 + log(count)")
    binary: bool = setting(False, "binary term frequency")
    min_df: int | float = setting(1, "minimum document frequency: a count (integer) or a fraction of the texts", low=0)
    max_df: int | float = setting(
        1.0, "maximum document frequency: a count (integer) or a fraction of the texts", low=0
    )
    max_features: int | None = setting(
        None, "vocabulary size: keep the most frequent terms (words and characters separately)", low=1
    )
    idf: Literal["smooth", "plain", "none"] = setting("smooth", "inverse document frequency: smoothed, plain or none")
    l2: bool = setting(True, "L2-normalise each row")

    def __post_init__(self) -> None:
        if self.ngrams is None and not isinstance(self.char_ngrams, tuple):
            raise ConfigError("ngrams: null, and char_ngrams null too, so there is nothing to count. Set one of them.")
        for name in ("ngrams", "char_ngrams", "unspaced"):
            span = getattr(self, name)
            if span not in (None, AUTO) and not 1 <= span[0] <= span[1] <= 15:
                raise ConfigError(f"{name}: {list(span)} is not a range. Give [min, max] within 1 to 15.")
        if self.stem is not None:
            choose("stem", self.stem, (AUTO, *LANGUAGES))
        for name in ("min_df", "max_df"):
            if isinstance(share := getattr(self, name), float) and not 0.0 <= share <= 1.0:
                raise ConfigError(f"{name}: {share} is not a fraction. Give 0.0 to 1.0, or a whole number of texts.")

    def cutters(self) -> dict[str, Cutter]:
        """How texts are split into terms, for each group of columns."""
        cutters_ = {}
        if self.ngrams is not None:
            marks = self.tokenizer == "unicode"
            cutters_["words"] = Cutter(
                "words",
                *self.ngrams,
                lower=self.lowercase,
                marks=marks,
                shortest=self.min_word_length,
                unspaced=self.unspaced if marks else None,
                stem=self.stem,
            )
        if isinstance(self.char_ngrams, tuple):
            cutters_["chars"] = Cutter(
                "characters", *self.char_ngrams, lower=self.lowercase, within=self.char_ngrams_within
            )
        return cutters_

    def rules(self) -> Rules:
        """Which terms are kept and how they are weighted."""
        return Rules(
            min_df=self.min_df,
            max_df=self.max_df,
            max_features=self.max_features,
            stable=self.tokenizer == "unicode",
            idf=self.idf,
            binary=self.binary,
            sublinear=self.sublinear,
            l2=self.l2,
        )


DEFAULT = TfidfConfig()
BEFORE_UNSPACED = {"unspaced": None}  # what a model without this setting was trained with


class Tfidf(SharesOut):
    """Terms learned from texts, and their tf-idf rows; words first, then characters.

    >>> tfidf, X = Tfidf.fit_transform(Texts.of(["a black cat", "the black dog"]), TfidfConfig())
    >>> tfidf.terms([0, 1]), X.shape
    (['black', 'cat'], (2, 4))
    """

    kind: ClassVar[str] = "features.tfidf.1"

    def __init__(self, config: TfidfConfig, groups: Mapping[str, Vocabulary]) -> None:
        self.config, self.groups = config, dict(groups)
        self.n_features = sum(len(group.terms) for group in self.groups.values())

    @classmethod
    def fit(cls, texts: Iterable[str], config: TfidfConfig = DEFAULT) -> Tfidf:
        """Learn terms and weights; holds no matrix, for corpora larger than memory allows."""
        packed, rules = Texts.of(texts), config.rules()
        return cls(config, {name: learn(cutter, rules, packed) for name, cutter in config.cutters().items()})

    @classmethod
    def fit_transform(cls, texts: Iterable[str], config: TfidfConfig = DEFAULT) -> tuple[Tfidf, Csr]:
        """Learn terms and weights, and return the rows of the same texts without a second scan."""
        packed, rules = Texts.of(texts), config.rules()
        learned = {name: learn_rows(cutter, rules, packed) for name, cutter in config.cutters().items()}
        features = cls(config, {name: vocabulary for name, (vocabulary, _) in learned.items()})
        return features, features._join([rows for _, rows in learned.values()])

    def transform(self, texts: Iterable[str]) -> Csr:
        """Rows of texts: csr float32 with ascending columns."""
        return self._read(Texts.of(texts), count_known=False)[0]

    def views(self, texts: Texts) -> Mapping[str, Any]:
        """The view "tfidf" of a batch and the words known of it, by one scan when one of them is first asked for."""
        scan = cache(lambda: self._read(texts))
        return Views({"tfidf": lambda: scan()[0], KNOWN_WORDS: lambda: scan()[1]})

    def _read(self, texts: Texts, *, count_known: bool = True) -> tuple[Csr, NDArray[np.float32]]:
        """Rows of texts, and the share of each text's words that have a column (NaN if they are not counted)."""
        found = {name: group.rows(texts, count_known=count_known) for name, group in self.groups.items()}
        known = found["words"][3] if "words" in found else np.full(len(texts), np.nan, np.float32)
        return self._join([rows[:3] for rows in found.values()]), known

    def _join(self, parts: Sequence[Rows]) -> Csr:
        """One matrix from the rows of each group; groups have equal weight in a row that has several."""
        parts_ = [sound_csr(*rows, len(group.terms)) for rows, group in zip(parts, self.groups.values(), strict=True)]
        if len(parts_) == 1:
            return parts_[0]
        joined: Csr = sparse.hstack(parts_, format="csr", dtype=np.float32)
        if self.config.l2:
            words, chars = (np.diff(part.indptr) for part in parts_)
            both = (words > 0) & (chars > 0)
            weight = np.float64(self.config.char_weight)
            scales = np.stack([np.where(both, np.sqrt(share), 1.0) for share in (1.0 - weight, weight)], axis=1)
            lengths = np.stack([words, chars], axis=1)
            joined.data *= np.repeat(scales.astype(np.float32).ravel(), lengths.ravel())
        return joined

    def terms(self, columns: Iterable[int] | None = None) -> list[str]:
        """The terms of columns (all when none are given)."""
        names = list(self.groups.values())
        if columns is None:
            return [term for group in names for term in group.terms]
        ends = np.cumsum([len(group.terms) for group in names])
        terms_ = []
        for column in columns:
            which = int(np.searchsorted(ends, column, side="right"))
            terms_.append(names[which].terms[int(column) - (int(ends[which - 1]) if which else 0)])
        return terms_

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares]:
        """A linear function of the row is a sum over its terms; each stands where the text has it."""
        row = self.transform([text])
        stands: dict[int, dict[tuple[int, int], None]] = {column: {} for column in row.indices.tolist()}
        for start, end, column in self.spans(text):
            stands.setdefault(column, {})[start, end] = None
        terms = zip(row.indices.tolist(), self.terms(row.indices), strict=True)
        named = {column: Share(term, 0.0, tuple(stands[column])) for column, term in terms}
        return [Shares(_parts(row, gradient, named)) for gradient in gradients]

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """(start, end, column) of every known term, in characters of the text as given."""
        found, first = [], 0
        for group in self.groups.values():
            grams = places(group.cutter, text)
            columns = group.find([gram for gram, _, _ in grams])
            pairs = zip(grams, columns, strict=True)
            found += [(start, end, first + column) for (_, start, end), column in pairs if column >= 0]
            first += len(group.terms)
        return found

    def to_part(self) -> Part:
        arrays: dict[str, NDArray[Any]] = {}
        for name, group in self.groups.items():
            arrays[f"{name}.blob"], arrays[f"{name}.offsets"] = group.terms.blob, group.terms.offsets
            arrays[f"{name}.idf"] = group.idf
        return Part(self.kind, settings.to_dict(self.config), arrays)

    @classmethod
    def from_part(cls, part: Part) -> Tfidf:
        try:
            config = settings.build(TfidfConfig, translated(TfidfConfig, {**BEFORE_UNSPACED, **part.config}))
        except ConfigError as error:
            raise ModelError(f"{cls.kind}: {error} The model is damaged; copy it again.") from None
        groups = {
            name: Vocabulary(cutter, config.rules(), *_read_terms(part, name))
            for name, cutter in config.cutters().items()
        }
        return cls(config, groups)


def _parts(row: Csr, gradient: Gradient, named: Mapping[int, Share]) -> list[Share]:
    """The terms of a row that a linear function reads, with what each adds."""
    columns = row.indices.tolist()
    if gradient.columns is None:
        weights = gradient.weights[row.indices].tolist()
    else:
        known = dict(zip(gradient.columns.tolist(), gradient.weights.tolist(), strict=True))
        weights = [known.get(column, 0.0) for column in columns]
    parts = zip(columns, row.data.tolist(), weights, strict=True)
    return [replace(named[column], amount=x * weight) for column, x, weight in parts if weight]


def _read_terms(part: Part, name: str) -> tuple[Texts, NDArray[np.float64]]:
    blob, idf = part.array(f"{name}.blob", "|u1", None), part.array(f"{name}.idf", "<f8", None)
    if len(idf) >= 1 << 31 or not np.isfinite(idf).all():
        raise ModelError(f"{part.kind}: array '{name}.idf' holds NaN, Inf or too many values. The model is damaged.")
    return Texts(blob, part.pointers(f"{name}.offsets", len(idf) + 1, len(blob))), idf
