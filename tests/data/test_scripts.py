import json
import logging

import numpy as np
import pytest
from typer.testing import CliRunner

from treetop import fit
from treetop.cli.main import app
from treetop.core.texts import Texts
from treetop.data.scripts import writing
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.kernels.text import survey

JAPANESE = ["図書館学入門", "ライブラリの本", "大学の図書館", "犬と猫", "猫の写真", "犬の写真"]


@pytest.fixture
def folder(tmp_path):
    rows = [{"text": text, "labels": ["a" if "書" in text or "本" in text else "b"]} for text in [*JAPANESE, "x", ""]]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "train.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("", {}),
        ("123 _ .😀", {}),
        ("abc Дом", {"Cyrillic": 0.5, "Latin": 0.5}),
        ("漢字かなカナ", {"Han": 0.3333, "Hiragana": 0.3333, "Katakana": 0.3333}),
        ("हिन्दी", {"Devanagari": 1.0}),
        ("ᚠ", {"other": 1.0}),
    ],
)
def test_shares_of_scripts(text, scripts):
    assert writing(Texts.of([text])).scripts == scripts


def test_terms_are_counted_like_the_default_features_in_blocks_of_any_size(monkeypatch):
    texts = Texts.of(["a bc def", "", "図書館", "x", "図 ab", "ΟΔΟΣ"])
    words = TfidfConfig(unspaced=(1, 1)).cutters()["words"]
    wanted = np.diff(words(texts)[4])
    for block in (1, 9, 1 << 20):
        monkeypatch.setattr(survey, "BLOCK", block)
        assert survey.terms(texts.blob, texts.offsets).tolist() == wanted.tolist() == [2, 0, 3, 0, 2, 1]
    assert survey.terms(Texts.of([]).blob, Texts.of([]).offsets).tolist() == []


def test_latin_texts_of_several_words_are_not_worth_a_line():
    assert writing(Texts.of(["two words", "three more words"])).sentences() == []
    assert writing(Texts.of([])).sentences() == []


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["", "?", "one", "two words"], "2 of 4 texts have no word or character to learn from, and 1 only one"),
        (["", "?", "two words"], "2 of 3 texts have no word or character to learn from"),
        (["one", "two words"], "1 of 2 texts have only one word or character to learn from"),
    ],
)
def test_a_count_of_zero_is_not_said(texts, sentence):
    assert writing(Texts.of(texts)).sentences() == [sentence]


def test_stats_and_validate_name_scripts_and_texts_without_terms(folder):
    run = CliRunner().invoke(app, ["data", "stats", str(folder), "--json"])
    train = json.loads(run.stdout)["splits"]["train"]
    assert list(train["scripts"]) == ["Han", "Hiragana", "Katakana", "Latin"] and train["scripts"]["Han"] > 0.5
    assert (train["texts_without_terms"], train["texts_with_one_term"]) == (2, 0)
    table = CliRunner().invoke(app, ["data", "stats", str(folder)]).stdout
    assert "Han 6" in table and "texts without terms" in table
    notes = CliRunner().invoke(app, ["data", "validate", str(folder)]).stdout
    assert "note: train: scripts: Han 6" in notes
    assert "note: train: 2 of 8 texts have no word or character to learn from." in notes


def test_fit_says_so_and_warns_where_settings_make_words_of_clauses(caplog):
    labels = [["a"], ["a"], ["a"], ["b"], ["b"], ["b"]]
    with caplog.at_level(logging.INFO, "treetop"):
        model = fit("neighbours", JAPANESE, labels)
    assert "scripts: Han" in caplog.text and "without spaces" not in caplog.text
    assert model.predict(["図書館の猫の本"], k=1)[0][0].id == "a"
    caplog.clear()
    with caplog.at_level(logging.INFO, "treetop"):
        fit("neighbours", JAPANESE, labels, settings=["tfidf.unspaced=null"])
    assert "Set tfidf.tokenizer=unicode and tfidf.unspaced=[1, 2]." in caplog.text
    assert "6 of 6 texts have only one word or character to learn from" in caplog.text
