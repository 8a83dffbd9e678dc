"""Recipes for short texts: all forms learn, and a killed training ends in the same model."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import treetop
from treetop.core.errors import ConfigError
from treetop.train import loop
from treetop.train.devices import World

INCEPTION = {
    "network": {"filters": 8},
    "tree": {"max_leaf": 6},
    "keep": 4,
    "learn_encoder": {"lr": 0.01},
    "learn_heads": {"lr": 0.02},
    "train": {"epochs": 20.0, "batch": 16},
    "steps": 1,
}
ASTEC = {
    "shortlist": 15,
    "network": {"dropout": 0.2},
    "learn_heads": {"lr": 0.02},
    "train": {"epochs": 30.0, "batch": 16},
    "second_train": {"epochs": 20.0, "batch": 16},
    "steps": 1,
}
DECAF = {"tree": {"max_leaf": 6}, "keep": 4, "train": {"epochs": 20.0, "batch": 16}, "steps": 1}
LF = INCEPTION | {"train": {"epochs": 10.0, "batch": 16}, "second_train": {"epochs": 10.0, "batch": 16}}
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
    return {"encoder": {"encoder": glove, "max_length": 8}, **base, **changes}


def score(model, seed=1):
    return model.evaluate(toy.dataset(seed=seed), resamples=0)["P@1"]


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("inceptionxml", {}),
        ("inceptionxml", {**TREE, "network": {"filters": 8, "mix": "concat"}, "apart": 0.4, "bottleneck": 16}),
        ("inceptionxml", {**TREE, "bias": False, "reduce": "mean", "score": "own", "smooth": False}),
        ("astec", {"near": "lists", "size": 8, "probe": 3}),
        ("decaf", {}),
        ("inceptionxml_lf", {}),
        ("inceptionxml_lf", {**TREE, "score": "own", "bias": False, "reduce": "mean", "label_dropout": 0.0}),
        ("inceptionxml_lf", {**TREE, "phases": 1}),
        ("eclare", {}),
        ("eclare", {"bias": False, "walk": {"head": 4}}),
        ("astec", {"surrogate": 8, "freeze": False, "score": "own", "bias": False}),
    ],
)
def test_variants_learn(recipe, changes, glove):
    data = toy.dataset(n=120)
    floor = score(treetop.fit("popular", data))
    model = treetop.fit(recipe, data, settings=chosen(recipe, glove, **changes))
    assert score(model) > floor + 5
    flat = recipe == "inceptionxml" and "clusters" not in changes
    assert len(model.members[0]) == (1 if flat else 2)


def killed(self, batch, stop, real):
    if batch.step == stop:
        raise KeyboardInterrupt
    real(self, batch)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("inceptionxml", {**TREE, "apart": 0.5}),
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
    short = {"epochs": 4.0, "batch": 16, "checkpoint_seconds": 0.0}
    settings |= {"train": short, "second_train": short} if "second_train" in settings else {"train": short}
    whole = treetop.fit(recipe, data, settings=settings)
    for stop in (3, 9):
        real = loop._Run._step
        with monkeypatch.context() as patch:
            patch.setattr(loop._Run, "_step", lambda self, batch, stop=stop, real=real: killed(self, batch, stop, real))
            with pytest.raises(KeyboardInterrupt):
                treetop.fit(recipe, data, settings=settings, out=tmp_path / "m", resume=stop > 3)
    resumed = treetop.fit(recipe, data, settings=settings, out=tmp_path / "m", resume=True)
    a, b = (model.rank(toy.dataset(seed=3).texts, 10) for model in (whole, resumed))
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


def test_best_weights_come_with_their_running_means(glove):
    settings = chosen("inceptionxml", glove, validation=0.3)
    settings["train"] = {"epochs": 8.0, "batch": 16, "patience": 8}
    model = treetop.fit("inceptionxml", toy.dataset(n=90), settings=settings)
    assert np.isfinite(model.rank(toy.dataset(seed=3).texts, 5).score).all()


@pytest.mark.parametrize("recipe", ["inceptionxml", "inceptionxml_lf", "decaf", "eclare"])
def test_several_processes_are_refused(recipe, glove, monkeypatch):
    monkeypatch.setattr(World, "join", lambda device: World(0, 2))
    with pytest.raises(ConfigError, match=rf"{recipe}: works in one process only, not in 2\. Leave torchrun out"):
        treetop.fit(recipe, toy.dataset(n=40), settings=chosen(recipe, glove))


@pytest.mark.parametrize("recipe", ["inceptionxml", "inceptionxml_lf", "astec", "decaf", "eclare"])
def test_members_differ(recipe, glove, tmp_path):
    settings = chosen(recipe, glove, members=2)
    settings["train"] = {"epochs": 1.0, "batch": 16}
    model = treetop.fit(recipe, toy.dataset(n=40), settings=settings, out=tmp_path / "m")
    assert sorted(model.features) == ["words", "words-1"]
    heads = [member[-1].rank.weight for member in model.members]
    assert not np.array_equal(*heads)
    texts = toy.dataset(seed=3).texts
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)
