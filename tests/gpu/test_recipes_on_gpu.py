"""Every recipe that trains a network, on a GPU: it learns, repeats, and recorded steps give what plain ones do.

Run on a machine with a GPU: `make gpu`. Imports nothing that such a machine may lack (hypothesis, pandas, faiss).
"""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is visible here"),
]

import numpy as np

import toy
import treetop

WORDS = {"inceptionxml", "inceptionxml_lf", "astec", "decaf", "eclare"}
TREE = {"clusters": "tree", "tree": {"max_leaf": 5}, "beam": 4, "tfidf": {"min_df": 1}}
FORMS = {
    "lightxml": ("lightxml", {}),
    "lightxml, clusters": ("lightxml", TREE),
    "cascadexml": ("cascadexml", {"resolutions": [4, 8], "beam": [3, 5], "tfidf": {"min_df": 1}}),
    "xr_transformer": (
        "xr_transformer",
        {"preliminary_tree": {"max_leaf": 5, "branching": 2, "top_branching": 4}, "tfidf": {"min_df": 1}},
    ),
    "renee": ("renee", {}),
    "renee, low memory": ("renee", {"label_memory": "low"}),
    "inceptionxml": ("inceptionxml", TREE),
    "inceptionxml_lf": ("inceptionxml_lf", TREE),
    "astec": ("astec", {"shortlist": 20}),
    "decaf": ("decaf", {"tree": {"max_leaf": 6}, "beam": 4}),
    "eclare": ("eclare", {"tree": {"max_leaf": 6}, "beam": 4}),
    "depsl": ("depsl", {"pool": {"size": 24, "mine_from": 2, "mine_every": 4}}),
    "unidec": ("unidec", {"pool": {"size": 24, "mine_from": 2, "mine_every": 4}}),
    "unidec, all labels": ("unidec", {"classifier": {"labels": "all"}}),
    "unidec, host": ("unidec", {"pool": {"size": 24}, "classifier": {"offload": True}}),
    "dexml": ("dexml", {}),
    "ngame": ("ngame", {"pool": {"size": 24}, "second_pool": {"size": 24}}),
    "siamesexml": ("siamesexml", {"pool": {"size": 24}, "second_pool": {"size": 24}}),
}


def fitted(form, encoder, *, epochs=20.0, seed=0, **train):
    recipe, settings = FORMS[form]
    loop = {"epochs": epochs, "batch_size": 16, **train}
    rates = {} if recipe in WORDS else {"encoder_optimizer": {"lr": 0.002}}
    given = {**settings, **rates, "encoder": {"model": encoder, "max_length": 16}, "train": loop}
    if recipe in {"astec", "inceptionxml_lf", "ngame", "siamesexml"}:
        given["second_train"] = loop
    return treetop.fit(recipe, toy.dataset(), settings=given, seed=seed, device="cuda")


@pytest.mark.parametrize("form", FORMS)
def test_it_learns_and_its_model_answers_on_the_cpu(form, encoder, tmp_path):
    model = fitted(form, encoder)
    popular = treetop.fit("popular", toy.dataset()).evaluate(toy.dataset(), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(), resamples=0)["P@1"] > popular
    model.save(tmp_path / "m")
    again = treetop.load(tmp_path / "m", check="full").rank(toy.dataset(seed=1).texts, 5)
    np.testing.assert_array_equal(again.ids, model.rank(toy.dataset(seed=1).texts, 5).ids)


@pytest.mark.parametrize("form", FORMS)
def test_recorded_steps_teach_what_plain_ones_do(form, encoder):
    """One epoch at a time is too short to drift apart: scores differ by rounding alone."""
    plain, recorded = (fitted(form, encoder, epochs=3.0, record=record) for record in (False, True))
    a, b = (model.evaluate(toy.dataset(), resamples=0)["P@5"] for model in (plain, recorded))
    assert abs(a - b) <= 3.0


@pytest.mark.parametrize("form", ["lightxml", "lightxml, clusters", "renee", "unidec"])
def test_the_same_seed_gives_nearly_the_same_scores(form, encoder):
    texts = toy.dataset(seed=1).texts
    one, two = (fitted(form, encoder, epochs=3.0).rank(texts, 5) for _ in range(2))
    assert np.mean(one.ids == two.ids) > 0.9
