import dataclasses
import shutil
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
import treetop
from kills import assert_kills_change_nothing
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError, InputError
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.features.encoder.transformer import Transformer, TransformerConfig

TREE = {"max_leaf": 5, "branching": 2, "top_branching": 2}
SETTINGS = {
    "tfidf": {"min_df": 1},
    "preliminary_tree": TREE,
    "refined_tree": {"max_leaf": 5, "branching": 4, "top_branching": 4},
    "train_beam": 2,
    "encoder_optimizer": {"lr": 0.002},
    "head_optimizer": {"lr": 0.01},
    "train": {"epochs": 6.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
    "ranker": {"beam": 10},
}


def settings(encoder, **changes):
    return {**SETTINGS, "encoder": {"model": encoder, "max_length": 32, "l2": True}, **changes}


def same(a, b):
    return np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"matcher": "concat", "cost_sensitive": True, "bootstrap": "weighted"},
        {
            "bootstrap": "inherit",
            "negatives": "tfn",
            "count_weights": False,
            "encoder_dropout": 0.2,
            "label_rows": "never",
        },
        {"bootstrap": "none", "loss": "bce", "ranker_view": "embedding"},
        {"levels": "last", "max_clusters": 10},
        {"frozen": True},
        {"frozen": True, "ranker_view": "tfidf"},
    ],
)
def test_variants_learn(encoder, changes):
    data = toy.dataset(n=120)
    model = treetop.fit("xr_transformer", data, settings=settings(encoder, **changes))
    floor = treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor
    assert {level.view for level in model.members[0]} == {changes.get("ranker_view", "fused")}


def test_levels_hand_on_what_they_learned(encoder, monkeypatch):
    """Each level trains on the nodes of its own, from the weights of the one before."""
    from treetop.assemble.staged import coarse_to_fine

    seen = []
    real = coarse_to_fine.train_network

    def weights(features):
        return np.concatenate([value.detach().numpy().ravel() for value in features.encoder.parameters()])

    def train_network(data, prepared, inputs, blueprint, training, *args, **named):
        first = weights(prepared.features)
        made = real(data, prepared, inputs, blueprint, training, *args, **named)
        (start,) = blueprint.start.values() or (None,)
        seen.append((blueprint.tree.sizes, blueprint.given, start, first, weights(made.features), training.epochs))
        return made

    monkeypatch.setattr(coarse_to_fine, "train_network", train_network)
    model = treetop.fit("xr_transformer", toy.dataset(n=120), settings=settings(encoder))
    assert [sizes for sizes, *_ in seen] == [[2], [2, 4], [4, 8], [8, 40]]
    assert seen[0][1] is None and seen[0][2] is None
    assert [epochs for *_, epochs in seen] == [1.0, 1.0, 1.0, 3.0]
    for before, after in pairwise(seen):
        assert np.array_equal(before[4], after[3]) and not np.array_equal(before[3], before[4])
        assert after[1].max() < after[0][0] and np.abs(after[2].vectors).sum() > 0
    assert np.array_equal(weights(model.features["fused"].transformers[0]), seen[-1][4])


def test_killed_between_any_two_stages_ends_in_the_same_model(encoder, tmp_path, monkeypatch):
    data, chosen = toy.dataset(n=60), settings(encoder, matcher="concat", train={"epochs": 2.0, "batch_size": 16})
    treetop.fit("xr_transformer", data, settings=chosen, out=tmp_path / "whole")
    wanted = (tmp_path / "whole/manifest.json").read_bytes()
    stage, stages = Job.stage, []

    def listed(self, name, make):
        stages.append(name)
        return stage(self, name, make)

    monkeypatch.setattr(Job, "stage", listed)
    treetop.fit("xr_transformer", data, settings=chosen)
    assert {"fine-00-trained", "fine-00-views", "fine-00-found", "fine-01-start"} <= set(stages)
    for stop in range(1, len(stages)):  # one job, killed behind every stage in turn
        made = []

        def counted(self, name, make, made=made):
            def once():
                if made:
                    raise KeyboardInterrupt
                made.append(name)
                return make()

            return stage(self, name, once)

        monkeypatch.setattr(Job, "stage", counted)
        with pytest.raises(KeyboardInterrupt):
            treetop.fit("xr_transformer", data, settings=chosen, out=tmp_path / "cut", resume=stop > 1)
    monkeypatch.setattr(Job, "stage", stage)
    treetop.fit("xr_transformer", data, settings=chosen, out=tmp_path / "cut", resume=True)
    assert (tmp_path / "cut/manifest.json").read_bytes() == wanted


def test_killed_inside_a_level_ends_in_the_same_model(encoder, tmp_path, monkeypatch):
    data = toy.dataset(n=60)
    chosen = settings(encoder, train={"epochs": 2.0, "batch_size": 16, "checkpoint_seconds": 0.0})
    kills = {"stops": (3, 9), "folder": tmp_path / "m", "monkeypatch": monkeypatch}
    assert_kills_change_nothing("xr_transformer", data, chosen, **kills)


def test_voters_share_their_words(encoder, tmp_path):
    chosen = settings(encoder, members=2, train={"epochs": 2.0, "batch_size": 16})
    data, texts = toy.dataset(n=60), toy.dataset(seed=3).texts
    model = treetop.fit("xr_transformer", data, settings=chosen, out=tmp_path / "m")
    assert [member[0].view for member in model.members] == ["fused", "fused-1"]
    assert sorted(model.features) == ["fused"] and len(model.features["fused"].transformers) == 2
    views = model.features["fused"].views(texts)
    assert (views["fused"] != views["fused-1"]).nnz > 0
    assert same(model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5))
    (found,) = model.explain(data.texts[0], k=1)
    assert all({word.term for word in way.steps[-1].words} & set(data.texts[0].split()) for way in found.members)
    first = treetop.fit("xr_transformer", data, settings={**chosen, "members": 1})
    alone = dataclasses.replace(model, members=model.members[:1])
    assert same(alone.rank(texts, 5), first.rank(texts, 5))


def test_voters_of_a_frozen_encoder_differ_in_their_trees_only(encoder):
    model = treetop.fit("xr_transformer", toy.dataset(), settings=settings(encoder, members=2, frozen=True))
    assert [member[0].view for member in model.members] == ["fused", "fused"]
    a, b = (member[-1].shortlist.children for member in model.members)
    assert len(model.features["fused"].transformers) == 1 and not np.array_equal(a, b)


def test_an_encoder_for_each_voter(encoder, tmp_path):
    other = toy_encoder.write_encoder(tmp_path / "other", seed=1)
    chosen = settings(encoder, encoders=[encoder, str(other)], train={"epochs": 1.0, "batch_size": 16})
    model = treetop.fit("xr_transformer", toy.dataset(), settings=chosen, out=tmp_path / "m")
    assert len(model.members) == len(model.features["fused"].transformers) == 2


def test_the_cpu_preset_leaves_the_encoder_alone(encoder, tmp_path):
    chosen = {key: SETTINGS[key] for key in ("tfidf", "refined_tree")} | {
        "encoder": {"model": encoder, "max_length": 32}
    }
    model = treetop.fit("xr_transformer", toy.dataset(), preset="cpu", settings=chosen, out=tmp_path / "m")
    plain = Transformer.load(TransformerConfig(model=encoder, max_length=32, l2=True))
    texts = toy.dataset(seed=2).texts
    ours = model.features["fused"].views(texts)["encoder/mean:-1"]
    assert np.array_equal(ours, plain.views(texts)["encoder/mean:-1"])
    # And it is an encoder for others.
    second = treetop.fit(
        "xr_transformer", toy.dataset(), preset="cpu",
        settings={**chosen, "encoder": {"model": str(tmp_path / "m"), "max_length": 32}},
    )  # fmt: skip
    assert same(model.rank(texts, 5), second.rank(texts, 5))


def test_labels_without_documents_are_known_by_their_text(encoder):
    data = toy.dataset()
    unseen = int(np.flatnonzero(data.label_counts == 0)[0])
    text = data.labels.texts[unseen]
    for how in ("auto", "never"):
        model = treetop.fit("xr_transformer", data, settings=settings(encoder, frozen=True, label_rows=how))
        assert (unseen in model.rank([text], 40).ids) == (how == "auto")
        assert model.n_train == len(data)


def test_words_and_numbers_explain_a_label(encoder):
    model = treetop.fit("xr_transformer", toy.dataset(), settings=settings(encoder, frozen=True))
    text = toy.dataset().texts[0]
    explained = model.explain(text, k=2)
    assert len(explained) == 2
    for found in explained:
        step = found.members[0].steps[-1]
        assert step.method == "integrated gradients" and {word.term for word in step.words} & set(text.split())
        assert len({word.spans for word in step.words}) == len(step.words)  # both parts of a word in one place
        total = step.base + sum(word.contribution for word in step.words)
        assert total == pytest.approx(step.margin, rel=0.01, abs=1e-3)


def test_ready_made_features_are_left_aside_and_missing_texts_refused(encoder):
    data, texts = toy.dataset(), toy.dataset(seed=2).texts
    X = sparse.random(60, 20, 0.3, format="csr", dtype=np.float32, random_state=0)
    chosen = settings(encoder, frozen=True)
    given = treetop.fit("xr_transformer", dataclasses.replace(data, features={"given": X}), settings=chosen)
    assert same(given.rank(texts, 5), treetop.fit("xr_transformer", data, settings=chosen).rank(texts, 5))
    silent = Dataset(Texts.of([""] * 60), data.Y, data.labels, features={"given": X}, name="toy")
    with pytest.raises(InputError, match="toy: has no texts, which xr_transformer reads. Use xr_linear"):
        treetop.fit("xr_transformer", silent, settings=chosen)


def test_wrong_settings_are_refused_in_one_sentence(encoder, tmp_path):
    for changes, message in (
        ({"encoder": {"model": encoder, "max_length": 32, "layers": [9]}}, "layers: the encoder has no layer 9"),
        ({"ranker_view": "tfidf"}, "ranker_view: 'tfidf' reads no encoder"),
        ({"epoch_split": [1.0, 1.0]}, "epoch_split: \\[1.0, 1.0\\], but 4 levels"),
        ({"max_clusters": 1}, "max_clusters: 1, but the coarsest level has 2 nodes"),
        ({"members": 3, "encoders": [encoder, encoder]}, "members: 3, but encoders names 2"),
        ({"members": 2, "ranker": {"last_transform": "noop"}}, "blend: 'average' needs scores from 0 to 1"),
        ({"ranker": {"last_transform": "hing3"}}, "ranker.last_transform: unknown value 'hing3'"),
        ({"bootstrap": "text"}, "bootstrap: unknown value 'text'"),
        ({"train_beam": 0}, "train_beam: 0 is out of range"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            treetop.fit("xr_transformer", toy.dataset(), settings={**settings(encoder), **changes}, out=tmp_path / "m")
        assert "\n" not in str(caught.value)
        left = {file.name for file in tmp_path.glob("m.work/*")}
        assert not left or "layers" in message  # nothing bars the next command, except what only the encoder knows
        shutil.rmtree(tmp_path / "m.work", ignore_errors=True)
