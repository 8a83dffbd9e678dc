"""XML-CNN, AttentionXML and X-Transformer: all forms learn, a killed training ends in the same model."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
import treetop
import treetop.training
from kills import assert_kills_change_nothing
from treetop.core.errors import ConfigError
from treetop.export.folder import export_onnx
from treetop.network.candidates.given import GivenParents

CNN = {
    "network": {"filters": 16, "hidden": 32},
    "encoder_optimizer": {"lr": 0.01},
    "head_optimizer": {"lr": 0.02},
    "train": {"epochs": 12.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}
ATTENTION = {
    "network": {"hidden": 16},
    "layers": [16],
    "tfidf": {"min_df": 1},
    "dropout": 0.2,
    "encoder_optimizer": {"lr": 0.02},
    "head_optimizer": {"lr": 0.02},
    "train": {"epochs": 20.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}
TREE = {"clusters": "tree", "tree": {"max_leaf": 6}, "beam": 4}
LEVELS = {"clusters": "tree", "resolutions": [2, 8], "beam": 3}
PLAIN = {"own_weights": False, "bias": False, "reduction": "mean"}
MATCHER = {
    "tfidf": {"min_df": 1},
    "tree": {"max_leaf": 5},
    "encoder_optimizer": {"lr": 0.002},
    "head_optimizer": {"lr": 0.01},
    "train": {"epochs": 4.0, "batch_size": 16},
    "min_steps_per_epoch": 1,
}
BASES = {"xmlcnn": CNN, "attentionxml": ATTENTION, "x_transformer": MATCHER}


@pytest.fixture(scope="module")
def glove(tmp_path_factory):
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("words")
    (folder / "words.txt").write_text("\n".join(toy.WORDS) + "\n")
    np.save(folder / "vectors.fp16.npy", rng.standard_normal((len(toy.WORDS), 32)).astype(np.float16))
    return str(folder)


def fitted(recipe, words, data=None, **changes):
    settings = {"encoder": {"model": words, "max_length": 8}, **BASES[recipe], **changes}
    return treetop.fit(recipe, data or toy.dataset(), settings=settings, device="cpu")


def score(model, seed=1):
    return model.evaluate(toy.dataset(seed=seed), resamples=0)["P@1"]


@pytest.mark.parametrize(
    ("recipe", "changes", "levels"),
    [
        ("xmlcnn", {}, 1),
        ("xmlcnn", {"network": {"windows": [], "hidden": 0}, "members": 2}, 1),
        ("xmlcnn", {"network": {"windows": [3], "parts": 1}, "bias": False, "validation": 0.2}, 1),
        ("attentionxml", {}, 1),
        ("attentionxml", TREE, 2),
        ("attentionxml", LEVELS, 3),
        ("attentionxml", {**TREE, **PLAIN, "members": 2, "head_optimizer": {"lr": 0.05}}, 2),
    ],
)
def test_every_form_over_words_learns(recipe, changes, levels, glove):
    model = fitted(recipe, glove, **changes)
    assert {len(member) for member in model.members} == {levels}
    assert score(model) > score(treetop.fit("popular", toy.dataset()))


@pytest.mark.parametrize(
    ("changes", "members"),
    [
        ({"label_features": ["pifa", "text", "embedding"]}, 3),
        ({"label_features": ["embedding"], "loss": "bce", "score": "own"}, 1),
        ({"frozen": True, "members": 2, "tree": {"max_leaf": 99}}, 2),
        ({"ranker": {"transform": "log_sigmoid", "train_on": "all"}}, 1),
        ({"ranker": {"last_transform": "noop"}}, 1),
    ],
)
def test_every_form_of_a_matcher_and_a_ranker_learns(changes, members, encoder):
    model = fitted("x_transformer", encoder, **changes)
    assert len(model.members) == members and {len(member) for member in model.members} == {2}
    assert score(model) > score(treetop.fit("popular", toy.dataset()))


def test_each_level_starts_from_the_one_above_and_true_nodes_are_candidates(glove, monkeypatch):
    """Encoder and shared layers as the level above left them; rows meet the children of their true nodes."""
    seen, real = [], GivenParents._with_true

    def with_true(self, kept, known):
        best = real(self, kept, known)
        triples = known.positives.mapped(self.children.parent).triples()
        seen.append(all(node in best[row] for row, node in zip(triples.row, triples.column, strict=True)))
        return best

    monkeypatch.setattr(GivenParents, "_with_true", with_true)
    still = {"lr": 1e-9}
    model = fitted("attentionxml", glove, **{**LEVELS, "beam": 8}, encoder_optimizer=still, head_optimizer=still)
    assert seen and all(seen)
    first, *below = model.members[0]
    words = [model.features[f"level-{t}"].encoder for t in range(3)]
    for level, encoder in zip(below, words[1:], strict=True):
        for (a, _), (b, _) in zip(first.rank.layers, level.rank.layers, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        torch.testing.assert_close(encoder.words, words[0].words, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [("xmlcnn", {}), ("attentionxml", TREE), ("x_transformer", {"label_features": ["embedding"]})],
)
def test_killed_and_resumed_ends_in_the_same_model(recipe, changes, glove, encoder, tmp_path, monkeypatch):
    words = encoder if recipe == "x_transformer" else glove
    settings = {"encoder": {"model": words, "max_length": 8}, **BASES[recipe], **changes}
    settings["train"] = {"epochs": 3.0, "batch_size": 16, "checkpoint_seconds": 0.0}
    kills = {"stops": (4, 15), "folder": tmp_path / "m", "monkeypatch": monkeypatch}
    if recipe != "attentionxml":
        kills["stops"] = (3, 8)
    assert_kills_change_nothing(recipe, toy.dataset(n=60), settings, **kills)


def test_attention_is_drawn_for_a_text(glove):
    """Words share out what the text adds to the margin of a text without words, by the label's attention weights."""
    model = fitted("attentionxml", glove, **TREE)
    text = toy.dataset().texts[0]
    for found in model.explain(text, k=2):
        for t, step in enumerate(found.members[0].steps):
            level = model.members[0][t]
            assert step.method == "attention" and step.gap == pytest.approx(0, abs=1e-4)
            weights = np.array([word.contribution for word in step.words]) / (step.margin - step.base)
            assert weights.min() >= 0 and weights.sum() == pytest.approx(1, abs=1e-4)
            view = model.views([text])[level.view]
            states = view.sequences(np.zeros(1, np.int64)).states[0].numpy()
            scores = states @ level.rank.vectors[step.node]
            expected = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
            words = [text[a:b] for word in step.words for a, b in word.spans]
            assert sorted(words) == sorted(text.split())
            np.testing.assert_allclose(np.sort(weights), np.sort(expected), atol=1e-4)
    [empty] = model.explain("", k=1)
    assert empty.members[0].steps[-1].words == []


@pytest.mark.parametrize(("recipe", "what"), [("xmlcnn", "features 'words'"), ("attentionxml", "rank 'attention'")])
def test_networks_over_words_have_no_onnx_form(recipe, what, glove, tmp_path):
    model = fitted(recipe, glove, train={"epochs": 1.0}).save(tmp_path / "m")
    sentence = f"recipe '{recipe}' has no ONNX form: {what} cannot be written"
    with pytest.raises(ConfigError, match=sentence):
        export_onnx(model, tmp_path / "x")


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("attentionxml", {"resolutions": [3]}, r"resolutions: \[3\]; allowed: increasing powers of two"),
        ("xmlcnn", {"network": {"windows": [0]}}, r"windows: 0 is out of range. Allowed: 1 to 64 words."),
        ("x_transformer", {"label_features": ["pfia"]}, r"label_features: unknown value 'pfia'.*Did you mean 'pifa'"),
        ("x_transformer", {"label_features": []}, r"label_features: is empty. Name at least one"),
    ],
)
def test_wrong_settings_are_told(recipe, settings, sentence, encoder):
    with pytest.raises(ConfigError, match=sentence):
        treetop.fit(recipe, toy.dataset(), settings={"encoder": {"model": encoder}, **settings})
