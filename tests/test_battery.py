"""Every recipe passes the same battery (style: one set of promises, no exceptions by name)."""

import dataclasses
import importlib.util
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

import toy
import treetop
from faithful import gaps
from treetop.core import curve, registry
from treetop.core.config import build, to_dict
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.kernels.runtime import threads
from treetop.training import plan, presets

# Small settings so that a recipe trains on the toy corpus in about a second.
SMALL_TREE = {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5}}
TINY: dict[str, dict] = {
    "neighbours": {"k": 20},
    "dismec": {"tfidf": {"min_df": 1}},
    "xr_linear": {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 2}},
    "parabel": SMALL_TREE,
    "bonsai": {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 4}},
    "extremetext": SMALL_TREE,
    "pfastrexml": {"trees": 10, "tree": {"max_leaf": 4}},
    "annexml": {"learners": 2, "cluster_size": 40, "width": 16, "k": 10, "tfidf": {"min_df": 1}},
    "blend": {"sources": ["popular", "neighbours"]},
    "auto": {"candidates": ["popular", "neighbours"]},
}
METHODS = dict.fromkeys(["dismec", "xr_linear", "parabel", "bonsai", "extremetext"], "exact")
METHODS |= {
    "popular": "count",
    "neighbours": "votes",
    "lexical": "matches",
    "pfastrexml": "trees",
    "annexml": "votes",
    "sentence_neighbours": "votes",
    "blend": "count or votes",
    "auto": "count or votes",
    "attentionxml": "attention",
}  # others: integrated gradients
RECIPES = registry.names("recipe")
if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
    import toy_encoder

    ENCODER = str(toy_encoder.write_encoder(Path(tempfile.mkdtemp()) / "encoder"))
    TINY["lightxml"] = {
        "encoder": {"model": ENCODER, "max_length": 32, "pooling": "mean", "layers": [-1]},
        "encoder_optimizer": {"lr": 0.002},
        "head_optimizer": {"lr": 0.02},
        "dropout": 0.1,
        "train": {"epochs": 40.0, "batch_size": 16},
    }
    TINY["sentence_neighbours"] = {"encoder": {"model": ENCODER, "max_length": 32}, "k": 10}
    TINY["cascadexml"] = {
        "encoder": {"model": ENCODER, "max_length": 32},
        "encoder_optimizer": {"lr": 0.002},
        "head_optimizer": {"lr": 0.02},
        "train": {"epochs": 40.0, "batch_size": 16},
    }
    TINY["inceptionxml"] = {
        "encoder": {"model": ENCODER, "max_length": 16},
        "tfidf": {"min_df": 1},
        "clusters": "tree",
        "tree": {"max_leaf": 6},
        "beam": 4,
        "train": {"epochs": 25.0, "batch_size": 16},
    }
    TINY["xmlcnn"] = {
        "encoder": {"model": ENCODER, "max_length": 16},
        "network": {"filters": 16, "hidden": 32},
        "encoder_optimizer": {"lr": 0.01},
        "train": {"epochs": 15.0, "batch_size": 16},
    }
    TINY["attentionxml"] = {
        "encoder": {"model": ENCODER, "max_length": 16},
        "network": {"hidden": 32},
        "layers": [16],
        "tfidf": {"min_df": 1},
        "clusters": "tree",
        "tree": {"max_leaf": 6},
        "beam": 4,
        "encoder_optimizer": {"lr": 0.02},
        "head_optimizer": {"lr": 0.02},
        "train": {"epochs": 15.0, "batch_size": 16},
    }
    TINY["inceptionxml_lf"] = TINY["inceptionxml"] | {
        "train": {"epochs": 15.0, "batch_size": 16},
        "second_train": {"epochs": 15.0, "batch_size": 16},
    }
    TINY["astec"] = {
        "encoder": {"model": ENCODER, "max_length": 16},
        "shortlist": 20,
        "train": {"epochs": 20.0, "batch_size": 16},
        "second_train": {"epochs": 20.0, "batch_size": 16},
    }
    TINY["decaf"] = {
        "encoder": {"model": ENCODER, "max_length": 16},
        "tree": {"max_leaf": 6},
        "beam": 4,
        "train": {"epochs": 25.0, "batch_size": 16},
    }
    TINY["eclare"] = TINY["decaf"]
    TINY["xr_transformer"] = {
        "encoder": {"model": ENCODER, "max_length": 32},
        "tfidf": {"min_df": 1},
        "preliminary_tree": {"max_leaf": 5, "branching": 2, "top_branching": 4},
        "refined_tree": {"max_leaf": 5, "branching": 2},
        "encoder_optimizer": {"lr": 0.002},
        "head_optimizer": {"lr": 0.01},
        "train": {"epochs": 6.0, "batch_size": 16},
    }
    TINY["x_transformer"] = {
        "encoder": {"model": ENCODER, "max_length": 32},
        "tfidf": {"min_df": 1},
        "tree": {"max_leaf": 5},
        "encoder_optimizer": {"lr": 0.002},
        "head_optimizer": {"lr": 0.01},
        "train": {"epochs": 6.0, "batch_size": 16},
    }
    TOWERS = {
        "encoder": {"model": ENCODER, "max_length": 32},
        "encoder_optimizer": {"lr": 0.002},
        "label_optimizer": {"lr": 0.02},
        "pool": {"size": 24, "mine_from": 2, "mine_every": 4},
        "train": {"epochs": 10.0, "batch_size": 16},
    }
    STAGES = {"second_train": {"epochs": 5.0, "batch_size": 16}, "second_pool": {"size": 24}}
    DUAL = {key: value for key, value in TOWERS.items() if key != "label_optimizer"}
    TINY |= {
        "depsl": DUAL,
        "unidec": TOWERS,
        "dexml": {**DUAL, "pool": {}},
        "simcse": {**DUAL, "pool": {}},
        "graphsage": {**DUAL, "pool": {}},
    }
    OVER_LABELS = {"train": {"epochs": 30.0, "batch_size": 16}}  # of which there are few
    TINY |= {"siamesexml": TOWERS | STAGES | OVER_LABELS, "ngame": TOWERS | STAGES}
    TINY["renee"] = {key: TOWERS[key] for key in ("encoder", "encoder_optimizer", "train")} | {
        "head_optimizer": {"lr": 0.02}
    }
else:
    NEURAL = {"lightxml", "cascadexml", "xr_transformer", "depsl", "unidec", "dexml", "siamesexml", "ngame", "renee"}
    NEURAL |= {
        "graphsage",
        "simcse",
        "xmlcnn",
        "attentionxml",
        "x_transformer",
        "inceptionxml",
        "inceptionxml_lf",
        "astec",
        "decaf",
        "eclare",
    }
    RECIPES = [recipe for recipe in RECIPES if recipe not in NEURAL]


def tiny(recipe):
    return {"settings": TINY.get(recipe, {})}


def brief(recipe):
    """Too short to learn much, but every part of training has its turn: pools find their clusters before epoch 2."""
    short = {name: {**value, "epochs": 3.0} for name, value in TINY.get(recipe, {}).items() if name.endswith("train")}
    heads = {"search": {"fusion": "fixed"}} if recipe in ("unidec", "siamesexml", "ngame") else {}
    return {"settings": TINY.get(recipe, {}) | short | heads}


@pytest.fixture(scope="module")
def fitted():
    made = {}

    def get(recipe, how=tiny):
        key = recipe, str(how(recipe))
        if key not in made:
            made[key] = treetop.fit(recipe, toy.dataset(), **how(recipe))
        return made[key]

    return get


def same(a, b):
    return np.array_equal(a.indptr, b.indptr) and np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


@pytest.mark.parametrize("recipe", RECIPES)
def test_beats_popularity(recipe, fitted):
    test = toy.dataset(seed=1)
    ours = fitted(recipe).evaluate(test, resamples=0)["P@1"]
    floor = fitted("popular").evaluate(test, resamples=0)["P@1"]
    assert ours > floor if recipe != "popular" else ours == floor


@pytest.mark.parametrize("recipe", RECIPES)
def test_same_seed_same_result_for_any_threads(recipe, fitted):
    texts = toy.dataset(seed=2).texts
    with threads.limited(2):
        again = treetop.fit(recipe, toy.dataset(), **brief(recipe), threads=1)
        assert same(again.rank(texts, 10), fitted(recipe, brief).rank(texts, 10))


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if "train" in TINY.get(recipe, {})])
def test_figures_after_every_epoch_change_no_bit(recipe, fitted, tmp_path):
    held_out = toy.dataset(seed=7)
    unknown = dataclasses.replace(held_out, labels=LabelSet.of([*list(held_out.labels.ids)[:-1], "not trained on"]))
    plain, planned = fitted(recipe, brief), plan(recipe, **brief(recipe))
    (tmp_path / "work").mkdir()
    job = Job(work=tmp_path / "work", held_out=unknown.align(plain.labels))
    watched = planned.fit(toy.dataset(), job)
    dataclasses.replace(watched, card=plain.card, golden=plain.golden).save(tmp_path / "watched")
    plain.save(tmp_path / "plain")
    assert (tmp_path / "watched/manifest.json").read_bytes() == (tmp_path / "plain/manifest.json").read_bytes()
    points = curve.gather(tmp_path / "work")
    assert points and all({"epoch", "seconds", "loss", "P@1", "P@5", "PSP@5"} <= point.keys() for point in points)
    if recipe in ("renee", "lightxml", "decaf"):  # what the last epoch sees is the model
        scores = watched.evaluate(unknown, resamples=0)
        assert all(points[-1][name] == pytest.approx(scores[name], abs=0.006) for name in ("P@1", "P@5", "PSP@5"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_save_and_load_give_identical_rankings_and_bytes(recipe, fitted, tmp_path):
    model = fitted(recipe)
    model.save(tmp_path / "a")
    loaded = treetop.load(tmp_path / "a", check="full")
    loaded.check_golden()
    texts = toy.dataset(seed=3).texts
    assert same(model.rank(texts, 10), loaded.rank(texts, 10))
    loaded.save(tmp_path / "b")
    assert (tmp_path / "a/manifest.json").read_bytes() == (tmp_path / "b/manifest.json").read_bytes()
    assert loaded.card == model.card and loaded.labels == model.labels


@pytest.mark.parametrize("recipe", RECIPES)
def test_words_add_up_to_every_margin_and_steps_to_the_score(recipe, fitted):
    model = fitted(recipe)
    for text in [*toy.dataset(seed=3, n=3).texts, "Cat, HORSES and 3 birds!", "", "qqq"]:
        for found, label in zip(model.explain(text, k=3), model.predict(text, k=3), strict=True):
            assert (found.id, found.label) == label[:2] and found.score == pytest.approx(label.score, abs=1e-5)
            assert json.loads(json.dumps(found.to_dict()))["members"][0]["steps"][-1]["names"] == [found.label]
            for step in (step for way in found.members for step in way.steps):
                relative, of_sizes = gaps(step)
                assert step.method in METHODS.get(recipe, "integrated gradients")
                assert relative < (0.01 if step.method == "integrated gradients" else 1e-5) or of_sizes < 1e-3
                for word in step.words:
                    places = [text[start:end].lower() for start, end in word.spans]
                    assert places and all(" ".join(p.split()) == word.term.lower() for p in places), word
            if len(found.members) == 1:
                assert found.members[0].steps[-1].score == pytest.approx(found.score, abs=1e-4)


@pytest.mark.parametrize("recipe", RECIPES)
def test_finds_the_training_text_nearest_to_itself(recipe, fitted, tmp_path):
    data, model = toy.dataset(), fitted(recipe)
    if recipe == "popular":
        with pytest.raises(ConfigError, match="reads nothing of a text"):
            model.with_documents(data)
        return
    model.with_documents(data).save(tmp_path / "m")
    kept = treetop.load(tmp_path / "m", check="full")
    best = kept.nearest(data.texts[7], k=1)[0]
    assert best.similarity > 0.98 and sorted(best.text.split()) == sorted(data.texts[7].split())
    assert [text.text for found in kept.explain(data.texts[7], k=2) for text in found.texts or ()]


@pytest.mark.parametrize("recipe", RECIPES)
def test_one_by_one_equals_batch(recipe, fitted):
    texts = toy.dataset(seed=4).texts
    model = fitted(recipe)
    whole = model.rank(texts, 5)
    for row in range(5):
        one = model.rank([texts[row]], 5)
        a, b = whole.indptr[row], whole.indptr[row + 1]
        assert one.ids.tolist() == whole.ids[a:b].tolist()
        assert np.allclose(one.score, whole.score[a:b], atol=1e-4)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("text", ["", "   ", "qqq zzz", "💥", "a" * 100_000, "cat\x00dog", "\n\t"])
def test_odd_texts_work(recipe, text, fitted):
    for label in fitted(recipe).predict(text, k=3):
        assert np.isfinite(label.score) and label.probability is None


@pytest.mark.parametrize("recipe", RECIPES)
def test_top_k_is_sorted_unique_and_in_range(recipe, fitted):
    model = fitted(recipe)
    for k in (1, 3, toy.N_LABELS, 10 * toy.N_LABELS):
        ranking = model.rank(toy.dataset(seed=5).texts, k)
        for row in range(len(ranking)):
            a, b = ranking.indptr[row], ranking.indptr[row + 1]
            ids, score = ranking.ids[a:b], ranking.score[a:b]
            assert len(set(ids.tolist())) == len(ids) <= min(k, toy.N_LABELS)
            assert ((ids >= 0) & (ids < toy.N_LABELS)).all()
            assert (np.diff(score) <= 0).all()
            tied = np.diff(score) == 0
            assert (np.diff(ids)[tied] > 0).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_one_label_and_one_document(recipe):
    model = treetop.fit(recipe, ["a cat", "a dog"], [["pet"], ["pet"]], **brief(recipe))
    assert [label.name for label in model.predict("a cat", k=5)] == ["pet"]
    model = treetop.fit(recipe, ["a big cat"], [["pet", "cat"]], **brief(recipe))
    assert {label.name for label in model.predict("a big cat", k=5)} == {"pet", "cat"}


@pytest.mark.parametrize("recipe", RECIPES)
def test_documents_without_text_or_labels_and_duplicates(recipe):
    data = toy.dataset()
    texts = [*data.texts, "", "", data.texts[0]]
    rows = [data.Y, data.Y[:1] * 0, data.Y[1:2], data.Y[:1]]
    from scipy import sparse

    Y = sparse.vstack(rows).tocsr()
    Y.eliminate_zeros()
    model = treetop.fit(recipe, Dataset(Texts.of(texts), Y, data.labels), **brief(recipe))
    assert model.predict(data.texts[0], k=1)


@pytest.mark.parametrize("recipe", RECIPES)
def test_config_round_trips_and_presets_load(recipe):
    config = plan(recipe).config
    assert build(type(config), to_dict(config)) == config
    for preset in presets(recipe):
        plan(recipe, preset=preset)


@pytest.mark.parametrize("recipe", RECIPES)
def test_forecast_is_sane(recipe):
    needs = plan(recipe, **tiny(recipe)).forecast(toy.dataset())
    assert 0 < needs.model < 1e9 and 0 < needs.memory < 1e10 and 0 < needs.time < 1e4


@pytest.mark.parametrize("recipe", RECIPES)
def test_retired_ids_and_strange_names_survive(recipe, tmp_path):
    data = toy.dataset()
    names = ["x\ny", "", "💥", "a,b;c"] * 10
    data = dataclasses.replace(data, labels=LabelSet.of([f"id {i}" for i in range(40)], names))
    model = treetop.fit(recipe, data, **brief(recipe), out=tmp_path / "m")
    assert treetop.load(tmp_path / "m").labels == data.labels == model.labels
    assert not (tmp_path / "m.work").exists()
