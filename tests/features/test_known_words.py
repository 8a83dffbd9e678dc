"""Which share of a text's words tf-idf knows."""

import numpy as np
import pytest

from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels import reference

TRAIN = ["a black cat", "the black dog", "schwarze Katze"]
ASKED = Texts.of(["black cats", "", "CAT dog", "zzz", "a", "Katze Katze Hund", "?!"])


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_shares_of_words(ngrams):
    tfidf = Tfidf.fit(TRAIN, TfidfConfig(ngrams=ngrams))
    found = tfidf.views(ASKED)[KNOWN_WORDS]
    np.testing.assert_allclose(found, [0.5, np.nan, 1.0, 0.0, np.nan, 2 / 3, np.nan], rtol=1e-6)
    assert len(tfidf.views(Texts.of([]))[KNOWN_WORDS]) == 0


@pytest.mark.parametrize("config", [{"ngrams": (2, 2)}, {"ngrams": None, "char_ngrams": (2, 3)}])
def test_terms_that_are_not_words(config):
    assert np.isnan(Tfidf.fit(TRAIN, TfidfConfig(**config)).views(ASKED)[KNOWN_WORDS]).all()


@pytest.mark.parametrize("config", [{}, {"ngrams": (1, 3)}, {"ngrams": (1, 2), "stem": "english"}])
def test_shares_by_the_kernel_and_gram_by_gram(config):
    rng = np.random.default_rng(0)
    words = ["cat", "cats", "dog", "a", "猫", "図書館", "schön", "!", "x1"]
    texts = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(200)]
    tfidf = Tfidf.fit(texts[:3], TfidfConfig(**config))
    cutter, terms = tfidf.groups["words"].cutter, set(tfidf.terms())
    expected = []
    for text in texts:
        buffer, _, begins, ends, _ = cutter(Texts.of([text]))
        grams = [bytes(buffer[a:b]).decode() for a, b in zip(begins, ends, strict=True)]
        expected.append(reference.known_words(grams, [0 if gram in terms else -1 for gram in grams]))
    np.testing.assert_array_equal(tfidf.views(Texts.of(texts))[KNOWN_WORDS], np.float32(expected))


def test_many_texts_are_read_in_blocks():
    """More than a block of bytes: rows and shares are those of single texts."""
    tfidf = Tfidf.fit(TRAIN, TfidfConfig())
    texts = Texts.of([f"black {'cat ' * (i % 7)} zzz{i} {'pad ' * 1000}" for i in range(600)])
    views = tfidf.views(texts)
    assert len(tfidf.groups["words"].cutter.ranges(texts)) > 1
    for row in (0, 3, 599):
        one = tfidf.views(texts.span(row, row + 1))
        assert views[KNOWN_WORDS][row] == one[KNOWN_WORDS][0]
        assert (views["tfidf"][row] != one["tfidf"]).nnz == 0
