"""Recipes for short texts: all forms learn, and a killed training ends in the same model."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
import treetop
import treetop.training
from kills import assert_kills_change_nothing
from treetop.cli.main import app
from treetop.core.dataset import LabelSet
from treetop.core.errors import ConfigError
from treetop.network.build import Blueprint
from treetop.network.network import Network
from treetop.tensors.devices import World

INCEPTION = {
    "network": {"filters": 8},
    "tree": {"max_leaf": 6},
    "beam": 4,
    "encoder_optimizer": {"lr": 0.01},
    "head_optimizer": {"lr": 0.02},
    "train": {"epochs": 20.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}
ASTEC = {
    "shortlist": 15,
    "network": {"dropout": 0.2},
    "encoder_optimizer": {"lr": 0.005},
    "surrogate_optimizer": {"lr": 0.01},
    "head_optimizer": {"lr": 0.02},
    "train": {"epochs": 30.0, "batch_size": 16},
    "second_train": {"epochs": 20.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}
DECAF = {
    "tree": {"max_leaf": 6},
    "beam": 4,
    "encoder_optimizer": {"lr": 0.005},
    "head_optimizer": {"lr": 0.008},
    "train": {"epochs": 20.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}
LF = INCEPTION | {"train": {"epochs": 10.0, "batch_size": 16}, "second_train": {"epochs": 10.0, "batch_size": 16}}
TREE = {"clusters": "tree"}


@pytest.fixture(scope="module")
def glove(tmp_path_factory):
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("words") / "glove.txt"
    rows = [f"{word} {' '.join(f'{x:.3f}' for x in rng.standard_normal(32))}" for word in toy.WORDS]
    file.write_text("\n".join(rows) + "\n")
    return str(file)


def chosen(recipe, glove, **changes):
    base = {"inceptionxml": INCEPTION, "astec": ASTEC, "decaf": DECAF, "eclare": DECAF, "inceptionxml_lf": LF}[recipe]
    return {"encoder": {"model": glove, "max_length": 8}, **base, **changes}


def score(model, seed=1):
    return model.evaluate(toy.dataset(seed=seed), resamples=0)["P@1"]


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("inceptionxml", {}),
        (
            "inceptionxml",
            {**TREE, "network": {"filters": 8, "combine": "concat"}, "detach_fraction": 0.4, "projection_dim": 16},
        ),
        ("inceptionxml", {**TREE, "bias": False, "reduction": "mean", "score": "own", "smooth": False}),
        ("astec", {"index": "ivf", "list_size": 8, "nprobe": 3}),
        ("decaf", {}),
        ("inceptionxml_lf", {}),
        (
            "inceptionxml_lf",
            {**TREE, "score": "own", "bias": False, "reduction": "mean", "label_dropout": 0.0, "combine": "gates"},
        ),
        ("inceptionxml_lf", {**TREE, "phases": 1}),
        ("eclare", {}),
        ("eclare", {"bias": False, "init": "graph", "walk": {"head_threshold": 4}, "combine": "gates"}),
        ("astec", {"surrogate_clusters": 8, "freeze_words": False, "score": "own", "bias": False}),
    ],
)
def test_variants_learn(recipe, changes, glove):
    data = toy.dataset(n=120)
    floor = score(treetop.fit("popular", data))
    model = treetop.fit(recipe, data, settings=chosen(recipe, glove, **changes))
    assert score(model) > floor + 5
    flat = recipe == "inceptionxml" and "clusters" not in changes
    assert len(model.members[0]) == (1 if flat else 2)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("inceptionxml", {**TREE, "detach_fraction": 0.5}),
        ("inceptionxml", {}),
        ("astec", {}),
        ("decaf", {}),
        ("eclare", {}),
        ("inceptionxml_lf", TREE),
    ],
)
def test_killed_and_resumed_ends_in_the_same_model(recipe, changes, glove, tmp_path, monkeypatch):
    data = toy.dataset(n=60)
    settings = chosen(recipe, glove, **changes)
    short = {"epochs": 4.0, "batch_size": 16, "checkpoint_seconds": 0.0}
    settings |= {"train": short, "second_train": short} if "second_train" in settings else {"train": short}
    kills = {"stops": (4, 11), "folder": tmp_path / "m", "monkeypatch": monkeypatch}
    assert_kills_change_nothing(recipe, data, settings, **kills)


def test_best_weights_come_with_their_running_means(glove, monkeypatch):
    seen, real = [], Network.validate

    def validate(task):
        seen.append((real(task), task.inputs.encoder.norm.centre.clone()))
        return seen[-1][0]

    monkeypatch.setattr(Network, "validate", validate)
    settings = chosen("inceptionxml", glove, validation=0.3, encoder_optimizer={"lr": 0.1})
    settings["train"] = {"epochs": 8.0, "batch_size": 16, "patience": 8}
    model = treetop.fit("inceptionxml", toy.dataset(n=90), settings=settings)
    made = model.features["words"].encoder.norm.centre
    assert torch.equal(made, max(seen, key=lambda pair: pair[0].score)[1]) and not torch.equal(made, seen[-1][1])


@pytest.mark.parametrize("recipe", ["inceptionxml", "inceptionxml_lf", "decaf", "eclare"])
def test_several_processes_are_refused(recipe, glove, monkeypatch):
    monkeypatch.setattr(World, "join", lambda device: World(0, 2))
    with pytest.raises(ConfigError, match=rf"{recipe}: works in one process only, not in 2\. Leave torchrun out"):
        treetop.fit(recipe, toy.dataset(n=40), settings=chosen(recipe, glove))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize("recipe", ["inceptionxml", "astec", "gandalf+decaf"])
def test_a_device_that_is_not_there_is_told_before_any_work(recipe, glove, tmp_path):
    """Nothing is left behind that would bar the same command with another device."""
    settings = chosen(recipe.split("+")[-1], glove)
    with pytest.raises(ConfigError, match="no GPU is visible here"):
        treetop.fit(recipe, toy.dataset(n=40), settings=settings, device="cuda", out=tmp_path / "m")
    assert not list(tmp_path.iterdir())
    words = ["fit", recipe, str(tmp_path / "absent"), "--out", str(tmp_path / "m"), "--device", "cuda"]
    with pytest.raises(ConfigError, match="no GPU is visible here"):  # before the data are missed
        CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.parametrize("recipe", ["inceptionxml", "inceptionxml_lf", "astec", "decaf", "eclare"])
def test_members_differ(recipe, glove, tmp_path):
    settings = chosen(recipe, glove, members=2)
    settings["train"] = {"epochs": 1.0, "batch_size": 16}
    model = treetop.fit(recipe, toy.dataset(n=40), settings=settings, out=tmp_path / "m")
    assert sorted(model.features) == ["words", "words-1"]
    heads = [member[-1].rank.weight for member in model.members]
    assert not np.array_equal(*heads)
    texts = toy.dataset(seed=3).texts
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


def quick(recipe, glove, **changes):
    short = {"epochs": 8.0, "batch_size": 16}
    more = {"second_train": short} if recipe == "inceptionxml_lf" else {}
    return chosen(recipe, glove, train=short, **more, **changes)


@pytest.mark.parametrize("recipe", ["eclare", "inceptionxml_lf"])
def test_labels_that_never_share_a_text_have_no_graph_and_it_is_said(recipe, glove, caplog):
    data = toy.dataset()
    first = data.Y.indices[data.Y.indptr[:-1]]
    Y = sparse.csr_matrix((np.ones(len(data), np.float32), first, np.arange(len(data) + 1)), data.Y.shape)
    model = treetop.fit(recipe, dataclasses.replace(data, Y=Y), settings=quick(recipe, glove))
    assert f"{recipe}: no two labels share a text, so the label graph adds nothing" in caplog.text
    assert model.predict(data.texts[0], k=3)


@pytest.mark.parametrize("recipe", ["eclare", "inceptionxml_lf"])
def test_labels_without_text_are_read_by_their_ids_and_it_is_said(recipe, glove, caplog):
    bare = dataclasses.replace(toy.dataset(), labels=LabelSet.of([f"L{i:02d}" for i in range(toy.N_LABELS)]))
    assert treetop.fit(recipe, bare, settings=quick(recipe, glove)).predict(bare.texts[0], k=3)
    assert f"{recipe}: no label has a text or a name other than its id; ids are read instead" in caplog.text


@pytest.mark.parametrize("recipe", ["eclare", "inceptionxml_lf"])
def test_equal_texts_empty_texts_and_labels_never_seen(recipe, glove):
    data = toy.distinct()
    unseen = int(np.flatnonzero(data.label_counts == 0)[0])
    texts = [*data.labels.texts]
    texts[1] = texts[0]
    names = [*data.labels.names]
    names[2], texts[2] = "", ""
    data = dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids], names, texts))
    model = treetop.fit(recipe, data, settings=quick(recipe, glove, beam=toy.N_LABELS))
    head = model.members[0][-1].rank
    assert np.isfinite(head.weight).all() and np.isfinite(head.bias).all()
    assert not np.allclose(head.weight[0], head.weight[1])  # free vectors and neighbours tell them apart
    assert unseen in model.rank([texts[unseen]], toy.N_LABELS).ids.tolist()  # by its text


def test_phases_may_have_clusters_of_their_own(glove, tmp_path, monkeypatch):
    blueprints, real = [], Blueprint.network
    monkeypatch.setattr(
        Blueprint, "network", lambda self, *args, **named: blueprints.append(self) or real(self, *args, **named)
    )
    for again in (False, True):
        blueprints.clear()
        chosen = quick("inceptionxml_lf", glove, recluster=again, second_optimizer={"lr": 0.003}, **TREE)
        treetop.fit("inceptionxml_lf", toy.dataset(), settings=chosen)
        first, second = blueprints
        assert np.array_equal(first.tree.parents[1], second.tree.parents[1]) != again
    labels = [phase.plans[1].parts for phase in (first, second)]
    assert [parts.free for parts in labels] == [False, True]
    assert [phase.learning.encoder.lr for phase in (first, second)] == [0.01, 0.003]
    assert first.words.before is None and second.words.before is not None and labels[1].init == "text"
    with pytest.raises(ConfigError, match=r"network\.reduce_to_word_dim: label texts have the dimension"):
        treetop.training.plan("inceptionxml_lf", settings={"network": {"reduce_to_word_dim": False}})
