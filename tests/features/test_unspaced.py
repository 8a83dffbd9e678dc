"""Scripts without spaces between words become characters; stems; models of before."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treetop.core import config as build_config
from treetop.core.errors import ConfigError, MissingExtraError
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS
from treetop.features.tfidf import grams
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig

MIXED = [
    "図書館学入門", "図書館の本 Python入門", "มหาวิทยาลัยไทย", "ខ្មែរ ភាសា", "မြန်မာဘာသာ", "か\u3099っこう",
    "plain words", "", "東京 Tokyo ΟΔΟΣ İstanbul 大学",
]  # fmt: skip


def test_a_title_without_spaces_has_its_characters_and_their_pairs():
    tfidf = Tfidf.fit(["図書館学入門", "本の図書館", "図"])
    assert set(tfidf.terms([*tfidf.transform(["図書館学入門"]).indices])) == {
        "図", "書", "館", "学", "入", "門", "図書", "書館", "館学", "学入", "入門",
    }  # fmt: skip
    assert tfidf.terms(tfidf.transform(["図書 AND x"]).indices) == ["図", "図書", "書"]


def test_other_scripts_between_them_stay_words_and_pairs_do_not_cross():
    tfidf = Tfidf.fit(["Python入門 fast 東"], TfidfConfig(ngrams=(1, 2)))
    assert tfidf.terms() == ["fast", "python", "入", "入門", "東", "門"]
    joined = Tfidf.fit(["Python 3 入門書 and more"], TfidfConfig(ngrams=(1, 2), unspaced=(2, 3)))
    assert joined.terms() == ["and", "and more", "more", "python", "入門", "入門書", "門書"]


def test_marks_belong_to_their_character_and_syllables_of_tibetan_are_words():
    assert Tfidf.fit(["น่ารัก"]).terms() == ["ก", "น่", "น่า", "รั", "รัก", "า", "ารั"]
    assert Tfidf.fit(["か\u3099く"]).terms() == ["か\u3099", "か\u3099く", "く"]
    assert Tfidf.fit(["བོད་སྐད་"]).terms() == ["བོད", "སྐད"]


@pytest.mark.parametrize("config", [TfidfConfig(unspaced=None), TfidfConfig(tokenizer="sklearn")], ids=str)
def test_they_are_words_where_that_is_asked_for(config):
    assert Tfidf.fit(["図書館学入門 本の"], config).terms() == ["図書館学入門", "本の"]


def test_a_model_of_before_keeps_its_words():
    tfidf, rows = Tfidf.fit_transform(MIXED, TfidfConfig(unspaced=None, ngrams=(1, 2)))
    part = tfidf.to_part()
    before = {name: value for name, value in part.config.items() if name not in ("unspaced", "stem")}
    loaded = Tfidf.from_part(Part(part.kind, before, part.arrays))
    assert loaded.config.unspaced is None and loaded.config.stem is None
    assert loaded.transform(MIXED).data.tobytes() == rows.data.tobytes()
    assert loaded.spans("図書館学入門")[0][:2] == (0, 6)


def test_spans_point_at_characters_after_letters_that_grow():
    text = "İİ図書館 Σ入門"  # each capital İ is two letters in lower case
    tfidf = Tfidf.fit(MIXED)
    found = {(text[start:end], tfidf.terms([column])[0]) for start, end, column in tfidf.spans(text)}
    assert found == {(gram, gram) for gram in ("図", "書", "館", "図書", "書館", "入", "門", "入門")}


alphabet = st.sampled_from("abA 図書館かナーไทย่าខ្မ\u3099\u0301\u200d.1๑ΣİȺ\U00020000\U0001f600 ") | st.characters()


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(alphabet, max_size=30), max_size=4), st.sampled_from([(1, 2), (2, 2), (3, 5)]))
def test_spans_and_rows_name_the_same_columns(texts, unspaced):
    tfidf = Tfidf.fit([*MIXED, *texts], TfidfConfig(ngrams=(1, 2), unspaced=unspaced))
    for text in [str(text) for text in Texts.of(texts)]:
        spans = tfidf.spans(text)
        assert {column for _, _, column in spans} == set(tfidf.transform([text]).indices.tolist())
        assert all(0 <= start < end <= len(text) for start, end, _ in spans)


def test_bits_do_not_depend_on_blocks(monkeypatch):
    texts, made = MIXED * 40, []
    for block in (200, 1 << 20):
        monkeypatch.setattr(grams.Cutter, "block", property(lambda cutter, block=block: block))
        tfidf, rows = Tfidf.fit_transform(texts, TfidfConfig(ngrams=(1, 2), stem="english"))
        made.append([*tfidf.terms(), rows.data.tobytes(), rows.indices.tobytes()])
        assert tfidf.transform(texts).data.tobytes() == rows.data.tobytes()
    assert made[0] == made[1]


def test_a_huge_text_of_one_script_without_spaces():
    _, X = Tfidf.fit_transform(["図書館" * 400_000, "本"], TfidfConfig(sublinear=False, idf="none", l2=False))
    assert X[0].data.tolist() == [400_000, 400_000, 400_000, 400_000, 400_000, 399_999]


def test_known_words_are_known_characters_and_pairs():
    tfidf = Tfidf.fit(["図書館", "東京"])
    assert tfidf.views(Texts.of(["図書館", "図京", "犬猫"]))[KNOWN_WORDS].tolist() == pytest.approx([1.0, 2 / 3, 0.0])


def test_stems_join_forms_and_stand_where_the_word_stands():
    config = TfidfConfig(ngrams=(1, 2), stem="english")
    tfidf = Tfidf.fit(["Libraries lending books 図書館", "a library lends a book"], config)
    assert tfidf.terms()[:4] == ["book", "lend", "lend book", "librari"]
    text = "The LIBRARIES' lending"
    found = [(text[start:end], tfidf.terms([column])[0]) for start, end, column in tfidf.spans(text)]
    assert found == [("LIBRARIES", "librari"), ("LIBRARIES' lending", "librari lend"), ("lending", "lend")]
    assert (tfidf.transform(["libraries"]) != tfidf.transform(["LIBRARY"])).nnz == 0
    assert Tfidf.from_part(tfidf.to_part()).config.stem == "english"
    assert tfidf.transform(["", "図"]).nnz == 1
    assert Tfidf.fit(["kirjastossa kirjastot"], TfidfConfig(stem="finnish")).terms() == ["kirjasto"]


def test_stemmed_rows_are_those_of_texts_that_were_stemmed_before():
    from treetop.core.language import stemmer

    texts = ["running runs run cats", "the cats ran away, 図書館", "x", ""]
    stems = [" ".join(stemmer("english")(text.replace(",", "").split())) for text in texts]
    ours = Tfidf.fit_transform(texts, TfidfConfig(ngrams=(1, 3), stem="english"))
    theirs = Tfidf.fit_transform(stems, TfidfConfig(ngrams=(1, 3)))
    assert ours[0].terms() == theirs[0].terms()
    assert np.array_equal(ours[1].toarray(), theirs[1].toarray())


def test_an_unknown_language_and_a_missing_package_are_one_sentence(monkeypatch):
    with pytest.raises(
        ConfigError, match=r"^tfidf\.stem: unknown value 'finish'\. Choose one of 'auto', 'arabic', .*'finnish'\?$"
    ):
        build_config.build(TfidfConfig, {"stem": "finish"}, path="tfidf")
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    message = r"^stem: finnish needs the package 'PyStemmer', .*pip install .*\[languages\]'$"
    with pytest.raises(MissingExtraError, match=message):
        Tfidf.fit(["kirja"], TfidfConfig(stem="finnish"))


def test_the_range_of_characters_is_checked():
    with pytest.raises(ConfigError, match=r"tfidf\.unspaced: \[2, 1\] is not a range"):
        build_config.build(TfidfConfig, {"unspaced": [2, 1]}, path="tfidf")
