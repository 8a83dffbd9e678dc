import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
import treetop
from kills import assert_kills_change_nothing
from treetop.core import curve
from treetop.core.errors import ConfigError
from treetop.core.work import Job
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.network import fit as network_fit
from treetop.network.network import Network
from treetop.training import plan

SETTINGS = {
    "encoder_optimizer": {"lr": 0.002},
    "head_optimizer": {"lr": 0.02},
    "dropout": 0.1,
    "beam": 4,
    "projection_dim": 16,
    "train": {"epochs": 15.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}


def settings(encoder, **changes):
    base = {"encoder": {"model": encoder, "max_length": 32, "layers": [-1, -2], "pooling": "mean"}}
    return {**SETTINGS, **base, **changes}


TREE = {"clusters": "tree", "tree": {"max_leaf": 6, "shallow": True, "per_node": True, "stop_when": "gain"}}


@pytest.mark.parametrize(
    "changes", [{}, TREE, {"frozen": True}, {**TREE, "frozen": True}, {**TREE, "negatives": "static"}]
)
def test_variants_learn(encoder, changes):
    data = toy.dataset(n=120)
    model = treetop.fit("lightxml", data, settings=settings(encoder, **changes))
    floor = treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor
    assert len(model.members[0]) == (2 if "clusters" in changes else 1)


@pytest.mark.parametrize("changes", [{}, TREE])
def test_killed_and_resumed_ends_in_the_same_model(encoder, changes, tmp_path, monkeypatch):
    data = toy.dataset(n=60)
    chosen = settings(encoder, **changes)
    chosen["train"] = {"epochs": 6.0, "batch_size": 16, "checkpoint_seconds": 0.0}
    kills = {"stops": (3, 9, 14), "folder": tmp_path / "m", "monkeypatch": monkeypatch}
    assert_kills_change_nothing("lightxml", data, chosen, **kills)


@pytest.mark.parametrize("changes", [{}, {**TREE, "init": "text"}])
def test_members_differ_and_are_blended(encoder, changes, tmp_path):
    chosen = settings(encoder, **changes, members=3)
    chosen["train"] = {"epochs": 3.0, "batch_size": 16}
    model = treetop.fit("lightxml", toy.dataset(n=60), settings=chosen, out=tmp_path / "m")
    assert sorted(model.features) == ["encoder", "encoder-1", "encoder-2"]
    heads = [member[-1].rank.weight for member in model.members]
    assert not np.array_equal(heads[0], heads[1]) and not np.array_equal(heads[1], heads[2])
    first = treetop.fit("lightxml", toy.dataset(n=60), settings={**chosen, "members": 1})
    assert np.array_equal(heads[0], first.members[0][-1].rank.weight)
    texts = toy.dataset(seed=3).texts
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


def test_an_encoder_for_each_member(encoder, tmp_path):
    other = toy_encoder.write_encoder(tmp_path / "other", seed=1)
    chosen = settings(encoder, encoders=[encoder, str(other)])
    chosen["train"] = {"epochs": 1.0, "batch_size": 16}
    model = treetop.fit("lightxml", toy.dataset(n=40), settings=chosen)
    assert len(model.members) == 2
    with pytest.raises(ConfigError, match="members: 3, but encoders names 2"):
        treetop.fit("lightxml", toy.dataset(n=40), settings={**chosen, "members": 3})


def test_a_deeper_tree(encoder):
    tree = {"max_leaf": 3, "shallow": False, "per_node": False, "branching": 4, "top_branching": 4}
    model = treetop.fit("lightxml", toy.dataset(n=120), settings=settings(encoder, clusters="tree", tree=tree))
    assert len(model.members[0]) == 3
    floor = treetop.fit("popular", toy.dataset(n=120)).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor


@pytest.mark.parametrize("changes", [{}, TREE])
def test_memory_that_runs_out_is_survived(encoder, changes, monkeypatch):
    real, refused = Network.loss, []

    def loss(self, loaded):
        if len(loaded.batch.rows) > 5:
            refused.append(len(loaded.batch.rows))
            raise torch.OutOfMemoryError("simulated")
        return real(self, loaded)

    chosen = settings(encoder, **changes, dropout=0.0, encoder_dropout=0.0)
    chosen["train"] = {"epochs": 2.0, "batch_size": 16}
    whole = treetop.fit("lightxml", toy.dataset(n=60), settings=chosen)
    monkeypatch.setattr(Network, "loss", loss)
    split = treetop.fit("lightxml", toy.dataset(n=60), settings=chosen)
    assert refused == [16, 8]
    a, b = (model.rank(toy.dataset(seed=3).texts, 5) for model in (whole, split))
    np.testing.assert_allclose(a.score, b.score, atol=2e-3)


def test_static_negatives_with_an_encoder_of_their_own(encoder, tmp_path):
    chosen = settings(encoder, **TREE, negatives="static_extra")
    model = treetop.fit("lightxml", toy.dataset(n=60), settings=chosen, out=tmp_path / "m")
    assert sorted(model.features) == ["encoder", "encoder-ranker"]
    texts = toy.dataset(seed=3).texts
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


@pytest.mark.parametrize("negatives", ["static", "static_extra"])
def test_static_negatives_have_figures_too(encoder, tmp_path, negatives):
    chosen = settings(encoder, **TREE, negatives=negatives, train={"epochs": 3.0, "batch_size": 16})
    job = Job(work=tmp_path, held_out=toy.dataset(seed=1))
    plan("lightxml", settings=chosen).fit(toy.dataset(n=60), job)
    points = curve.gather(tmp_path)
    assert [point["stage"] for point in points] == ["generator"] * 3 + ["ranker"] * 3
    assert all("PSP@5" in point for point in points) and points[-1]["P@1"] > 0
    stop = chosen | {"train": {"epochs": 3.0, "patience": 1}, "validation": 0.2}
    with pytest.raises(ConfigError, match=r"^negatives: 'static\w*' does not support train\.patience\. Set negatives="):
        treetop.fit("lightxml", toy.dataset(n=60), settings=stop)


def test_validation_and_early_stop(encoder):
    data = toy.dataset(n=100)
    chosen = settings(encoder, validation=0.2)
    chosen["train"] = {"epochs": 30.0, "batch_size": 16, "patience": 2}
    rows, held_out = network_fit.cut(data, 0.2, 0)
    assert len(held_out) == 20 and not set(rows) & set(held_out)
    treetop.fit("lightxml", data, settings=chosen)


def test_the_cpu_preset_leaves_the_encoder_alone(encoder):
    data = toy.dataset(n=120)
    chosen = {"encoder": {"model": encoder, "max_length": 32}, "head_optimizer": {"lr": 0.05}, "min_steps_per_epoch": 8}
    model = treetop.fit("lightxml", data, preset="cpu", settings=chosen)
    plain = Transformer.load(TransformerConfig(model=encoder, max_length=32, layers=(-1, -3), l2=True))
    texts = toy.dataset(seed=2).texts
    (ours,), (theirs,) = (list(part.views(texts).values()) for part in (model.features["encoder"], plain))
    assert np.array_equal(ours, theirs)
    floor = treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor


def test_a_trained_model_is_an_encoder_for_another(encoder, tmp_path):
    data = toy.dataset(n=40)
    chosen = settings(encoder)
    chosen["train"] = {"epochs": 1.0, "batch_size": 16}
    treetop.fit("lightxml", data, settings=chosen, out=tmp_path / "m")
    chosen["encoder"] = {**chosen["encoder"], "model": str(tmp_path / "m")}
    second = treetop.fit("lightxml", data, settings={**chosen, "frozen": True})
    first = treetop.load(tmp_path / "m")
    texts = toy.dataset(seed=2).texts
    views = [next(iter(m.features["encoder"].views(texts).values())) for m in (first, second)]
    assert np.array_equal(*views)


def test_wrong_settings_are_refused_in_one_sentence(encoder):
    data = toy.dataset(n=20)
    for changes, message in (
        ({"encoder": {"model": encoder, "max_length": 32, "layers": [-1, 9]}}, "layers: the encoder has no layer 9"),
        ({"encoder": {"model": "nobody/has-this"}}, "treetop\\[offline\\]"),
        ({"encoder": {"model": encoder, "max_length": 2}}, "max_length: 2 leaves no room"),
        ({"encoder": {"model": encoder, "max_length": 999}}, "max_length: 999 is too long"),
        ({"loss": "hinge"}, "loss: unknown value 'hinge'"),
        ({"beam": 0}, "beam: 0 is out of range"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            treetop.fit("lightxml", data, settings={**settings(encoder), **changes})
        assert "\n" not in str(caught.value)


def test_journal_lies_in_the_work_folder(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("treetop.train.journal.SECONDS", 0.0)
    kept = []
    real = network_fit.train

    def train(*args, **named):
        made = real(*args, **named)
        kept.extend((named["work"] / "train.jsonl").read_text().splitlines())
        return made

    monkeypatch.setattr(network_fit, "train", train)
    treetop.fit("lightxml", toy.dataset(n=20), settings=settings(encoder), out=tmp_path / "m")
    assert json.loads(kept[-1])["seconds_left"] == 0
