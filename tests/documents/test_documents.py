"""Training texts in a model: kept only if asked for, found by similarity, checked when a model is opened."""

import json
import shutil

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from command import run
from fuzz.model_mutations import reseal
from treetop.core.arrays import read_arrays, write_arrays
from treetop.core.dataset import DOCUMENT, LABEL_TEXT
from treetop.core.errors import ConfigError, InputError, ModelError, WorkError
from treetop.core.forecast import with_documents
from treetop.core.texts import Texts
from treetop.documents.kept import nearest
from treetop.documents.terms import Terms
from treetop.documents.vectors import Vectors
from treetop.kernels.search.int8_dots import int8_dots, int8_dots_slow
from treetop.training import plan

SETTINGS = {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 2}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("kept") / "m"
    treetop.fit("xr_linear", toy.dataset(), settings=SETTINGS, keep_texts=True, out=place)
    return place


def test_a_model_holds_no_training_texts_unless_asked(tmp_path):
    model = treetop.fit("xr_linear", toy.dataset(), settings=SETTINGS, out=tmp_path / "m")
    assert model.documents is None and not (tmp_path / "m/documents").exists()
    with pytest.raises(ConfigError, match="keeps no training texts. Train it with keep_texts=True"):
        model.nearest("a cat")
    assert model.explain("cat horses", 1)[0].texts is None


def test_nearest_texts_come_back_with_labels_after_saving(folder):
    data, model = toy.dataset(), treetop.load(folder, check="full")
    found = model.nearest(data.texts[7], k=3)
    assert found[0].row == 7 and found[0].text == data.texts[7] and found[0].similarity == pytest.approx(1, abs=2e-3)
    assert found[0].labels == tuple(data.labels.ids[c] for c in data.Y[7].indices)
    assert [f.similarity for f in found] == sorted((f.similarity for f in found), reverse=True)
    assert model.nearest("qqq zzz") == [] and "keep_texts: True" in (folder / "README.md").read_text()
    with pytest.raises(ConfigError, match="k: 0 is not a number of texts"):
        model.nearest("a cat", 0)
    with pytest.raises(InputError, match="expected a string, got list"):
        model.nearest(["a cat"])


def test_an_explanation_shows_the_nearest_texts_that_carry_the_label(folder):
    data, model = toy.dataset(), treetop.load(folder)
    for found in model.explain(data.texts[7], k=3):
        column = data.labels.columns[found.id]
        assert found.texts and all(data.Y[t.row, column] > 0 and t.text == data.texts[t.row] for t in found.texts)
        assert all(t.vote is None and 0 < t.similarity <= 1.01 for t in found.texts)
        json.dumps(found.to_dict())


def test_voters_have_their_texts_too():
    data = toy.dataset()
    model = treetop.fit("neighbours", data, keep_texts=True)
    for text in model.explain(data.texts[7], k=1)[0].texts:
        assert text.vote > 0 and text.text == data.texts[text.row]


def test_label_edits_keep_the_texts(folder, tmp_path):
    model = treetop.load(folder)
    gone = model.nearest(toy.dataset().texts[7], 1)[0].labels[0]
    edited = model.retire_labels([gone]).rename_labels({"L01": "one"})
    assert gone not in edited.nearest(toy.dataset().texts[7], 1)[0].labels
    edited.save(tmp_path / "m")
    assert treetop.load(tmp_path / "m").nearest("cat", 2) == edited.nearest("cat", 2)
    without = edited.with_documents(None)
    without.save(tmp_path / "shared")
    assert not (tmp_path / "shared/documents").exists()


def test_rows_are_those_of_the_data_where_some_are_no_documents():
    data = toy.dataset()
    roles = np.full(len(data), DOCUMENT, np.uint8)
    roles[:10] = LABEL_TEXT
    mixed = treetop.Dataset(data.texts, data.Y, data.labels, roles=roles, name="mixed")
    model = treetop.fit("xr_linear", mixed, settings=SETTINGS, keep_texts=True)
    assert len(model.documents) == 50 and model.nearest(data.texts[20], 1)[0].row == 20


def test_where_there_are_no_texts_one_sentence_says_so():
    data = toy.dataset()
    with pytest.raises(ConfigError, match="keep_texts: popular reads nothing of a text"):
        treetop.fit("popular", data, keep_texts=True)
    blank = treetop.Dataset(Texts.of([""] * len(data)), data.Y, data.labels, name="blank")
    with pytest.raises(InputError, match="bring no texts"):
        treetop.fit("xr_linear", data, settings=SETTINGS).with_documents(blank)


def test_resuming_asks_for_the_same(folder):
    assert treetop.fit("xr_linear", toy.dataset(), settings=SETTINGS, keep_texts=True, out=folder, resume=True)
    with pytest.raises(WorkError, match="a job with other keep_texts"):
        treetop.fit("xr_linear", toy.dataset(), settings=SETTINGS, out=folder, resume=True)


def test_the_forecast_counts_them():
    planned, data = plan("xr_linear"), toy.dataset()
    plain, kept = planned.forecast(data), planned.forecast(data, keep_texts=True)
    assert kept.model > plain.model + len(data.texts.blob) and kept.memory > plain.memory
    assert with_documents(plain, data, encoded=True).model > kept.model + 200 * len(data)


def test_the_forecast_is_close_to_what_they_take(tmp_path):
    data = toy.dataset(n=3000)
    for name, keep in (("without", False), ("with", True)):
        treetop.fit("xr_linear", data, settings=SETTINGS, keep_texts=keep, calibrate=False, out=tmp_path / name)
    sizes = [sum(f.stat().st_size for f in (tmp_path / name).rglob("*")) for name in ("without", "with")]
    planned = plan("xr_linear")
    said = planned.forecast(data, keep_texts=True).model - planned.forecast(data).model
    assert 0.7 * said < sizes[1] - sizes[0] < 1.3 * said


def test_the_command_keeps_and_shows_them(tmp_path):
    toy.write_rows(toy.dataset(), tmp_path / "train.jsonl")
    made = ["--set", "tfidf.min_df=1", "--keep-texts", "--out", tmp_path / "m"]
    assert run("fit", "xr_linear", tmp_path / "train.jsonl", *made).returncode == 0
    shown = run("explain", tmp_path / "m", "--text", toy.dataset().texts[7])
    assert shown.returncode == 0 and "nearest training texts\n" in shown.stdout
    assert toy.dataset().texts[7] in shown.stdout and "nearest training texts with it: row" in shown.stdout


# --- an index ------------------------------------------------------------------------------------------------------


def test_similarities_of_terms_are_cosines():
    X = sparse.random(50, 30, 0.2, "csr", np.float32, np.random.default_rng(0))
    found = Terms.of([X[:20], X[20:]]).similarities(X[3])
    dense = X.toarray().astype(np.float64)
    lengths = np.maximum(np.linalg.norm(dense, axis=1) * np.linalg.norm(dense[3]), 1e-12)
    assert np.allclose(found, dense @ dense[3] / lengths, atol=2e-3)


@pytest.mark.parametrize("shape", [(1, 1), (5, 0), (300, 384), (20_000, 7)])
def test_cosines_of_whole_numbers_equal_the_slow_twin(shape):
    random = np.random.default_rng(1)
    table, query = (random.integers(-127, 128, size).astype(np.int8) for size in (shape, shape[1]))
    assert np.allclose(int8_dots(table, query), int8_dots_slow(table, query), atol=1e-6)


def test_vectors_of_eight_bits_find_what_floats_find():
    random = np.random.default_rng(2)
    H = random.standard_normal((2000, 64)).astype(np.float32)
    index = Vectors.of([H[:1000], H[1000:]])
    for row in range(20):
        exact = (H @ H[row]) / np.linalg.norm(H, axis=1) / np.linalg.norm(H[row])
        assert np.abs(index.similarities(H[[row]]) - exact).max() < 0.01
    assert not index.similarities(np.zeros((1, 64), np.float32)).any()


def test_nearest_is_sorted_ties_go_to_the_lower_row_and_zero_is_not_near():
    similar = np.array([0.5, 0, 0.9, 0.5, 0.5, -1], np.float32)
    assert nearest(similar, 3).tolist() == [2, 0, 3] and nearest(similar, 9).tolist() == [2, 0, 3, 4]
    assert nearest(similar, 2, np.array([1, 4, 5])).tolist() == [4]


# --- hostile folders -----------------------------------------------------------------------------------------------


def changed(folder, tmp_path, inside, name, change):
    copy = shutil.copytree(folder, tmp_path / "changed")
    file = copy / "documents" / inside / "arrays.safetensors"
    arrays = {key: np.array(array) for key, array in read_arrays(file).items()}
    arrays[name] = change(arrays[name])
    write_arrays(file, arrays)
    reseal(copy, json.loads((copy / "manifest.json").read_text(encoding="utf-8")))
    return copy


def first(value):
    def change(array):
        array.reshape(-1)[0] = value
        return array

    return change


@pytest.mark.parametrize(
    ("inside", "name", "change", "match"),
    [
        ("", "texts_ends", lambda a: a[:-1], "do not run from 0"),
        ("", "texts_ends", first(9), "do not run from 0"),
        ("", "rows", first(-1), "points outside"),
        ("", "rows", lambda a: a[:-1], "expected int64"),
        ("", "y_col", first(40), "points outside"),
        ("", "y_ptr", first(1), "do not run from 0"),
        ("index", "row", first(60), "points outside"),
        ("index", "ends", first(2), "do not run from 0"),
        ("index", "ends", lambda a: a[:0], "no terms"),
        ("index", "weight", first(np.nan), "NaN or infinite"),
        ("index", "weight", first(3), "out of range"),
    ],
)
def test_a_changed_index_is_refused(folder, tmp_path, inside, name, change, match):
    with pytest.raises(ModelError, match=match):
        treetop.load(changed(folder, tmp_path, inside, name, change))


def test_a_foreign_index_or_view_is_refused(folder, tmp_path):
    for number, (place, old, new, match) in enumerate(
        [
            ("documents", '"tfidf"', '"nothing"', "reads the view 'nothing'"),
            ("documents/index", "documents.terms.1", "documents.vectors.1", "array 'table' is missing"),
            ("documents/index", "documents.terms.1", "documents.other.1", "no index of them"),
        ]
    ):
        copy = shutil.copytree(folder, tmp_path / str(number))
        file = copy / place / "part.json"
        file.write_text(file.read_text().replace(old, new))
        if "." in new:
            outer = copy / "documents/part.json"
            outer.write_text(outer.read_text().replace(old, new))
        reseal(copy, json.loads((copy / "manifest.json").read_text(encoding="utf-8")))
        with pytest.raises(ModelError, match=match):
            treetop.load(copy).nearest("cat")
