"""`fit` holds documents out, learns on them what scores mean, and trains quick recipes on all of them again."""

import logging

import numpy as np
import pytest

import toy
import treetop
from treetop.assemble.held_out import hold_out
from treetop.assemble.held_out.baseline import first_hits, warn_if_linear_is_better
from treetop.assemble.held_out.hold_out import HoldOut
from treetop.core.errors import ConfigError, InputError, WorkError
from treetop.core.work import Job

TRAIN, VALID, TEST = toy.dataset(n=300), toy.dataset(1, n=600), toy.dataset(4, n=800)


@pytest.fixture(scope="module")
def large():
    return toy.dataset(2, n=7000)


def probabilities_hold(model, within=0.04):
    ranking = model.rank_dataset(TEST, 3)
    rows = np.repeat(np.arange(len(TEST)), np.diff(ranking.indptr))
    right = np.asarray(TEST.Y[rows, ranking.ids]).ravel() > 0
    return model.probabilities(ranking).mean() == pytest.approx(right.mean(), abs=within)


def test_a_linear_recipe_is_calibrated_and_still_trained_on_all_documents(large):
    model, plain = treetop.fit("xr_linear", large), treetop.fit("xr_linear", large, calibrate=False)
    assert model.n_train == 7000 and plain.calibration is None
    assert 500 <= model.calibration.documents == model.card.data["held_out"] <= 650
    one, other = model.rank_dataset(TEST, 10), plain.rank_dataset(TEST, 10)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.score, other.score)
    assert probabilities_hold(model)


def test_documents_that_are_given_are_not_trained_on_and_nothing_is_trained_twice(monkeypatch):
    from treetop.recipes import neighbours

    trained, fit = [], neighbours.fit
    monkeypatch.setattr(neighbours, "fit", lambda data, *rest: trained.append(len(data)) or fit(data, *rest))
    model = treetop.fit("neighbours", TRAIN, held_out=VALID)
    assert trained == [300] and model.calibration.documents == 600 and probabilities_hold(model, 0.06)


@pytest.mark.parametrize(
    ("held_out", "reason"),
    [(None, "300 documents are too few. Recipes that train in seconds, and blend, need 500, networks 5,600. Or"),
     (toy.dataset(1, n=50), "50 held-out documents are too few to learn probabilities from, 500 are needed")],
)  # fmt: skip
def test_too_few_documents_give_no_probabilities_and_one_line_says_why(held_out, reason, caplog):
    with caplog.at_level(logging.INFO, logger="treetop"):
        model = treetop.fit("popular", TRAIN, held_out=held_out)
    assert model.calibration is None and model.predict("cat")[0].probability is None
    assert sum(reason in line for line in caplog.messages) == 1


@pytest.mark.parametrize("n", [400, 600])
def test_training_documents_take_the_place_of_too_few_given_ones(n, caplog):
    train, few = toy.dataset(n=n), toy.dataset(1, n=50)
    with caplog.at_level(logging.INFO, logger="treetop"):
        model, without = treetop.fit("popular", train, held_out=few), treetop.fit("popular", train)
    assert sum("50 held-out documents are too few" in line for line in caplog.messages) == 1
    assert (model.calibration is not None) == (n == 600) and model.predict("cat") == without.predict("cat")


@pytest.mark.parametrize(("n", "warns"), [(50, False), (600, True)])
def test_only_documents_that_were_used_for_the_calibration_are_warned_of(n, warns, caplog):
    given = toy.dataset(1, n=n)
    model = treetop.fit("popular", TRAIN, held_out=given)
    with caplog.at_level(logging.WARNING, logger="treetop"):
        model.evaluate(given, resamples=0)
        model.evaluate(TEST, resamples=0)
    assert sum("was calibrated on these texts" in line for line in caplog.messages) == warns


def test_documents_that_taught_nothing_are_not_warned_of(monkeypatch, caplog):
    from treetop import training

    def refuse(*_):
        raise InputError("nothing to learn")

    monkeypatch.setattr(training, "fitted_to_held_out", refuse)
    model = treetop.fit("xr_linear", TRAIN, held_out=VALID)
    with caplog.at_level(logging.WARNING, logger="treetop"):
        model.evaluate(VALID, resamples=0)
    assert caplog.messages == ["scores without probabilities: nothing to learn"]


def test_a_finished_run_is_taken_for_the_same_job_only(tmp_path):
    made = treetop.fit("popular", TRAIN, held_out=VALID, out=tmp_path / "m")
    again = treetop.fit("popular", TRAIN, held_out=VALID, out=tmp_path / "m", resume=True)
    assert again.seal == made.seal and again.calibration.documents == 600
    for other in ({"calibrate": False}, {"held_out": VALID, "aim": "tail"}, {}):
        with pytest.raises(WorkError, match="hold_out"):
            treetop.fit("popular", TRAIN, out=tmp_path / "m", resume=True, **other)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="aim"):
        treetop.fit("popular", TRAIN, aim="best")
    with pytest.raises(InputError, match="held_out: expected a Dataset, got list"):
        treetop.fit("popular", TRAIN, held_out=["a text"])


def test_a_killed_run_resumes_to_the_same_model(large, tmp_path, monkeypatch):
    whole = treetop.fit("xr_linear", large, out=tmp_path / "whole")
    from treetop import training

    monkeypatch.setattr(training, "fitted_to_held_out", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        treetop.fit("xr_linear", large, out=tmp_path / "cut")
    assert (tmp_path / "cut.work/held-out").is_dir()
    monkeypatch.undo()
    assert treetop.fit("xr_linear", large, out=tmp_path / "cut", resume=True).seal == whole.seal


def test_the_same_documents_are_held_out_whatever_the_order_of_rows(large):
    held = HoldOut()
    split = held.split(large, 3)
    shuffled = held.split(large.take(np.random.default_rng(0).permutation(len(large))), 3)
    assert set(split.held_out.texts) == set(shuffled.held_out.texts)
    assert not set(split.held_out.texts) & set(split.train.texts)
    assert len(split.train) + len(split.held_out) == len(split.everything) == len(large)
    assert set(held.split(large, 4).held_out.texts) != set(split.held_out.texts)
    assert hold_out.OFF.split(large, 3) is None and not hold_out.OFF.holds_out(large)


def test_the_heads_of_a_dual_encoder_are_fused_as_held_out_documents_teach(encoder):
    pytest.importorskip("torch")
    settings = {
        "encoder": {"model": encoder, "max_length": 16},
        "train": {"epochs": 6.0, "batch_size": 64},
        "min_steps_per_epoch": 1,
        "encoder_optimizer": {"lr": 0.004},
    }
    learnt = treetop.fit("unidec", TRAIN, settings=settings, held_out=VALID)
    assert [level.view for (level,) in learnt.members] == ["encoder/search-dual", "encoder/search-classifier"]
    assert learnt.fusion.sources == ((1, "average"), (1, "average")) and learnt.calibration.documents == 600
    fixed = treetop.fit("unidec", TRAIN, settings=settings | {"search": {"fusion": "fixed"}}, held_out=VALID)
    assert len(fixed.members) == 1 and fixed.calibration is not None
    score = learnt.evaluate(TEST, resamples=0)["P@5"]
    assert score >= fixed.evaluate(TEST, resamples=0)["P@5"] - 2.0
    added = learnt.add_labels({"new": "xylophone"})
    assert added.predict("xylophone xylophone", k=3)[0].probability is not None
    assert "new" in [label.id for label in added.predict("xylophone", k=40)]


def test_both_rankers_of_cascadexml_are_fused(encoder):
    pytest.importorskip("torch")
    settings = {
        "encoder": {"model": encoder, "max_length": 16}, "resolutions": [4, 8], "beam": [3, 5], "ranker": "both",
        "tfidf": {"min_df": 1}, "train": {"epochs": 1.0, "batch_size": 64}, "min_steps_per_epoch": 1,
    }  # fmt: skip
    model = treetop.fit("cascadexml", TRAIN, settings=settings, held_out=VALID)
    assert len(model.members) == 2 and model.fusion.scorer.n_sources == 2
    assert treetop.fit("cascadexml", TRAIN, settings=settings).fusion is None


def test_a_blend_is_trained_in_one_go_and_its_quick_recipes_on_all_documents(large, tmp_path):
    settings = {"sources": ["xr_linear", "neighbours"]}
    model = treetop.fit("blend", large, settings=settings, out=tmp_path / "m")
    assert model.n_train == 7000 and model.fusion.scorer.n_sources == 2 and probabilities_hold(model)
    best = max(treetop.fit(r, large, calibrate=False).evaluate(TEST, resamples=0)["P@1"] for r in settings["sources"])
    assert model.evaluate(TEST, resamples=0)["P@1"] >= best - 1.0
    opened = treetop.load(tmp_path / "m", check="full")
    opened.check_golden()
    assert [way.recipe for way in opened.explain("cat dogs", 1)[0].members] == settings["sources"]
    ranks = treetop.fit("blend", TRAIN, settings=settings)  # too few documents to hold some out
    assert ranks.fusion is None and ranks.blend == "rank_average"


@pytest.mark.parametrize(
    ("sources", "reason"), [(["popular"], "two or more"), (["popular", "blend"], "part of itself")]
)
def test_sources_that_make_no_blend_are_refused(sources, reason):
    with pytest.raises(ConfigError, match=reason):
        treetop.fit("blend", TRAIN, settings={"sources": sources})


def test_a_linear_model_that_is_better_is_named_in_one_line(caplog):
    popular, linear = (treetop.fit(recipe, TRAIN) for recipe in ("popular", "xr_linear"))
    with caplog.at_level(logging.WARNING, logger="treetop"):
        warn_if_linear_is_better("lightxml", linear, TRAIN, VALID, Job())
        assert not caplog.messages  # as good as itself
        warn_if_linear_is_better("lightxml", popular, TRAIN, VALID, Job())
    (line,) = caplog.messages
    assert "xr_linear, trained in 0 s" in line and "--set sources=lightxml,xr_linear" in line
    top = linear.rank_dataset(VALID, 1)
    right = np.asarray(VALID.Y[np.arange(len(VALID)), top.ids]).ravel() > 0
    np.testing.assert_array_equal(first_hits(linear, VALID), right)
