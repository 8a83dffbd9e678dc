import gzip
import json
from importlib import resources

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_union
from sklearn.preprocessing import normalize

from elsewhere import Elsewhere
from treetop.core import config as build_config
from treetop.core.errors import ConfigError, InputError, ModelError
from treetop.core.executor.executor import LOCAL, using
from treetop.core.store import Part, read_part, write_manifest, write_part
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS
from treetop.features.tfidf import grams
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.runtime import threads

WORLD = [
    "The cat sat on the mat, the CAT!", "Crème brûlée à la façon de l'ÉCOLE", "Ο ΟΔΥΣΣΕΥΣ και ο Οδυσσέας ΣΑΣ Σ.Σ", "",
    "İstanbul'da IŞIK ılık İİ iki", "हिन्दी में किताबें और हिन्दी की कविता", "emoji 😀😀 👍🏽 ❤️ cat 1️⃣2",
    "e\u0301te\u0301 été E\u0301TE\u0301",
    "abc_def __x 42 3.14 1,000 ² ½ x2", "東京都 は 日本の首都 です 東京都", "Ⱥ Ⱦ \u212aelvin ﬁne ǅ ǆ ß ẞ STRASSE",
    "Привет МИР привет",
    "\t two  \n\n spaces\u00a0\u2003and\u3000more \x1c\x85", "می‌خواهم ZWNJ", "the the the the a a b cat-cat_cat",
    "dog dog dog the",
]  # fmt: skip


def sklearn_rows(texts, **options):
    vectorizer = TfidfVectorizer(**options)
    X = vectorizer.fit_transform(texts)
    X.sort_indices()
    return vectorizer, X


def assert_same(ours, theirs):
    assert ours.shape == theirs.shape and ours.dtype == np.float32 and ours.has_sorted_indices
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_max_ulp(ours.data, theirs.data.astype(np.float32), 1)


SAME = [
    ({}, {"sublinear_tf": True}),
    ({"sublinear": False}, {}),
    ({"ngrams": (1, 2), "min_df": 2}, {"sublinear_tf": True, "ngram_range": (1, 2), "min_df": 2}),
    ({"ngrams": (2, 3), "l2": False}, {"sublinear_tf": True, "ngram_range": (2, 3), "norm": None}),
    (
        {"min_word_length": 1, "lowercase": False},
        {"sublinear_tf": True, "token_pattern": r"(?u)\b\w+\b", "lowercase": False},
    ),
    ({"binary": True, "idf": "plain"}, {"sublinear_tf": True, "binary": True, "smooth_idf": False}),
    ({"idf": "none", "max_df": 0.2}, {"sublinear_tf": True, "use_idf": False, "max_df": 0.2}),
    ({"min_df": 0.1, "max_df": 3}, {"sublinear_tf": True, "min_df": 0.1, "max_df": 3}),
    ({"max_features": 9, "min_df": 2}, {"sublinear_tf": True, "max_features": 9, "min_df": 2}),
    ({"max_features": 40, "binary": True}, {"sublinear_tf": True, "max_features": 40, "binary": True}),
    ({"ngrams": None, "char_ngrams": (2, 4)}, {"sublinear_tf": True, "analyzer": "char_wb", "ngram_range": (2, 4)}),
    ({"ngrams": None, "char_ngrams": (6, 7)}, {"sublinear_tf": True, "analyzer": "char_wb", "ngram_range": (6, 7)}),
    (
        {"ngrams": None, "char_ngrams": (1, 3), "char_ngrams_within": "text"},
        {"sublinear_tf": True, "analyzer": "char", "ngram_range": (1, 3)},
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), SAME, ids=str)
def test_same_numbers_as_scikit_learn(ours, theirs):
    vectorizer, X = sklearn_rows(WORLD, **theirs)
    tfidf, rows = Tfidf.fit_transform(WORLD, TfidfConfig(tokenizer="sklearn", **ours))
    assert tfidf.terms() == vectorizer.get_feature_names_out().tolist()
    assert_same(rows, X)
    fresh = ["unseen words the Cat ΣΑΣ", "", *WORLD[::-1]]
    theirs_fresh = vectorizer.transform(fresh)
    theirs_fresh.sort_indices()
    assert_same(tfidf.transform(fresh), theirs_fresh)
    assert Tfidf.fit(WORLD, TfidfConfig(tokenizer="sklearn", **ours)).terms() == tfidf.terms()


def test_same_numbers_on_real_text():
    file = resources.files("treetop") / "data" / "bundled" / "wordnet" / "train.jsonl.gz"
    with file.open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines][:20_000]
    options = {"ngram_range": (1, 2), "min_df": 2, "max_features": 30_000, "sublinear_tf": True}
    vectorizer, X = sklearn_rows(texts, **options)
    config = TfidfConfig(tokenizer="sklearn", ngrams=(1, 2), min_df=2, max_features=30_000)
    tfidf, rows = Tfidf.fit_transform(texts, config)
    assert len(texts) > 1000
    assert tfidf.terms() == vectorizer.get_feature_names_out().tolist()
    assert_same(rows, X)


letters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("abAB  ..__12\t\nΣσςİıée\u0301हि字ß")


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.text(letters, max_size=25), min_size=1, max_size=6),
    st.sampled_from([pair for pair in SAME if "min_df" not in pair[0] and "max_df" not in pair[0]]),
)
def test_same_numbers_on_random_text(texts, pair):
    ours, theirs = pair
    config = TfidfConfig(tokenizer="sklearn", **ours)
    try:
        vectorizer, X = sklearn_rows(texts, **theirs)
    except ValueError:  # no term at all
        with pytest.raises(InputError, match="none of 0 terms"):
            Tfidf.fit(texts, config)
        return
    tfidf, rows = Tfidf.fit_transform(texts, config)
    assert tfidf.terms() == vectorizer.get_feature_names_out().tolist()
    assert_same(rows, X)


def test_words_and_characters_together_weigh_the_same():
    config = TfidfConfig(tokenizer="sklearn", char_ngrams=(3, 3), sublinear=False)
    tfidf, rows = Tfidf.fit_transform(WORLD, config)
    union = make_union(TfidfVectorizer(), TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)))
    theirs = normalize(union.fit_transform(WORLD))
    theirs.sort_indices()
    assert np.array_equal(rows.indices, theirs.indices)
    np.testing.assert_allclose(rows.data, theirs.data, rtol=1e-6)
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1)).A1
    assert np.allclose(lengths[np.diff(rows.indptr) > 0], 1.0)
    assert (tfidf.transform(WORLD) != rows).nnz == 0
    width = len(tfidf.groups["words"].terms)
    assert tfidf.terms([0, width - 1, width]) == [*tfidf.groups["words"].terms[:: width - 1], tfidf.terms()[width]]


def test_unicode_words_keep_marks_inside():
    tfidf = Tfidf.fit(["हिन्दी में किताबें", "e\u0301tude", "❤️ \u0301lone", "می‌خواهم"], TfidfConfig())
    assert tfidf.terms() == ["e\u0301tude", "lone", "می‌خواهم", "किताबें", "में", "हिन्दी"]
    with pytest.raises(InputError, match="none of 0 terms in 1 texts"):
        Tfidf.fit(["कि की"], TfidfConfig(tokenizer="sklearn"))  # what scikit-learn makes of it


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(grams.Cutter, "block", property(lambda cutter: 300))


def many_texts():
    random = np.random.default_rng(3)
    words = [f"w{i}" for i in range(300)] + ["Σίσυφος", "İzmir", "naïve"]
    return [" ".join(words[i] for i in random.zipf(1.3, size) % len(words)) for size in random.integers(0, 30, 400)]


def test_bits_depend_on_neither_threads_nor_blocks(small_blocks, monkeypatch):
    texts = Texts.of(many_texts())
    config = TfidfConfig(ngrams=(1, 2), char_ngrams=(2, 3), min_df=2, max_features=900)
    made = []
    for n, block, here in (
        (1, 300, LOCAL),
        (2, 300, LOCAL),
        (5, 300, LOCAL),
        (2, 1 << 20, LOCAL),
        (1, 300, Elsewhere()),
    ):
        monkeypatch.setattr(grams.Cutter, "block", property(lambda cutter, block=block: block))
        with threads.limited(n), using(here):
            tfidf, rows = Tfidf.fit_transform(texts, config)
            again = tfidf.transform(texts)
        part = tfidf.to_part()
        arrays = [*part.arrays.values(), rows.indptr, rows.indices, rows.data, again.indptr, again.indices, again.data]
        made.append([array.tobytes() for array in arrays])
        assert made[-1][-3:] == made[-1][-6:-3]  # transform repeats what fit_transform gave
    assert all(other == made[0] for other in made)
    lone = [tfidf.transform([text]) for text in list(texts)[:50]]
    assert b"".join(row.data.tobytes() for row in lone) == again[:50].data.tobytes()


def test_saved_and_loaded(tmp_path):
    tfidf, rows = Tfidf.fit_transform(WORLD, TfidfConfig(char_ngrams=(2, 3)))
    write_part(tmp_path / "t", tfidf.to_part())
    write_manifest(tmp_path / "t", {})
    part = read_part(tmp_path / "t")
    assert part.kind == "features.tfidf.1"
    loaded = Tfidf.from_part(part)
    assert not loaded.groups["words"].idf.flags.writeable  # still the memory map
    assert loaded.config == tfidf.config and loaded.terms() == tfidf.terms()
    assert loaded.transform(WORLD).data.tobytes() == rows.data.tobytes()


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("words.offsets", lambda a: a[::-1].copy()),
        ("words.offsets", lambda a: a + 1),
        ("words.offsets", lambda a: a[:-1].copy()),
        ("words.offsets", lambda a: a.astype(np.int32)),
        ("words.idf", lambda a: a * np.nan),
        ("words.idf", lambda a: a[1:].copy()),
        ("words.blob", lambda a: a[:-1].copy()),
        ("words.blob", lambda a: None),
    ],
)
def test_damaged_parts_are_refused(array, value):
    part = Tfidf.fit(WORLD).to_part()
    arrays = {**part.arrays, array: value(part.arrays[array])}
    with pytest.raises(ModelError, match=r"features\.tfidf\.1"):
        Tfidf.from_part(Part(part.kind, part.config, {k: v for k, v in arrays.items() if v is not None}))
    with pytest.raises(ModelError, match="wordz: unknown setting"):
        Tfidf.from_part(Part(part.kind, {"wordz": 1}, part.arrays))


def test_changed_term_bytes_never_crash():
    part = Tfidf.fit(WORLD, TfidfConfig(char_ngrams=(1, 4))).to_part()
    random = np.random.default_rng(0)
    for _ in range(30):
        arrays = {name: array.copy() for name, array in part.arrays.items()}
        for name in ("words.blob", "chars.blob"):
            arrays[name][random.integers(0, len(arrays[name]), 20)] = random.integers(0, 256, 20)
        tfidf = Tfidf.from_part(Part(part.kind, part.config, arrays))
        assert tfidf.transform(WORLD).shape[1] == tfidf.n_features
        assert len(tfidf.terms()) == tfidf.n_features


def test_spans_point_into_the_text_as_given():
    tfidf = Tfidf.fit(["İstanbul ΟΔΟΣ big city", "big cat"], TfidfConfig(ngrams=(1, 2)))
    text = "  Big  CITY, in İİ İSTANBUL: ΟΔΟΣ!"
    spans = tfidf.spans(text)
    found = [(text[start:end], tfidf.terms([column])[0]) for start, end, column in spans]
    assert found == [
        ("Big", "big"), ("Big  CITY", "big city"), ("CITY", "city"), ("İSTANBUL", "i\u0307stanbul"),
        ("İSTANBUL: ΟΔΟΣ", "i\u0307stanbul οδος"), ("ΟΔΟΣ", "οδος"),
    ]  # fmt: skip
    assert {column for _, _, column in spans} == set(tfidf.transform([text]).indices.tolist())
    assert tfidf.spans("") == []


@pytest.mark.parametrize("within", ["words", "text"])
@pytest.mark.parametrize("span", [(1, 2), (3, 5)])
def test_character_grams_stand_where_the_text_has_them(within, span):
    text = "\tCAT  catİs,  a\n fat cat "
    config = TfidfConfig(ngrams=(1, 1), char_ngrams=span, char_ngrams_within=within)
    tfidf = Tfidf.fit(["cat cati\u0307s, a fat cat", text], config)
    spans = tfidf.spans(text)
    assert {column for _, _, column in spans} == set(tfidf.transform([text]).indices.tolist())
    for start, end, column in spans:
        term, there = tfidf.terms([column])[0], text[start:end].lower()
        assert "".join(term.split()) in "".join(there.split())  # half of a letter that becomes two has its place


@settings(max_examples=60, deadline=None)
@given(st.text(letters, max_size=40))
def test_spans_and_rows_name_the_same_columns(text):
    tfidf = Tfidf.fit([*WORLD, text], TfidfConfig(ngrams=(1, 2), min_word_length=1))
    spans = tfidf.spans(text)
    assert {column for _, _, column in spans} == set(tfidf.transform([text]).indices.tolist())
    assert all(0 <= start < end <= len(text) for start, end, _ in spans)


def test_views_are_lazy_and_kept():
    views = Tfidf.fit(WORLD).views(Texts.of(["cat", ""]))
    assert list(views) == ["tfidf", KNOWN_WORDS] and views._made == {}
    X = views["tfidf"]
    assert X.shape[0] == 2 and X.nnz == 1 and views["tfidf"] is X


def test_no_texts_and_unknown_words():
    tfidf = Tfidf.fit(WORLD)
    assert tfidf.transform([]).shape == (0, tfidf.n_features)
    assert tfidf.transform(["zzz", ""]).nnz == 0
    with pytest.raises(InputError, match="expected a string, got NoneType"):
        tfidf.transform([None])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ngrams": None}, "features.ngrams: null, and char_ngrams null too"),
        ({"ngrams": [2, 1]}, r"features.ngrams: \[2, 1\] is not a range"),
        ({"char_ngrams": [0, 3]}, r"features.char_ngrams: \[0, 3\] is not a range"),
        ({"min_df": 1.5}, "features.min_df: 1.5 is not a fraction"),
        ({"min_df": -1}, "features.min_df: -1 is out of range"),
        ({"tokenizer": "skleran"}, "features.tokenizer: unknown value 'skleran'.*Did you mean 'sklearn'"),
        ({"max_features": "10"}, "features.max_features: expected int or null"),
    ],
)
def test_settings_are_checked(values, message):
    with pytest.raises(ConfigError, match=message):
        build_config.build(TfidfConfig, values, path="features")


def test_pruning_everything_says_so():
    with pytest.raises(InputError, match=r"none of 2 terms in 2 texts is left with min_df=2 and max_df=1.0. Give"):
        Tfidf.fit(["one", "two"], TfidfConfig(min_df=2))


def test_overlong_text_is_refused(monkeypatch):
    monkeypatch.setattr(grams, "LONGEST", 1000)
    monkeypatch.setattr(grams.Cutter, "block", property(lambda cutter: 300))
    with pytest.raises(InputError, match="text 1 has 2,000 bytes, at most 1,000 are allowed"):
        Tfidf.fit(["a", "b" * 2000])
