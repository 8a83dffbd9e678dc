"""Names such as gandalf+lightxml: what they mean, what is refused, and what a training makes of them."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import treetop
from treetop.assemble.dual import fit as dual_fit
from treetop.augment.compose import recipes_with, split_name
from treetop.core import registry
from treetop.core.config import describe
from treetop.core.errors import ConfigError
from treetop.kernels import reference
from treetop.network.build import Blueprint
from treetop.training import plan

L = toy.N_LABELS


def settings(encoder, **changes):
    return {
        "encoder": {"model": encoder, "max_length": 32}, "encoder_optimizer": {"lr": 0.002}, "min_steps_per_epoch": 1,
        "train": {"epochs": 3.0, "batch_size": 32}, **changes,
    }  # fmt: skip


def test_parts_of_a_name():
    assert split_name("lightxml") == ([], "lightxml")
    assert split_name("gandalf + mixup+lightxml") == (["gandalf", "mixup"], "lightxml")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gandolf+lightxml", r"unknown augmentation 'gandolf' in 'gandolf\+lightxml'.*Did you mean 'gandalf'"),
        ("gandalf", r"'gandalf' is an augmentation\. Write it before a recipe, as in gandalf\+lightxml"),
        ("lightxml+gandalf", r"'gandalf' is an augmentation"),
        ("xr_linear+lightxml", r"'xr_linear' in 'xr_linear\+lightxml' is a recipe"),
        ("gandalf+lihgtxml", r"recipe: unknown name 'lihgtxml'.*Did you mean 'lightxml'"),
        ("mixup+mixup+lightxml", r"'mixup' appears twice"),
        ("gandalf+xr_linear", r"'xr_linear' does not support soft targets\. Recipes that do: lightxml"),
        ("gandalf+popular", r"'popular' does not support training rows that are not documents"),
        ("mixup+ngame", r"mixup\+ngame: 'ngame' does not support mixed rows\. Recipes that do: .*renee"),
        ("glas+xr_linear", r"'xr_linear' does not support a regulariser on label vectors"),
        ("label_mixup+xr_linear", r"not support documents that are counted but not trained on"),
    ],
)
def test_impossible_names_are_refused_in_one_sentence(name, sentence):
    with pytest.raises(ConfigError, match=sentence) as error:
        plan(name)
    assert "\n" not in str(error.value)


def test_settings_stand_under_the_name():
    made = plan("gandalf+lightxml", settings=["gandalf.delta=0.3", "beam=7"])
    assert made.augmentations[0].config.delta == 0.3 and made.config.beam == 7
    assert made.settings["gandalf"]["delta"] == 0.3 and made.settings["beam"] == 7
    with pytest.raises(ConfigError, match=r"gandalf\.dleta: unknown setting.*Did you mean 'delta'"):
        plan("gandalf+lightxml", settings={"gandalf": {"dleta": 0.2}})
    with pytest.raises(ConfigError, match="gandalf: expected settings inside"):
        plan("gandalf+lightxml", settings=["gandalf=1"])
    with pytest.raises(ConfigError, match=r"gandalf: settings of an augmentation .* Train gandalf\+lightxml"):
        plan("lightxml", settings=["gandalf.delta=0.2"])
    with pytest.raises(ConfigError, match="'xr_linear' does not support documents that are counted"):
        plan("identity+xr_linear", settings=["identity.train_on=labels"])


def test_every_augmentation_has_a_recipe_and_helped_settings():
    for name in registry.names("augment"):
        module = registry.find("augment", name)
        assert name == module.NAME and all(row[3] for row in describe(module.Config))
        assert all("lightxml" in recipes_with(need) for need in module.needs(module.Config()))
        assert any((module.OFFERS.rows, module.OFFERS.mix, module.OFFERS.penalty))
        plan(f"{name}+lightxml")


def test_forecast_counts_rows_and_graph(encoder):
    data = toy.distinct()
    plain = plan("lightxml", settings=settings(encoder)).forecast(data)
    more = plan("gandalf+lightxml", settings=settings(encoder)).forecast(data)
    assert more.time == pytest.approx(plain.time * (60 + L) / 60, rel=0.05) and more.memory > plain.memory
    same = plan("gandalf+lightxml", settings=settings(encoder, gandalf={"train_on": "same_budget"})).forecast(data)
    assert same.time == pytest.approx(plain.time, rel=0.05)


def learned_from(monkeypatch):
    """The data sets that heads are built for."""
    seen, real = [], Blueprint.network
    monkeypatch.setattr(
        Blueprint, "network", lambda self, data, *args, **named: seen.append(data) or real(self, data, *args, **named)
    )
    return seen


def test_training_sees_soft_rows_and_the_model_the_documents(encoder, monkeypatch, tmp_path):
    seen = learned_from(monkeypatch)
    data = toy.distinct()
    model = treetop.fit("gandalf+lightxml", data, settings=settings(encoder), out=tmp_path / "m")
    (rows,) = seen
    np.testing.assert_allclose(rows.Y[60:].toarray(), reference.label_shares(data.Y.toarray(), 0.2, 1.0), rtol=1e-6)
    assert np.array_equal(model.counts, data.label_counts) and model.n_train == 60
    again = treetop.load(tmp_path / "m")
    assert again.card.recipe == "gandalf+lightxml" and again.card.config["gandalf"]["delta"] == 0.2
    unseen = int(np.flatnonzero(data.label_counts == 0)[0])
    found = again.rank([data.labels.texts[unseen]], L).ids
    assert unseen in found.tolist()  # a label known by its text alone is answered with
    plain = treetop.fit("lightxml", data, settings=settings(encoder))
    assert unseen not in plain.rank([data.labels.texts[unseen]], L).ids.tolist()


@pytest.mark.parametrize(
    "name",
    [
        "gandalf+renee",
        "glas+renee",
        "identity+lightxml",
        "mixup+lightxml",
        "label_mixup+renee",
        "glas+lightxml",
        "gandalf+mixup+cascadexml",
    ],
)
def test_combinations_train_and_repeat(encoder, name):
    data = toy.distinct()
    chosen = settings(encoder)
    if name == "glas+lightxml":
        chosen |= {"clusters": "tree", "tree": {"max_leaf": 6}, "beam": 4, "projection_dim": 16}
    first, second = (treetop.fit(name, data, settings=chosen) for _ in range(2))
    texts = [*data.texts]
    a, b = first.rank(texts, 5), second.rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)
    plain = treetop.fit(name.split("+")[-1], data, settings=chosen).rank(texts, 5)
    assert not np.array_equal(plain.score, a.score)


def test_renee_adds_no_rows_beside_those_of_an_augmentation_nor_for_barred_labels(encoder, monkeypatch):
    seen = learned_from(monkeypatch)
    treetop.fit("gandalf+renee", toy.distinct(), settings=settings(encoder))
    treetop.fit("renee", toy.distinct(), settings=settings(encoder))
    treetop.fit("renee", toy.barred(), settings=settings(encoder))
    assert [len(data) for data in seen] == [60 + L, 60 + L, 60 + L - 1]
    assert seen[2].Y[60:, 4].nnz == 0 and len(seen[2].filter_pairs) == 4


def test_dual_encoders_weigh_positives_by_their_targets(encoder, monkeypatch):
    seen = []
    real = dual_fit.known_of
    monkeypatch.setattr(dual_fit, "known_of", lambda data: seen.append(real(data)) or seen[-1])
    data = toy.distinct()
    chosen = settings(encoder, pool={"mine_from": 1, "size": 24})
    treetop.fit("gandalf+depsl", data, settings=chosen)
    known, shares = seen[0], reference.label_shares(data.Y.toarray(), 0.2, 1.0)
    assert len(known.indptr) == 60 + L + 1
    for label in range(L):
        span = slice(known.indptr[60 + label], known.indptr[61 + label])
        row = np.zeros(L, np.float32)
        row[known.indices[span]] = known.values[span]
        np.testing.assert_allclose(row, shares[label], rtol=1e-6)


def test_linear_recipes_take_hard_rows():
    data = toy.distinct()
    with_rows = treetop.fit("identity+xr_linear", data)
    unseen = int(np.flatnonzero(data.label_counts == 0)[0])
    assert unseen in with_rows.rank([data.labels.texts[unseen]], L).ids.tolist()
    assert np.array_equal(with_rows.counts, data.label_counts)


def test_ranker_and_static_negatives_refuse(encoder):
    data = toy.distinct()
    with pytest.raises(ConfigError, match="is linear and does not support augmentations"):
        treetop.fit("gandalf+cascadexml", data, settings=settings(encoder, ranker="linear"))
    chosen = settings(encoder, clusters="tree", tree={"max_leaf": 6}, beam=4, negatives="static")
    with pytest.raises(ConfigError, match="'static' does not support mixup"):
        treetop.fit("mixup+lightxml", data, settings=chosen)
    with pytest.raises(ConfigError, match="mixup: cannot mix relevance"):
        treetop.fit("mixup+lightxml", dataclasses.replace(data, relevance=data.Y), settings=settings(encoder))
