"""Trained models joined: scores, features under one roof, the folder, the card, and every refusal."""

import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import pytest

import toy
import toy_edits
import toy_heads
import treetop
from treetop.core.dataset import LabelSet
from treetop.core.errors import ConfigError, InputError, ModelError
from treetop.core.texts import Texts
from treetop.features.namespaced import Namespaced
from treetop.model import Model, load

TEXTS = list(toy_edits.TEXTS)[:20]
WORDS = {"tfidf": {"char_ngrams": [2, 3]}}  # other words than the default


def fit(recipe, data=None, seed=0, **settings):
    return treetop.fit(recipe, toy.dataset() if data is None else data, settings=settings, seed=seed)


@pytest.fixture(scope="module")
def xr():
    return fit("xr_linear")


@pytest.fixture(scope="module")
def three():
    return fit("parabel", **WORDS)


@pytest.fixture(scope="module")
def plt():
    return fit("extremetext")


def scores(model, k=40):
    ranking = model.rank(TEXTS, k)
    rows = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr)).tolist()
    return {(r, c): s for r, c, s in zip(rows, ranking.ids.tolist(), ranking.score.tolist(), strict=True)}


def by_hand(models, weights):
    """Scores of each model by itself, averaged one by one; absent counts 0."""
    each = [scores(model) for model in models]
    cells = {cell for found in each for cell in found}
    return {c: sum(w * s.get(c, 0.0) for w, s in zip(weights, each, strict=True)) / sum(weights) for c in cells}


def same(a, b):
    return toy_edits.same(a.rank(TEXTS, 40), b.rank(TEXTS, 40))


@pytest.mark.parametrize("weights", [None, (4, 1), (0.5, 2.5)])
def test_scores_are_the_average_of_the_models_own(xr, three, weights):
    """Also where one has several members: the weight is the model's, not the member's."""
    both = treetop.blend([xr, three], weights)
    assert len(both.members) == 4
    assert scores(both) == pytest.approx(by_hand([xr, three], weights or (1, 1)), rel=1e-5, abs=1e-7)
    other = treetop.blend([three, xr], weights and weights[::-1])
    assert scores(other) == pytest.approx(scores(both), rel=1e-5, abs=1e-7)


def test_weights_are_shared_out_among_members(xr, three):
    assert treetop.blend([xr, three], (1, 3)).weights == ()  # four members, each 1
    assert treetop.blend([three, xr], (3, 2)).weights == (1.0, 1.0, 1.0, 2.0)
    inner = treetop.blend([xr, three], (4, 2))
    outer = treetop.blend([inner, xr], (6, 6))
    assert outer.weights == pytest.approx((4.0, 2 / 3, 2 / 3, 2 / 3, 6.0))
    assert scores(outer) == pytest.approx(by_hand([inner, xr], (1, 1)), rel=1e-5, abs=1e-7)


def test_weight_zero_leaves_the_first_model_alone(xr, three):
    for alone, other in ((xr, three), (three, xr)):
        assert same(treetop.blend([alone, other], (1, 0)), alone)


@pytest.mark.parametrize("how", ["rank_average", "softmax_average"])
def test_scores_of_any_kind_can_be_blended_by_rank_or_softmax(xr, how):
    near = fit("neighbours")
    both = treetop.blend([near, xr], (1, 2), how)
    assert both.blend == how and both.weights == (1.0, 2.0)
    first = treetop.blend([near, xr], (1, 0), how).rank(TEXTS, 3)
    assert np.array_equal(first.ids, near.rank(TEXTS, 3).ids)
    together, lone = both.rank(TEXTS, 5), [both.rank([text], 5) for text in TEXTS]
    assert np.array_equal(together.ids, np.concatenate([found.ids for found in lone]))


def test_features_are_kept_once_or_apart(xr, three, plt):
    shared = treetop.blend([xr, plt])  # the same words
    assert list(shared.features) == ["tfidf"]
    both = treetop.blend([xr, three, plt])
    assert list(both.features) == ["tfidf", "model-2"] and isinstance(both.features["model-2"], Namespaced)
    assert [members[0].view for members in both.members] == ["tfidf", *["model-2/tfidf"] * 3, "tfidf"]
    third = fit("xr_linear", tfidf={"min_word_length": 4})
    again = treetop.blend([third, both])  # a blend of a blend
    assert list(again.features) == ["tfidf", "model-2", "model-3"]
    assert [members[0].view for members in again.members[:3]] == ["tfidf", "model-2/tfidf", "model-3/tfidf"]
    assert scores(again) == pytest.approx(by_hand([third, both], (1, 1)), rel=1e-5, abs=1e-7)
    twice = treetop.blend([again, again])
    assert list(twice.features) == list(again.features) and len(twice.members) == 12


def test_one_reading_of_the_texts_serves_all_members(xr, plt, monkeypatch):
    from treetop.features.tfidf.tfidf import Tfidf

    both, seen = treetop.blend([xr, plt]), []
    plain = Tfidf._read
    monkeypatch.setattr(Tfidf, "_read", lambda self, texts: seen.append(1) or plain(self, texts))
    both.rank(TEXTS, 5)
    assert len(seen) == 1


def test_folder_stands_alone_and_gives_the_same_bits(xr, three, tmp_path):
    for name, model in (("xr", xr), ("three", three)):
        model.save(tmp_path / name)
    both = treetop.blend([tmp_path / "xr", str(tmp_path / "three")], (4, 1))
    both.save(tmp_path / "both")
    held = toy_edits.hashes(tmp_path / "both")
    for name in ("xr", "three"):
        (tmp_path / name).rename(tmp_path / f"{name}-gone")
    opened = load(tmp_path / "both", check="full")
    opened.check_golden()
    assert len(opened.golden) == 8 and opened.weights == both.weights and same(opened, both)
    opened.save(tmp_path / "again")
    again = toy_edits.hashes(tmp_path / "again")
    assert {name: raw for name, raw in again.items() if name != "run.json"} == {
        name: raw for name, raw in held.items() if name != "run.json"
    }


def test_card_says_what_it_is_made_of(xr, three, tmp_path):
    seal = xr.save(tmp_path / "xr").seal
    both = treetop.blend([tmp_path / "xr", dataclasses.replace(three, seal="")], (4, 1))
    both.save(tmp_path / "both")
    card = load(tmp_path / "both").card
    assert card.recipe == "blend" and card.title == "blend of xr_linear (4), parabel (1)"
    assert [(m["recipe"], m["seal"], m["weight"], m["members"]) for m in card.models] == [
        ("xr_linear", seal, 4.0, 1),
        ("parabel", "", 1.0, 3),
    ]
    assert card.models[1]["settings"]["tfidf"]["char_ngrams"] == [2, 3] and card.data == xr.card.data
    page = (tmp_path / "both/README.md").read_text()
    assert f"- xr_linear, weight 4, seal {seal}\n- parabel, weight 1, never saved" in page
    assert "# blend of xr_linear (4), parabel (1) over 40 labels" in page
    assert xr.card.models == [] and xr.card.title == "xr_linear"


def test_members_of_a_blend_of_blends_keep_their_recipes(xr, three, plt):
    card = treetop.blend([treetop.blend([xr, three]), plt]).card
    assert card.recipes(5) == ["xr_linear", "parabel", "parabel", "parabel", "extremetext"]


def test_a_model_without_weights_is_written_as_ever(three, tmp_path):
    three.save(tmp_path / "three")
    assert json.loads((tmp_path / "three/part.json").read_text())["config"] == {
        "n_train": 60,
        "blend": "average",
        "members": 3,
    }


@pytest.mark.parametrize("bad", [[1.0], [1.0, -1.0, 0.0, 0.0], "4,1", [[], [], [], []], [0.0] * 4, None, 7])
def test_bad_weights_in_a_folder_are_refused(xr, three, tmp_path, bad):
    treetop.blend([xr, three], (4, 1)).save(tmp_path / "m")
    file = tmp_path / "m/part.json"
    part = json.loads(file.read_text())
    raw = json.dumps(part | {"config": part["config"] | {"weights": bad}}, indent=1, sort_keys=True) + "\n"
    file.write_text(raw)
    manifest = json.loads((tmp_path / "m/manifest.json").read_text())
    manifest["files"]["part.json"]["size"] = len(raw)
    (tmp_path / "m/manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match="^" + str(tmp_path / "m")):
        load(tmp_path / "m")


def test_retired_and_merged_labels_keep_the_weights(xr, three, tmp_path):
    both = treetop.blend([xr, three], (4, 1))
    before = scores(both)
    both = both.save(tmp_path / "m")
    gone, goes, into = 2, 5, 7
    both = both.retire_labels([f"L{gone:02d}"]).merge_labels({f"L{goes:02d}": f"L{into:02d}"})
    expected = {cell: score for cell, score in before.items() if cell[1] not in (gone, goes)}
    for (row, column), score in before.items():
        if column == goes:
            expected[row, into] = max(score, before.get((row, into), 0.0))
    assert scores(both) == expected
    both.save(tmp_path / "m")
    load(tmp_path / "m", check="full").check_golden()
    assert scores(load(tmp_path / "m")) == expected


def test_labels_retired_by_the_data_keep_the_weights(xr, three):
    def hidden(model):
        status = np.array(model.labels.status)
        status[3] = 1
        labels = LabelSet(model.labels.ids, model.labels.names, model.labels.texts, status)
        return dataclasses.replace(model, labels=labels)

    both = treetop.blend([hidden(xr), hidden(three)], (4, 1))
    expected = {cell: score for cell, score in by_hand([xr, three], (4, 1)).items() if cell[1] != 3}
    assert scores(both) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_explain_tells_every_member(xr, three):
    both = treetop.blend([xr, three], (4, 1))
    found = both.explain("cat and horses", k=2)
    assert [len(item.members) for item in found] == [4, 4]
    assert any(word.term == "cat" for item in found for word in item.members[0].steps[-1].words)
    letters = {word.term for item in found for way in item.members[1:] for word in way.steps[-1].words}
    assert "ca" in letters  # words of the second model's own
    weights = np.array([4, 1 / 3, 1 / 3, 1 / 3]) / 5
    for item in found:
        assert item.score == pytest.approx(float(weights @ [way.steps[-1].score for way in item.members]), rel=1e-4)


def test_encoders_and_words_go_together(xr, encoder, tmp_path):
    heads = toy_heads.model(encoder, toy.dataset())
    other = toy_heads.model(encoder, toy.dataset(), members=2, seed=1)  # the same encoder
    both = treetop.blend([heads, xr, other], (3, 1, 2))
    assert list(both.features) == ["encoder", "tfidf"] and both.weights == (3.0, 1.0, 1.0, 1.0)
    assert scores(both) == pytest.approx(by_hand([heads, xr, other], (3, 1, 2)), rel=1e-5, abs=1e-7)
    both.save(tmp_path / "m")
    opened = load(tmp_path / "m", check="full")
    opened.check_golden()
    assert same(opened, both)
    (found,) = opened.explain(TEXTS[0], 1)
    assert [way.steps[-1].method for way in found.members] == [
        "integrated gradients",
        "exact",
        *["integrated gradients"] * 2,
    ]
    with pytest.raises(ConfigError, match="labels add: a blend cannot place new labels.*blend again"):
        opened.add_labels({"new": "a new label"})
    with pytest.raises(ConfigError, match="labels add: a blend cannot"):
        treetop.blend([heads, other]).add_labels({"new": "a new label"})


def test_unlike_encoders_are_kept_apart_and_found_again(encoder, tmp_path):
    from toy_encoder import write_encoder
    from treetop.features.encoder.sources import find_encoder

    second = str(write_encoder(tmp_path / "bert", seed=1))
    models = [toy_heads.model(name, toy.dataset(), tree=True) for name in (encoder, second)]
    both = treetop.blend(models, (1, 2))
    assert list(both.features) == ["encoder", "model-2"]
    assert scores(both) == pytest.approx(by_hand(models, (1, 2)), rel=1e-5, abs=1e-7)
    both.save(tmp_path / "m")
    assert same(load(tmp_path / "m"), both)
    (tmp_path / "m/features/encoder").rename(tmp_path / "encoder")  # what is left is the one kept apart
    part, manifest = (
        json.loads((tmp_path / f"m/{name}").read_text()) for name in ("features/part.json", "manifest.json")
    )
    del part["parts"]["encoder"]
    (tmp_path / "m/features/part.json").write_text(json.dumps(part))
    files = {n: f for n, f in manifest["files"].items() if not n.startswith("features/encoder/")}
    files["features/part.json"]["size"] = len(json.dumps(part))
    (tmp_path / "m/manifest.json").write_text(json.dumps(manifest | {"files": files}))
    assert find_encoder(str(tmp_path / "m")).config["hidden_size"] == 32


# --- refusals -------------------------------------------------------------------------------------------------------


def relabelled(model, ids):
    rank = model.members[0][-1].rank
    labels = LabelSet.of(ids)
    if len(ids) == rank.n:
        return dataclasses.replace(model, labels=labels)
    return fit("popular", toy_heads.without(toy.dataset(), list(range(len(ids), 40))))


def test_other_labels_are_refused_with_the_first_that_differs(xr):
    ids = list(xr.labels.ids)
    cases = [
        ([*ids[:3], "other", *ids[4:]], "^model 2: other labels than model 1: .* number 4, 'other' against 'L03'"),
        ([*ids[:3], *ids[3:][::-1]], "in another order, the first that differs is number 4, 'L39' against 'L03'"),
        (ids[:38], "38 against 40, the first that differs is number 39, none against 'L38'"),
    ]
    for other, sentence in cases:
        with pytest.raises(InputError, match=sentence + ". A blend needs the same labels in the same order"):
            treetop.blend([xr, relabelled(xr, other)], how="rank_average")


def test_labels_of_the_same_bytes_but_other_ends_differ(xr):
    ids = list(xr.labels.ids)
    shifted = [ids[0] + ids[1][:1], ids[1][1:], *ids[2:]]
    with pytest.raises(InputError, match="number 1, 'L00L' against 'L00'"):
        treetop.blend([xr, relabelled(xr, shifted)])


def test_changed_labels_are_refused_until_they_are_taken_back(xr, three, tmp_path):
    three.save(tmp_path / "m")
    changed = load(tmp_path / "m").retire_labels(["L01"])
    changed.save(tmp_path / "m")
    with pytest.raises(
        InputError, match=f"^{tmp_path}/m: its labels were changed after training .changes: 1.*labels undo"
    ):
        treetop.blend([xr, tmp_path / "m"])
    assert same(treetop.blend([xr, changed.trained]), treetop.blend([xr, three]))
    load(tmp_path / "m").undo_labels().save(tmp_path / "m")
    assert same(treetop.blend([xr, tmp_path / "m"]), treetop.blend([xr, three]))


def test_a_model_blended_in_another_way_is_refused(xr):
    ranked = fit("parabel", trees=2, blend="rank_average")
    with pytest.raises(ConfigError, match="^model 2: its 2 members are blended by 'rank_average', not by 'average'."):
        treetop.blend([xr, ranked])
    assert treetop.blend([xr, ranked], how="rank_average").blend == "rank_average"  # xr has one member: nothing to mix


def test_raw_margins_cannot_be_averaged(xr):
    with pytest.raises(ConfigError, match="^model 2: blend: 'average' needs scores from 0 to 1"):
        treetop.blend([xr, fit("popular")])


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ((1, 2, 3), "weights: 3 for 2 models. Give one for each"),
        ((1, -2), "weights: -2 is not a weight"),
        ((1, float("nan")), "weights: nan is not a weight"),
        ((0, 0), "weights: all 2 are 0"),
        ("4,1", "weights: '4,1' is not a list of numbers"),
        (5, "weights: 5 is not a list of numbers"),
        (iter([1, -2]), "weights: -2 is not a weight"),
    ],
)
def test_bad_weights_are_refused_before_models_are_opened(weights, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}"):
        treetop.blend(["nowhere", "no/where"], weights)


def test_other_mistakes(xr, tmp_path):
    with pytest.raises(InputError, match="^blend: 1 model. Give two or more"):
        treetop.blend([xr])
    with pytest.raises(InputError, match="^blend: 1 model"):
        treetop.blend("model/")
    with pytest.raises(InputError, match="^blend: expected models or their folders, got int"):
        treetop.blend(5)
    with pytest.raises(InputError, match="^blend: 0 model"):
        treetop.blend([])
    with pytest.raises(InputError, match="^model 2: expected a model or its folder, got int."):
        treetop.blend([xr, 7])
    with pytest.raises(ConfigError, match="unknown value 'mean'. Choose one of average"):
        treetop.blend([xr, xr], how="mean")
    with pytest.raises(ModelError, match="no such model folder"):
        treetop.blend([xr, tmp_path / "nowhere"])
    with pytest.raises(ConfigError, match="weights: 1 for 3 members"):
        dataclasses.replace(fit("parabel"), weights=[1.0])


def test_other_data_is_said_in_one_line(xr, caplog):
    other = fit("xr_linear", toy.dataset(seed=2))
    with caplog.at_level(logging.WARNING, logger="treetop"):
        treetop.blend([xr, fit("extremetext")])
        assert caplog.messages == []
        made = treetop.blend([xr, other])
    message = "model 2: trained on other data than model 1; the blend keeps the label counts of the latter"
    assert caplog.messages == [message]
    assert np.array_equal(made.counts, xr.counts) and made.n_train == xr.n_train


def test_a_model_of_ready_made_features_has_no_golden_inputs(tmp_path):
    data = toy.dataset()
    X = fit("xr_linear").features["tfidf"].transform(data.texts)
    given = dataclasses.replace(data, features={"given": X}, texts=Texts.of([""] * len(data)))
    models = [fit(recipe, given) for recipe in ("xr_linear", "extremetext")]
    both = treetop.blend(models, (2, 1))
    assert both.golden == () and both.features == {}
    both.save(Path(tmp_path / "m"))
    found, lone = load(tmp_path / "m").rank_dataset(given, 40), [model.rank_dataset(given, 40) for model in models]
    matrices = [ranking.to_csr(40).toarray() for ranking in (found, *lone)]
    assert np.allclose(matrices[0], (2 * matrices[1] + matrices[2]) / 3, atol=1e-6)
    assert isinstance(both, Model)
