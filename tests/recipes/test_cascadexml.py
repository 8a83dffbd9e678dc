from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import treetop
from kills import assert_kills_change_nothing
from treetop.assemble.linear import concatenated
from treetop.core.errors import ConfigError
from treetop.predict import beam as predict_beam
from treetop.recipes import cascadexml
from treetop.training import plan


def settings(encoder, **changes):
    base = {
        "encoder": {"model": encoder, "max_length": 32},
        "resolutions": [4, 8],
        "layers": [[0, 1], [1], [2]],
        "beam": [3, 4],
        "encoder_optimizer": {"lr": 0.002},
        "head_optimizer": {"lr": 0.02},
        "train": {"epochs": 15.0, "batch_size": 16},
        "min_steps_per_epoch": 1,
    }
    return {**base, **changes}


TWO = {"resolutions": [8], "layers": [[1], [2]], "beam": [4]}
FLAT = {"resolutions": [], "layers": [], "beam": []}


@pytest.mark.parametrize(  # with two levels the parent is the path, and a single one has neither
    ("changes", "score"), [({}, "own"), ({}, "parent"), ({}, "path"), (TWO, "own"), (TWO, "path"), (FLAT, "path")]
)
def test_levels_learn(encoder, changes, score):
    data = toy.dataset(n=120)
    model = treetop.fit("cascadexml", data, settings=settings(encoder, score=score, **changes))
    floor = treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor
    assert len(model.members[0]) == len(changes.get("resolutions", [4, 8])) + 1


def test_each_level_reads_its_layers(encoder, tmp_path):
    model = treetop.fit("cascadexml", toy.dataset(), settings=settings(encoder), out=tmp_path / "m")
    views = [level.view for level in model.members[0]]
    assert len(set(views)) == 3
    texts = toy.dataset(seed=3).texts
    vectors = model.features["encoder"].views(texts)
    width = vectors[views[1]].shape[1]
    assert vectors[views[0]].shape[1] == 2 * width and model.members[0][0].rank.weight.shape == (4, width)
    assert [level.rank.n for level in model.members[0]] == [4, 8, toy.N_LABELS]
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


def test_scores_are_the_products_the_scheme_names(encoder):
    chosen = settings(encoder)
    chosen["train"] = {"epochs": 2.0, "batch_size": 16}
    texts = toy.dataset(seed=3).texts
    for score in ("own", "parent", "path"):
        model = treetop.fit("cascadexml", toy.dataset(), settings={**chosen, "score": score, "beam": [4, 8]})
        views, levels = model.features["encoder"].views(texts), model.members[0]
        p = [
            1 / (1 + np.exp(-(level.rank.squeezed(views[level.view]) @ level.rank.weight.T + level.rank.bias)))
            for level in levels
        ]
        parents = [level.shortlist for level in levels[1:]]
        tree = [np.repeat(np.arange(len(s.indptr) - 1), np.diff(s.indptr))[np.argsort(s.children)] for s in parents]
        whole = p[2] * (1 if score == "own" else p[1][:, tree[1]])
        whole = whole * (p[0][:, tree[0]][:, tree[1]] if score == "path" else 1)
        found = model.rank(texts, toy.N_LABELS)
        rows = np.repeat(np.arange(len(texts)), np.diff(found.indptr))
        np.testing.assert_allclose(found.score, whole[rows, found.ids], rtol=2e-3)


@pytest.mark.parametrize("ranker", ["linear", "both"])
@pytest.mark.parametrize("resolutions", [[4, 8], []])
def test_a_linear_level_below_the_network(encoder, ranker, resolutions, tmp_path):
    levels = len(resolutions) + 1
    flat = {} if resolutions else FLAT
    chosen = settings(encoder, ranker=ranker, linear={"beam": 3}, members=2, **flat)
    chosen["train"] = {"epochs": 4.0, "batch_size": 16}
    data = toy.dataset(n=120)
    model = treetop.fit("cascadexml", data, settings=chosen, out=tmp_path / "m")
    assert [len(member) for member in model.members] == [levels] * (4 if ranker == "both" else 2)
    assert [member[-1].view for member in model.members if member[-1].view.startswith("fused")] == ["fused", "fused-1"]
    floor = treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor
    texts = toy.dataset(seed=3).texts
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


def test_the_linear_level_learns_from_texts_whose_clusters_are_kept(encoder, monkeypatch):
    seen = []
    real = concatenated.train_level

    def watch(task, *rest):
        seen.append(task)
        return real(task, *rest)

    monkeypatch.setattr(concatenated, "train_level", watch)
    data, chosen = toy.dataset(), settings(encoder, ranker="linear", linear={"beam": 2})
    chosen["train"] = {"epochs": 2.0, "batch_size": 16}
    model = treetop.fit("cascadexml", data, settings=chosen)
    levels = model.members[0]
    above = predict_beam.descend(levels[:-1], model.features["fused"].views(data.texts), 2)
    shortlist, members = levels[-1].shortlist, seen[0].members[0].tocsr()
    for row in range(len(data)):
        kept = set(above.ids[above.indptr[row] : above.indptr[row + 1]].tolist())
        kept |= {shortlist.parents_of(label)[0] for label in data.Y[row].indices}
        assert set(members[row].indices.tolist()) == kept


@pytest.mark.parametrize("warm", [False, True])
def test_over_all_texts_equals_a_shortlist_of_all_clusters(encoder, warm):
    data, texts, made = toy.dataset(), toy.dataset(seed=3).texts, []
    for more in ({"train_on": "shortlist"}, {"train_on": "all", "warm_start": warm}):
        linear = {"beam": 8, "eps": 1e-4, "threshold": 0.0, "embedding_scale": 2.0, "max_iter": 2000, **more}
        chosen = settings(encoder, ranker="linear", linear=linear, beam=[4, 8])
        chosen["train"] = {"epochs": 2.0, "batch_size": 16}
        made.append(treetop.fit("cascadexml", data, settings=chosen).rank(texts, toy.N_LABELS))
    a, b = (np.zeros((len(texts), toy.N_LABELS)), np.zeros((len(texts), toy.N_LABELS)))
    for found, into in zip(made, (a, b), strict=True):
        into[np.repeat(np.arange(len(texts)), np.diff(found.indptr)), found.ids] = found.score
    np.testing.assert_allclose(a, b, atol=5e-3)


def test_members_have_trees_of_their_own(encoder):
    chosen = settings(encoder, members=2)
    chosen["train"] = {"epochs": 2.0, "batch_size": 16}
    model = treetop.fit("cascadexml", toy.dataset(), settings=chosen)
    assert sorted(model.features) == ["encoder", "encoder-1"]
    a, b = (member[-1].shortlist.children for member in model.members)
    assert not np.array_equal(a, b)


def test_killed_and_resumed_ends_in_the_same_model(encoder, tmp_path, monkeypatch):
    data, chosen = toy.dataset(), settings(encoder)
    chosen["train"] = {"epochs": 4.0, "batch_size": 16, "checkpoint_seconds": 0.0}
    kills = {"stops": (8,), "folder": tmp_path / "m", "monkeypatch": monkeypatch}
    assert_kills_change_nothing("cascadexml", data, chosen, **kills)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": [[1], [2]]}, "layers: 2 levels, but the tree has 3"),
        ({"layers": [[2], [1], [2]]}, "out of order"),
        ({"layers": [[1], [2], [9]]}, "the encoder has no layer 9"),
        ({"beam": [3]}, "beam: 1 values for 2 levels"),
        ({"dropouts": [0.1]}, "dropouts: 1 values for 3 levels"),
        ({"resolutions": [8, 4]}, "increasing powers of two"),
        ({"resolutions": [0]}, "increasing powers of two"),
        ({"beam": [0, 4]}, "each level must keep 1 cluster or more"),
        ({"dropouts": [2.0, 0.1, 0.1]}, "allowed: 0 to 0.99"),
        ({"resolutions": [6, 12]}, "increasing powers of two"),
        ({"resolutions": [8, 64]}, "64 clusters for 40 labels"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(encoder, changes, message):
    with pytest.raises(ConfigError, match=message):
        treetop.fit("cascadexml", toy.dataset(), settings=settings(encoder, **changes))


def test_levels_and_layers_scale_with_labels_and_depth():
    usual = cascadexml.Config()
    sizes = {n: cascadexml._resolutions(n, usual) for n in (115, 13_330, 30_938, 670_091)}
    assert sizes == {115: [], 13_330: [256, 2048], 30_938: [512, 4096], 670_091: [1024, 8192, 65536]}
    twelve, six = SimpleNamespace(depth=12), SimpleNamespace(depth=6)
    assert cascadexml._layers((), 4, twelve, "spread") == [(5, 6), (8,), (10,), (12,)]
    assert cascadexml._layers((), 3, six, "spread") == [(3, 4), (5,), (6,)]
    assert cascadexml._layers((), 1, six, "spread") == [(6,)]
    assert cascadexml._layers((), 3, six, "last") == [(6,)] * 3


def test_all_levels_may_read_the_last_layer(encoder, tmp_path):
    data = toy.dataset(n=120)
    model = treetop.fit("cascadexml", data, settings=settings(encoder, layers=[], read_layers="last"))
    views = [level.view for level in model.members[0]]
    assert len(views) == 3 and len(set(views)) == 1
    floor = treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor
    model.save(tmp_path / "m")
    assert treetop.load(tmp_path / "m").predict("cat horses") == model.predict("cat horses")
    with pytest.raises(ConfigError, match="read_layers: .*'first'"):
        plan("cascadexml", settings={"read_layers": "first"})


def test_the_preset_of_the_published_layers_holds_whatever_the_default_is():
    assert plan("cascadexml", preset="paper-layers").config.read_layers == "spread"
