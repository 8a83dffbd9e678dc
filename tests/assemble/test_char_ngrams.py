import logging

import numpy as np
import pytest

import treetop
from treetop.assemble import char_ngrams
from treetop.assemble.char_ngrams import HEAVY, MOST, settle, settled
from treetop.assemble.plan.imagined import Size, imagined
from treetop.core import registry
from treetop.data.frame import from_lists
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.training import plan, preset_file, presets

AUTO = TfidfConfig(ngrams=(1, 2), min_df=2, char_ngrams="auto")
CJK = "".join(chr(0x4E00 + i) for i in range(400))


def data(words, n=300, vocabulary=40, write=lambda i: f"word{i}"):
    """Texts of so many words: few words are known by heart, many are new."""
    rng = np.random.default_rng(0)
    texts = [" ".join(write(i) for i in rng.integers(0, vocabulary, words)) for _ in range(n)]
    return from_lists(texts, [[f"label{i % 9}"] for i in range(n)])


@pytest.mark.parametrize(
    ("rows", "span", "weight"),
    [
        ({"words": 8}, (2, 4), 0.5),  # words that come again and again
        ({"words": 8, "vocabulary": 100_000}, (2, 4), HEAVY),  # mostly new ones
        ({"words": 80, "vocabulary": 10**9}, None, 0.5),  # long texts
        ({"words": 8, "n": 150}, None, 0.5),  # fewer than were measured
        ({"words": 8, "write": lambda i: CJK[i : i + 9]}, None, 0.5),  # characters stand for words already
    ],
)
def test_texts_decide(rows, span, weight):
    found = settled(AUTO, data(**rows))
    assert (found.char_ngrams, found.char_weight) == (span, weight)
    assert found.ngrams == (1, 2) and settled(found, data(**rows)) is found


def test_large_data_keep_words_without_a_scan(monkeypatch):
    monkeypatch.setattr(char_ngrams, "facts", lambda *_: pytest.fail("scanned"))
    large = data(words=1, n=MOST + 1)
    assert settled(AUTO, large).char_ngrams is None
    for documents, tokens, span in ((1e9, 10, None), (20_000, 10, (2, 4)), (20_000, 300, None)):
        size = imagined(Size(documents, 100, tokens), bytes_per_token=6.0, described=1.0)
        assert settled(AUTO, size).char_ngrams == span


def test_words_alone_keep_every_bit():
    """Where the rule says no, training is that of words."""
    long = data(words=80, vocabulary=200)
    models = [treetop.fit("xr_linear", long, settings=settings) for settings in ((), ["tfidf.char_ngrams=null"])]
    rows = [model.views(list(long.texts))["tfidf"] for model in models]
    assert (rows[0] != rows[1]).nnz == 0 and models[0].card.config == models[1].card.config


def test_the_model_says_and_keeps_what_was_chosen(tmp_path, caplog):
    short = data(words=8)
    with caplog.at_level(logging.INFO, logger="treetop"):
        model = treetop.fit("xr_linear", short, out=tmp_path / "model")
    line = "300 texts of about 7 words; of a new text 0% would be unknown. Features are words and n-grams of 2"
    assert [line in message for message in caplog.messages].count(True) == 1
    assert model.card.config["tfidf"]["char_ngrams"] == [2, 4]
    again = treetop.load(tmp_path / "model")
    assert again.features["tfidf"].config.char_ngrams == (2, 4)
    assert np.array_equal(again.rank(["word3 word4"], k=3).score, model.rank(["word3 word4"], k=3).score)
    assert treetop.fit("xr_linear", short, out=tmp_path / "model", resume=True).card == model.card


def test_forecasts_know_it():
    short = data(words=8, n=2_000, vocabulary=3_000)
    alone = plan("xr_linear", settings=["tfidf.char_ngrams=null"]).forecast(short)
    assert plan("xr_linear").forecast(short).model > 2 * alone.model
    assert settle(plan("neighbours").config, short).tfidf.char_ngrams == (2, 4)


@pytest.mark.parametrize("recipe", ["xr_linear", "parabel", "bonsai", "extremetext", "dismec", "neighbours"])
def test_published_settings_have_words_alone(recipe):
    assert registry.find("recipe", recipe).Config().tfidf.char_ngrams == "auto"
    for preset in presets(recipe)[1:]:
        assert plan(recipe, preset=preset).config.tfidf.char_ngrams is None, preset_file(recipe, preset)


def test_a_recipe_made_of_others_settles_theirs():
    short = data(words=8)
    sources = {"sources": ["xr_linear", "popular"]}
    for model in (
        treetop.fit("blend", short, settings=sources, calibrate=False),
        treetop.fit("auto", short, settings={"candidates": ["xr_linear"]}, calibrate=False),
    ):
        assert model.features["tfidf"].config.char_ngrams == (2, 4)
