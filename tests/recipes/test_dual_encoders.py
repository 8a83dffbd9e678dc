"""The dual encoders on toy data: variants, kills, memory, presets, search, refused settings."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
import treetop
from kills import assert_kills_change_nothing
from treetop.assemble.dual import fit as dual_fit
from treetop.core.dataset import LabelSet
from treetop.core.errors import ConfigError, InputError
from treetop.network.fit import cut
from treetop.train import loop


def settings(folder, recipe, **changes):
    made = {
        "encoder": {"model": folder, "max_length": 32},
        "encoder_optimizer": {"lr": 0.002},
        "train": {"epochs": 12.0, "batch_size": 16},
        "min_steps_per_epoch": 4,
    }
    if recipe == "renee":
        return {**made, "head_optimizer": {"lr": 0.02}, "min_steps_per_epoch": 1, **changes}
    made["pool"] = {"mine_from": 2, "mine_every": 3, "size": 0 if recipe == "dexml" else 24}
    if recipe not in {"depsl", "dexml", "simcse", "graphsage"}:  # these have no free label vectors
        made["label_optimizer"] = {"lr": 0.02}
    if recipe in {"siamesexml", "ngame"}:
        made["second_train"] = {"epochs": 6.0, "batch_size": 16}
        made["second_pool"] = {"size": 24}
    for key, value in changes.items():
        made[key] = {**made[key], **value} if isinstance(made.get(key), dict) else value
    return made


@pytest.fixture(scope="module")
def fitted(encoder, tmp_path_factory):
    """Folders of models with nothing special about them, each trained once."""
    folder, made = tmp_path_factory.mktemp("fitted"), {}

    def get(recipe):
        if recipe not in made:
            made[recipe] = folder / recipe
            treetop.fit(recipe, toy.dataset(n=60), settings=settings(encoder, recipe), out=made[recipe])
        return made[recipe]

    return get


def floor(data):
    return treetop.fit("popular", data).evaluate(toy.dataset(seed=1), resamples=0)["P@1"]


VARIANTS = [
    ("depsl", {"dual": {"projection_dim": 16}}),
    ("depsl", {"dual": {"loss": {"kind": "supcon", "symmetric": True}}}),
    ("depsl", {"pool": {"queries": "labels"}}),
    ("unidec", {"classifier": {"labels": "all"}}),
    (
        "unidec",
        {
            "search": {"classifier_score": "cosine"},
            "dual": {"projection_dim": 32},
            "classifier": {"projection_dim": 32, "bias": False},
        },
    ),
    ("unidec", {"search": {"heads": "dual"}, "classifier": {"weight": 0.1}}),
    ("unidec", {"search": {"heads": "classifier"}}),
    ("unidec", {"search": {"index": "ivf", "nprobe": 99}}),
    ("depsl", {"search": {"index": "hnsw"}}),
    ("dexml", {"dual": {"loss": {"kind": "soft_topk"}}}),
    ("simcse", {}),
    ("graphsage", {"fan_out": 3}),
    ("graphsage", {"frozen": True, "dual": {"projection_dim": 32}, "head_optimizer": {"lr": 0.02}}),
    ("ngame", {"fusion_weight": 0.5, "validation": 0.2, "search": {"index": "exact", "dual_scale": 1.0}}),
    ("ngame", {"search": {"heads": "classifier"}}),
    ("renee", {}),
    ("renee", {"label_memory": "low", "init": "text"}),
    ("unidec", {"classifier": {"labels": "all", "label_memory": "low"}}),
    ("unidec", {"frozen": True}),
    ("depsl", {"frozen": True, "dual": {"projection_dim": 32}, "head_optimizer": {"lr": 0.02}}),
]


@pytest.mark.parametrize(("recipe", "changes"), VARIANTS, ids=lambda value: str(value)[:60])
def test_variants_learn_and_are_saved(encoder, recipe, changes, tmp_path):
    if changes.get("search") == {"index": "hnsw"}:
        pytest.importorskip("faiss")
    data = toy.dataset(n=120)
    model = treetop.fit(recipe, data, settings=settings(encoder, recipe, **changes), out=tmp_path / "m")
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor(data)
    texts = toy.dataset(seed=3).texts
    a, b = model.rank(texts, 5), treetop.load(tmp_path / "m").rank(texts, 5)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)


def test_rare_labels_are_lifted_by_the_log_of_their_texts(encoder):
    data = toy.dataset(n=80)
    ranks = [
        treetop.fit("unidec", data, settings=settings(encoder, "unidec", search={"logit_adjustment": rare}))
        .members[0][0]
        .rank
        for rare in (0.0, 0.5)
    ]
    seen = data.label_counts > 0
    fall = (ranks[0].bias - ranks[1].bias)[seen] - 0.5 * np.log1p(data.label_counts)[seen]
    assert data.label_counts.max() > data.label_counts[seen].min() and np.ptp(fall) < 1e-4
    np.testing.assert_array_equal(ranks[0].weight[seen], ranks[1].weight[seen])


SELDOM = [pytest.param(recipe, marks=pytest.mark.slow) for recipe in ("depsl", "dexml", "siamesexml")]


@pytest.mark.parametrize("recipe", ["unidec", "ngame", "renee", *SELDOM])
def test_killed_and_resumed_ends_in_the_same_model(encoder, recipe, tmp_path, monkeypatch):
    data = toy.dataset(n=60)
    train = {"train": {"epochs": 5.0, "batch_size": 16, "checkpoint_seconds": 0.0}}
    if recipe in {"siamesexml", "ngame"}:
        train["second_train"] = {"epochs": 3.0, "batch_size": 16, "checkpoint_seconds": 0.0}
    chosen = settings(encoder, recipe, **train)
    kills = {"stops": (2, 8, 11), "folder": tmp_path / "m", "monkeypatch": monkeypatch}
    assert_kills_change_nothing(recipe, data, chosen, **kills)


@pytest.mark.parametrize("side", ["labels", "documents"])
def test_held_out_documents_are_never_learned_from(encoder, side, monkeypatch):
    data, seen, real = toy.dataset(n=60), set(), loop._Run._step

    def step(self, batch):
        seen.update(batch.everyone.tolist())
        real(self, batch)

    monkeypatch.setattr(loop._Run, "_step", step)
    changes = {"pool": {"queries": side}, "validation": 0.5, "train": {"epochs": 3.0}}
    treetop.fit("depsl", data, settings=settings(encoder, "depsl", **changes))
    rows, held_out = cut(data, 0.5, 0)
    assert seen and seen <= set(rows.tolist()) and len(held_out) == 30


def test_labels_without_training_texts_are_found_by_their_text(encoder):
    data, hidden = toy.dataset(n=120), [2, 20, 38]  # all labels of one text
    kept = np.flatnonzero(data.Y[:, hidden].sum(1) == 0)
    for recipe, first in (("depsl", 6), ("unidec", 6), ("renee", toy.N_LABELS)):
        model = treetop.fit(recipe, data.take(kept), settings=settings(encoder, recipe))
        found = model.rank([data.labels.texts[2]], first).ids.tolist()
        assert set(hidden) <= set(found), recipe


@pytest.mark.parametrize(("recipe", "preset"), [("depsl", "dpr"), ("depsl", "ance"), ("dexml", "shortlist")])
def test_presets_of_other_methods_learn(encoder, recipe, preset):
    data = toy.dataset(n=120)
    chosen = settings(encoder, recipe)
    del chosen["pool"]
    model = treetop.fit(recipe, data, preset=preset, settings=chosen)
    assert model.evaluate(toy.dataset(seed=1), resamples=0)["P@1"] > floor(data)


def test_a_first_stage_feeds_a_classifier(encoder, fitted):
    data = toy.dataset(n=60)
    chosen = settings(encoder, "renee")
    chosen["encoder"] = {"model": str(fitted("depsl")), "max_length": 32}
    chosen["train"] = {"epochs": 0.01, "batch_size": 16}
    chosen["encoder_optimizer"] = {"lr": 1e-9}
    second = treetop.fit("renee", data, settings=chosen)
    first = treetop.load(fitted("depsl")).features["encoder"].transformer
    texts = toy.dataset(seed=2).texts
    a = first.vectors(first.tokenizer.encode(texts))["encoder/mean:-1"]
    b = second.features["encoder"].views(texts)["encoder/mean:-1"]
    np.testing.assert_allclose(a / np.linalg.norm(a, axis=1, keepdims=True), b, atol=1e-5)


def test_the_forecast_of_memory_splits_batches(encoder, monkeypatch):
    """What a card of little memory would do: the batch is read in parts from the start."""
    data, chosen = toy.dataset(n=60), settings(encoder, "depsl", encoder_dropout=0.0, train={"epochs": 4.0})
    whole = treetop.fit("depsl", data, settings=chosen)
    monkeypatch.setattr(
        dual_fit, "_within_card", lambda batches, task, plan: dataclasses.replace(plan.train, accumulate=4)
    )
    parts = treetop.fit("depsl", data, settings=chosen)
    a, b = (model.rank(toy.dataset(seed=3).texts, 5) for model in (whole, parts))
    np.testing.assert_allclose(a.score, b.score, atol=5e-3)


def test_scores_are_like_probabilities(fitted):
    for recipe in ("unidec", "ngame"):
        score = treetop.load(fitted(recipe)).rank(toy.dataset(seed=3).texts, 40).score
        assert 0 <= score.min() < score.max() <= 1


def test_wrong_settings_are_refused_in_one_sentence(encoder):
    data = toy.dataset(n=20)
    for recipe, changes, message in (
        ("unidec", {"dual": {"weight": 0.0}, "classifier": {"weight": 0.0}}, "nothing would be learned"),
        ("unidec", {"dual": {"loss": {"kind": "softmax"}}}, "dual.loss.kind: unknown value 'softmax'"),
        ("unidec", {"dual": {"loss": {"positive_set": "all"}}}, "pool.positives=0"),
        ("unidec", {"classifier": {"labels": "all", "cosine": True}}, "raw inner products"),
        ("unidec", {"classifier": {"labels": "all", "label_dropout": 0.1}}, "label_dropout"),
        ("unidec", {"dual": {"weight": 0.0}, "search": {"heads": "dual"}}, "dual.weight is 0"),
        ("unidec", {"classifier": {"weight": 0.0}, "search": {"heads": "classifier"}}, "classifier.weight is 0"),
        ("depsl", {"search": {"heads": "classifier"}}, r"^search\.heads: unknown setting"),
        ("depsl", {"classifier": {"weight": 0.5}}, r"^classifier: unknown setting"),
        ("dexml", {"label_optimizer": {"lr": 0.1}}, r"^label_optimizer: unknown setting"),
        ("depsl", {"dual": {"weight": 0.0}}, "dual.weight: 0, so nothing would be learned"),
        ("depsl", {"frozen": True}, "frozen: nothing would be learned"),
        ("depsl", {"pool": {"curriculum": [3]}}, "cannot grow"),
        ("depsl", {"pool": {"positives": 10**9}}, r"^pool\.positives: 1000000000 is out of range"),
        (
            "depsl",
            {"pool": {"mine_every": 10**6}},
            r"^pool\.stored_negatives: 0 with .* mine_every=1000000 stores 6,000,000 .* lower stored_negatives",
        ),
        ("depsl", {"encoder": {"model": encoder, "max_length": 32, "l2": True}}, "encoder.l2"),
        ("simcse", {"pool": {"hard_negatives": 2}}, "^pool: SimCSE has in-batch negatives only"),
        ("depsl", {"dual": {"projection_dim": 9999}}, "dual.projection_dim: 9999 is out of range"),
        ("ngame", {"search": {"classifier_score": "logit"}}, "the stages' cosines are added"),
        ("siamesexml", {"search": {"logit_adjustment": 0.1}}, "no logit adjustment with two stages"),
        ("siamesexml", {"classifier": {"weight": 0.0}}, "each stage trains one of them"),
        ("ngame", {"fusion_weight": 1.0}, "held-out documents"),
        ("ngame", {"fusion_weight": 1.0, "validation": 0.1, "search": {"heads": "dual"}}, "fusion weighs both heads"),
        ("ngame", {"fusion_weight": 1.0, "validation": 0.1}, "search.index: fusion scores all"),
        (
            "ngame",
            {"fusion_weight": 1.0, "validation": 0.1, "search": {"index": "exact"}},
            "search.dual_scale: 0.1, but fusion",
        ),
        ("renee", {"init": "here"}, "init: unknown value 'here'"),
        ("renee", {"label_memory": "low", "train": {"average": "ema"}}, "does not support weight averaging"),
        ("renee", {"label_memory": "low", "sgd": {"lr": 0.0}}, r"^sgd.lr: 0.0 is out of range. Allowed: 1e-06 to"),
        (
            "unidec",
            {"classifier": {"label_memory": "low"}},
            "^classifier.label_memory: 'low' is for classifiers over all labels",
        ),
        ("unidec", {"classifier": {"labels": "all", "offload": True}}, "^classifier.offload: only for classifiers"),
        (
            "unidec",
            {"classifier": {"offload": True}, "train": {"average": "swa"}},
            "classifier.offload: .* weight averaging",
        ),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            treetop.fit(recipe, data, settings=settings(encoder, recipe, **changes))
        assert "\n" not in str(caught.value)


def test_nothing_to_learn_from_is_said(encoder):
    data = toy.dataset(n=20)
    pairs = np.column_stack(data.Y.nonzero()).astype(np.int64)
    with pytest.raises(InputError, match="no text is left with a label"):
        treetop.fit("unidec", dataclasses.replace(data, filter_pairs=pairs), settings=settings(encoder, "unidec"))


@pytest.mark.parametrize("recipe", ["unidec", "ngame"])
def test_labels_without_text_are_read_by_their_ids_and_it_is_said(encoder, recipe, caplog):
    bare = dataclasses.replace(toy.dataset(), labels=LabelSet.of([f"L{i:02d}" for i in range(toy.N_LABELS)]))
    quick = settings(encoder, recipe, train={"epochs": 1.0})
    assert treetop.fit(recipe, bare, settings=quick).predict(bare.texts[0], k=3)
    assert caplog.text.count("no label has a text or a name other than its id; ids are read instead") == 1
