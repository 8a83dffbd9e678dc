"""Which share of a text's words tf-idf knows."""

import numpy as np
import pytest

from treetop.core.texts import Texts
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig

TRAIN = ["a black cat", "the black dog", "schwarze Katze"]
ASKED = Texts.of(["black cats", "", "CAT dog", "zzz", "a", "Katze Katze Hund", "?!"])


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_shares_of_words(ngrams):
    tfidf = Tfidf.fit(TRAIN, TfidfConfig(ngrams=ngrams))
    found = tfidf.known_words(ASKED)
    np.testing.assert_allclose(found, [0.5, np.nan, 1.0, 0.0, np.nan, 2 / 3, np.nan], rtol=1e-6)
    assert len(tfidf.known_words(Texts.of([]))) == 0


@pytest.mark.parametrize("config", [{"ngrams": (2, 2)}, {"ngrams": None, "char_ngrams": (2, 3)}])
def test_terms_that_are_not_words(config):
    assert np.isnan(Tfidf.fit(TRAIN, TfidfConfig(**config)).known_words(ASKED)).all()
