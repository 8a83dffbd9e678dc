"""A model on a device answers as on the CPU; here the device is the CPU, with torch tensors (tests/gpu: a GPU)."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
import treetop
from toy_device import on_tensors
from treetop.core.errors import ConfigError
from treetop.core.types import DeviceView

TREE = {"clusters": "tree", "tree": {"max_leaf": 5}, "beam": 4, "tfidf": {"min_df": 1}}
FORMS = {
    "flat": ("lightxml", {"clusters": "none"}),
    "tree": ("lightxml", TREE),
    "words": ("inceptionxml", TREE),
    "dual alone": ("depsl", {"pool": {"size": 24}, "dual": {"projection_dim": 8}}),
    "dual": ("unidec", {"pool": {"size": 24}}),
    "lists": ("unidec", {"pool": {"size": 24}, "search": {"index": "ivf"}}),
    "fusion": ("ngame", {"pool": {"size": 24}, "second_pool": {"size": 24}}),
    "linear": (
        "xr_transformer",
        {"preliminary_tree": {"max_leaf": 5, "branching": 2, "top_branching": 4}, "tfidf": {"min_df": 1}},
    ),
}
TEXTS = [*toy.dataset(seed=1).texts, "", "cat " * 50]


def fitted(form, encoder):
    recipe, settings = FORMS[form]
    loop = {"epochs": 1.0, "batch_size": 32}
    given = {**settings, "encoder": {"model": encoder, "max_length": 16}, "train": loop}
    given |= {"second_train": loop} if recipe == "ngame" else {}
    return treetop.fit(recipe, toy.dataset(), settings=given, device="cpu")


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_those_of_the_cpu(form, encoder, tmp_path):
    model = fitted(form, encoder)
    moved, k = on_tensors(model), 7
    view = moved.members[0][-1].view
    assert form == "linear" or isinstance(moved.views(TEXTS[:3])[view], DeviceView)
    expected, found = model.rank(TEXTS, k), moved.rank(TEXTS, k)
    assert np.array_equal(found.indptr, expected.indptr)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-4)
    assert np.mean(found.ids == expected.ids) > 0.98  # scores that differ by rounding may change places
    for name, view in model.views(TEXTS).items():
        other = moved.views(TEXTS)[name]
        if isinstance(other, DeviceView):
            np.testing.assert_allclose(np.asarray(other), view, atol=1e-5)
    saved = moved.save(tmp_path / "m")
    again = treetop.load(tmp_path / "m", check="full").rank(TEXTS, k)
    assert np.array_equal(again.ids, expected.ids) and np.array_equal(again.score, expected.score)
    assert np.array_equal(saved.rank(TEXTS, k).ids, found.ids)
    assert np.array_equal(moved.rank([], k).ids, [])


def test_batches_are_answered_in_their_order(encoder, monkeypatch):
    model = fitted("dual", encoder)
    expected = on_tensors(model).rank(TEXTS, 3)
    monkeypatch.setattr("treetop.model.views.BATCH", 7)
    for one in (model, on_tensors(model)):
        found = one.rank(TEXTS, 3)
        assert np.array_equal(found.indptr, expected.indptr) and np.mean(found.ids == expected.ids) > 0.98
        np.testing.assert_allclose(found.score, expected.score, atol=1e-4)


@pytest.mark.parametrize("form", ["tree", "dual"])
def test_labels_are_edited_on_a_device_as_on_the_cpu(form, encoder):
    model = fitted(form, encoder)
    names = list(model.labels.ids)
    rankings = []
    for one in (model, on_tensors(model)):
        edited = one.add_labels({"new": "a purple wombat"}).retire_labels(names[:3]).merge_labels({names[5]: names[6]})
        rankings.append(edited.rank(TEXTS, 5))
    np.testing.assert_allclose(rankings[0].score, rankings[1].score, atol=1e-4)
    assert np.mean(rankings[0].ids == rankings[1].ids) > 0.98


def test_a_model_moves_only_what_can_be_moved(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    linear = treetop.fit("xr_linear", toy.dataset(), settings=["tfidf.min_df=1"])
    for name in ("auto", "cpu", "cuda", "cuda:1"):
        assert linear.to(name) is linear
    neural = fitted("dual", encoder)
    neural.save(tmp_path / "m")
    here = neural.to("auto").to("cpu")
    assert here.features["encoder"].transformer is neural.features["encoder"].transformer
    assert np.array_equal(here.rank(TEXTS, 3).score, neural.rank(TEXTS, 3).score)
    for place in (neural.to, lambda name: treetop.load(tmp_path / "m", device=name)):
        with pytest.raises(ConfigError, match="no GPU is visible here"):
            place("cuda")
        with pytest.raises(ConfigError, match="unknown value 'gpu'. Choose one of auto, cpu, cuda, cuda:1"):
            place("gpu")


@pytest.mark.parametrize("form", FORMS)
def test_the_fast_form_answers_nearly_as_the_model(form, encoder, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("treetop.rank.head.CODED", 10)
    model = fitted(form, encoder)
    model.save(tmp_path / "m")
    quick, k = treetop.load(tmp_path / "m", fast=True), 7
    expected, found = model.rank(TEXTS, k), quick.rank(TEXTS, k)
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.mean(found.padded(k)[:, 0] == expected.padded(k)[:, 0]) > 0.8  # labels of toys lie close together
    assert np.mean(np.abs(found.score - expected.score)) < 0.1
    quick.save(tmp_path / "again")  # float32 weights are kept
    again = treetop.load(tmp_path / "again", check="full").rank(TEXTS, k)
    assert np.array_equal(again.ids, expected.ids) and np.array_equal(again.score, expected.score)
    one = quick.predict(TEXTS[0], k=k)
    assert [label.id for label in one] == [label.id for label in quick.predict(TEXTS[:1], k=k)[0]]


def test_the_fast_form_is_for_the_cpu(encoder, tmp_path):
    linear = treetop.fit("xr_linear", toy.dataset(), settings=["tfidf.min_df=1"], out=tmp_path / "m")
    assert np.array_equal(treetop.load(tmp_path / "m", fast=True).rank(TEXTS, 3).score, linear.rank(TEXTS, 3).score)
    with pytest.raises(ConfigError, match="fast: is for the CPU, but the device is 'cuda'. Leave one of them out"):
        treetop.load(tmp_path / "m", device="cuda", fast=True)
