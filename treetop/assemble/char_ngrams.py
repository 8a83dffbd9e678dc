"""`char_ngrams: auto`: whether character n-grams stand beside words, decided by the texts to train on.

They help where texts are short, in any language, and cost three to four times the training time of words alone. In long
texts they lose accuracy. Scripts without spaces have character n-grams already. Measured by
`benchmarks/languages/rule.py`, told in docs/languages.md.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from treetop.assemble.plan.imagined import Imagined
from treetop.assemble.stated_language import with_stated_language
from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.data.scripts import writing
from treetop.features.tfidf.tfidf import AUTO, Tfidf, TfidfConfig

NGRAMS = (2, 4)
LEAST, MOST = 300, 25_000  # documents; fewer were not measured, with more the time and the size of the model count
SHORT = 45.0  # words of a text, on average
UNSPACED = 0.3  # share of letters in scripts without spaces between words, or of syllables (Tibetan)
NEW, HEAVY = 0.1, 0.8  # from this share of unknown words on, character n-grams get this weight
GIVEN = "given"
BYTES = 6.5  # of a word with its blank, in Latin script


class Facts(NamedTuple):
    """What the decision is made from."""

    documents: int
    words: float  # distinct words of a text, on average
    new: float  # share of the words of another text that would be unknown: those seen once, by Good and Turing
    unspaced: float  # share of letters

    @property
    def helped(self) -> bool:
        """Whether character n-grams are worth their cost."""
        return LEAST <= self.documents <= MOST and self.words <= SHORT and self.unspaced <= UNSPACED

    def describe(self) -> str:
        """The facts, and what follows, in one line."""
        span = f"{NGRAMS[0]} to {NGRAMS[1]} characters"
        seen = (
            f"{self.documents:,} texts of about {self.words:.0f} words; of a new text {self.new:.0%} would be unknown"
        )
        return f"{seen}. Features are words and n-grams of {span} (tfidf.char_ngrams=null: words alone)"


def facts(texts: Texts, config: TfidfConfig) -> Facts:
    """What texts say about words: a scan, some 50 ms for 25,000 short texts."""
    words = replace(config, ngrams=(1, 1), char_ngrams=None, min_df=1, max_df=1.0, max_features=None, stem=None)
    _, X = Tfidf.fit_transform(texts, words)
    once = int((np.bincount(X.indices, minlength=X.shape[1]) == 1).sum())
    scripts = writing(texts)
    unspaced = scripts.unspaced + scripts.scripts.get("Tibetan", 0.0)
    return Facts(len(texts), X.nnz / max(len(texts), 1), once / max(X.nnz, 1), unspaced)


def settled(config: TfidfConfig, dataset: Dataset, *, say: bool = False) -> TfidfConfig:
    """The settings with `auto` replaced by what the documents of `dataset` ask for."""
    config = with_stated_language(config, dataset)
    if config.char_ngrams != AUTO:
        return config
    known = _known(dataset, config)
    if known is None or not known.helped:
        return replace(config, char_ngrams=None)
    if say:
        logger.info("%s: %s", dataset.name, known.describe())
    return replace(config, char_ngrams=NGRAMS, char_weight=HEAVY if known.new >= NEW else config.char_weight)


def _known(dataset: Dataset, config: TfidfConfig) -> Facts | None:
    """The facts; None where a glance tells that there are too many texts or too long ones."""
    n, size = len(dataset), len(dataset.texts.blob)
    if isinstance(dataset, Imagined):
        return Facts(n, size / max(n, 1) / BYTES, 0.0, 0.0)
    documents = dataset.documents
    if GIVEN in dataset.features or not LEAST <= documents.sum() <= MOST or size > 4 * BYTES * SHORT * n:
        return None
    return facts(dataset.texts if documents.all() else dataset.texts.take(documents.nonzero()[0]), config)


def settle(config: Any, dataset: Dataset, *, say: bool = False) -> Any:
    """A recipe's settings with `auto` settled wherever they hold tf-idf, and the language that the data state."""
    config = with_stated_language(config, dataset, say=say)
    changed = {
        field.name: settled(value, dataset, say=say)
        for field in dataclasses.fields(config)
        if isinstance(value := getattr(config, field.name), TfidfConfig) and value.char_ngrams == AUTO
    }
    return replace(config, **changed) if changed else config


def lengths_of(config: Any) -> int:
    """How many lengths the character n-grams of a recipe's tf-idf have; 0: none."""
    values = (getattr(config, field.name) for field in dataclasses.fields(config))
    spans = [value.char_ngrams for value in values if isinstance(value, TfidfConfig)]
    return max((last - first + 1 for first, last in (span for span in spans if isinstance(span, tuple))), default=0)
