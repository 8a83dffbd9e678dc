"""Advice on toy data: what is tried, what it costs by a mocked clock, and what is chosen."""

import dataclasses
import time

import numpy as np
import pytest

import toy
import treetop
from treetop.assemble.advise import facts
from treetop.assemble.advise.advice import Advice, Adviser
from treetop.assemble.advise.choice import Choice, Estimate, caught_up, choose, wins
from treetop.assemble.advise.clock import Clock, seconds_at
from treetop.assemble.advise.curve import Expected
from treetop.assemble.advise.judging import folds, ladder
from treetop.assemble.advise.said import card_line, lines
from treetop.assemble.advise.trials import Trial
from treetop.core import curve, deadline
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.data.split import holdout
from treetop.model import Model
from treetop.recipes import auto, blend, neighbours

QUICK = ("xr_linear", "neighbours")
XR, NEAR, BOTH = ("xr_linear",), ("neighbours",), QUICK


@pytest.fixture(scope="module")
def large():
    return toy.dataset(2, n=7000)


class Time:
    """A clock that only training moves: each recipe takes so many seconds per document."""

    def __init__(self, monkeypatch, rates):
        self.seconds, self.trained = 0.0, []
        for name, rate in rates.items():
            module = __import__(f"treetop.recipes.{name}", fromlist=["fit"])
            monkeypatch.setattr(module, "fit", self._slowed(name, module.fit, rate))
            monkeypatch.setattr(module, "forecast", self._forecast(module.forecast, rate))

    def _slowed(self, name, fit, rate):
        def slow(dataset, config, job) -> Model:
            self.seconds += rate * len(dataset)
            self.trained.append((name, len(dataset)))
            return fit(dataset, config, job)

        return slow

    def _forecast(self, forecast, rate):
        return lambda dataset, config: dataclasses.replace(forecast(dataset, config), time=rate * len(dataset))

    def __call__(self):
        return self.seconds


def adviser(data, seconds, now, **more):
    return Adviser(data, Job(0, "cpu"), {"time": seconds, **more}, names=QUICK, now=now)


@pytest.mark.parametrize("seconds", [0.5, 10.0, 60.0])
def test_trials_take_more_than_their_share_only_where_training_leaves_it(large, monkeypatch, seconds):
    now = Time(monkeypatch, {"xr_linear": 1e-3, "neighbours": 2e-3})
    advice = adviser(large, seconds, now).advise()
    most = max((e.seconds for e in advice.estimates if e.fits), default=0.0)
    assert advice.spent <= max(0.25 * seconds, seconds - 1.3 * most)
    shared = Adviser(large, Job(0, "cpu"), {"time": seconds}, share=0.25, names=QUICK, now=now).advise()
    assert shared.spent <= 0.25 * seconds
    tried = [row for row in advice.table if row["P@1"] is not None]
    assert bool(tried) == bool(now.trained) and (seconds > 3 or not tried)
    chosen = advice.choice.estimate
    assert not chosen.fits or chosen.seconds <= seconds - advice.spent


def test_a_slow_recipe_does_not_keep_quick_ones_from_large_samples(large, monkeypatch):
    now = Time(monkeypatch, {"xr_linear": 1e-3, "popular": 1e-4, "neighbours": 4e-2})
    names = ("neighbours", "xr_linear", "popular")
    advice = Adviser(large, Job(0, "cpu"), {"time": 400.0}, names=names, now=now).advise()
    assert next((name, size) for name, size in now.trained if size > 100) == ("popular", 500)
    assert [e.size for e in advice.estimates[:3]] == [500, 6368, 6368]
    assert [(e.sources, e.size) for e in advice.estimates[3:]] == [(names[1:], 6368), (names, 500)]


def test_a_slow_recipe_is_tried_beyond_the_share_where_its_training_still_fits(large, monkeypatch):
    now = Time(monkeypatch, {"xr_linear": 1e-3, "neighbours": 8e-3})
    advice = Adviser(large, Job(0, "cpu"), {"time": 300.0}, names=QUICK, now=now).advise()
    assert [row["sample"] for row in advice.table[:2]] == [6368, 6368] and advice.spent > 0.25 * 300
    assert advice.choice.estimate.seconds <= 300.0 - advice.spent


def test_what_compiles_kernels_counts_as_no_trial(large, monkeypatch):
    now = Time(monkeypatch, {"xr_linear": 1e-3, "neighbours": 2e-3})
    fit, first = neighbours.fit, []

    def compiled(dataset, config, job):
        now.seconds += 0 if first else 25.0
        first.append(len(dataset))
        return fit(dataset, config, job)

    monkeypatch.setattr(neighbours, "fit", compiled)
    advice = adviser(large, 120.0, now).advise()
    assert first[0] == 100 and advice.spent > 25.0
    assert [row["sample"] for row in advice.table[:2]] == [6368, 6368] and advice.table[1]["seconds"] < 40.0


def test_nothing_tried_is_said_and_the_linear_recipe_taken(large, monkeypatch):
    now = Time(monkeypatch, {"xr_linear": 1e-3, "neighbours": 1e-3})
    advice = Adviser(large, Job(0, "cpu"), {"time": 30.0}, share=0.0, names=QUICK, now=now).advise()
    assert "no time for trials" in advice.choice.reason and advice.choice.estimate.sources == XR


def test_a_budget_that_nothing_fits_is_said(large, monkeypatch):
    advice = adviser(large, 1.0, Time(monkeypatch, {"xr_linear": 1.0, "neighbours": 0.5})).advise()
    assert "Nothing fits" in advice.choice.reason and advice.choice.estimate.sources == NEAR
    assert not any(row["fits"] for row in advice.table)


def test_memory_and_model_size_count_too(large):
    advice = Adviser(large, Job(0, "cpu"), {"memory": 1e6}, share=0.0, names=QUICK).advise()
    assert not any(estimate.fits for estimate in advice.estimates)


def test_expected_scores_are_what_training_reaches(large):
    advice = Adviser(large, Job(0, "cpu"), {"time": 600.0}, names=QUICK).advise()
    assert [e.sources for e in advice.estimates] == [XR, NEAR, BOTH]
    model = treetop.fit("xr_linear", large, calibrate=False)
    reached = model.evaluate(toy.dataset(9, n=1500), resamples=0)
    assert advice.table[0]["P@1"] == pytest.approx(reached["P@1"], abs=3)
    assert advice.table[0]["P@5"] == pytest.approx(reached["P@5"], abs=3)
    said = lines(advice)
    assert said[0].split()[0] == "recipe" and len(said) == 6 and "xr_linear: P@1" in card_line(advice)


@pytest.mark.parametrize("n", [3, 12, 60, 300])
def test_few_documents_judge_in_several_rounds_and_never_fail(n):
    advice = Adviser(toy.dataset(n=n), Job(0, "cpu"), {"time": 60.0}, names=QUICK).advise()
    assert advice.spent < 15 and advice.choice.estimate.sources in (XR, NEAR)
    assert all(len(estimate.sources) == 1 for estimate in advice.estimates)  # too few for a learnt fusion


def test_one_text_repeated_is_advised_on_without_trials():
    data = toy.dataset(n=5).take(np.zeros(50, np.int64))
    assert Adviser(data, Job(0, "cpu"), names=QUICK).advise().choice.estimate.sources == XR


def test_folds_are_nested_samples_apart_from_their_judges(large):
    (fold,) = folds(large, 0)
    assert not set(fold.rows) & set(fold.validation) and 600 < len(fold.validation) < 800
    small = {*fold.sample(large, 100).texts}
    assert small <= {*fold.sample(large, 400).texts}
    assert len(folds(toy.dataset(n=300), 0)) == 5
    assert ladder(7000) == [500, 2000, 7000] and ladder(240) == [120, 240] and ladder(1) == [1]


def test_seconds_grow_with_documents():
    assert seconds_at(8000, [1000, 4000], [1.0, 4.0]) == pytest.approx(8.0, rel=0.05)
    assert seconds_at(8000, [1000, 4000], [3.0, 4.5]) == pytest.approx(6.75, rel=0.05)  # half the mean at least
    assert seconds_at(8000, [1000], [1.0]) >= 8.0 and seconds_at(500, [1000], [1.0]) == 0.5
    now = iter([10.0, 12.0, 13.0])
    clock = Clock(5.0, lambda: next(now))
    assert clock.spent == 2.0 and clock.left == 2.0


def estimate(sources, p1, p5, *, fits=True, size=7000, seconds=1.0):
    return Estimate(sources, seconds, fits, Expected(p1, 0.01), Expected(p5, 0.01), size)


def trial(p, size=7000, n=1000, seed=0):
    hits = (np.random.default_rng(seed).random((n, 3)) < p).astype(float)
    return Trial("t", size, hits, 1.0, 1.0)


def test_a_blend_is_chosen_only_where_it_is_better_and_fits():
    same, clear = trial(0.5), trial(0.7, seed=1)
    singles = [estimate(XR, 0.5, 0.3), estimate(NEAR, 0.4, 0.2)]
    blend, trials = estimate(BOTH, 0.7, 0.4), {XR: [same], NEAR: [same], BOTH: [clear]}
    assert choose([*singles, blend], trials).estimate is blend
    assert choose([*singles, dataclasses.replace(blend, fits=False)], trials).estimate is singles[0]
    equal = choose([*singles, estimate(BOTH, 0.51, 0.31)], trials | {BOTH: [same]})
    assert equal.estimate is singles[0] and "no blend that fits is better" in equal.reason
    assert choose([*singles, estimate(BOTH, 0.49, 0.29)], trials).estimate is singles[0]  # wins now, not in the end
    assert not wins(clear, None) and not wins(clear, trial(0.1, n=10)) and wins(clear, same) and not wins(same, clear)
    assert isinstance(equal, Choice) and equal.estimate.command == "xr_linear"
    assert blend.command == "blend --set sources=xr_linear,neighbours"
    assert estimate(("unidec:cpu",), 0.1, 0.1).command == "unidec --preset cpu"


def test_a_recipe_that_reads_labels_is_trusted_untried_where_it_fits():
    reads = Estimate(("unidec:cpu",), 50.0, True)
    tried, trials = estimate(XR, 0.01, 0.01), {XR: [trial(0.01)], ("unidec:cpu",): []}
    assert choose([tried, reads], trials, "unidec:cpu").estimate is reads
    assert choose([tried, reads], trials).estimate is tried
    assert choose([tried, dataclasses.replace(reads, fits=False)], trials, "unidec:cpu").estimate is tried


def test_a_recipe_that_reads_labels_is_not_trusted_where_names_do_not_help(monkeypatch):
    monkeypatch.setattr(facts, "_has_encoder", lambda name: True)
    asked = Adviser(toy.dataset(n=10), Job(0, "cpu"), {"time": 600.0})
    assert asked._trusted == "unidec:cpu"
    asked.trials |= {XR: [trial(0.1)], ("lexical",): [trial(0.3)]}
    assert asked._trusted == "unidec:cpu"
    asked.trials |= {NEAR: [trial(0.4)]}
    assert asked._trusted == ""


def test_the_linear_tree_is_preferred_untried_to_neighbours_where_it_fits():
    linear, near = Estimate(XR, 50.0, True), estimate(NEAR, 0.5, 0.3)
    trials = {XR: [], NEAR: [trial(0.5)]}
    chosen = choose([linear, near], trials)
    assert chosen.estimate is linear and "better than neighbours" in chosen.reason
    assert choose([dataclasses.replace(linear, fits=False), near], trials).estimate is near
    other = estimate(("lexical",), 0.6, 0.4)
    assert choose([linear, near, other], trials | {("lexical",): [trial(0.6)]}).estimate is other


def test_a_candidate_with_one_sample_rises_with_the_one_that_has_more():
    slow, quick = ("unidec:cpu",), XR
    trials = {quick: [trial(0.3, 500), trial(0.6)], slow: [trial(0.4, 500)]}
    given = [estimate(quick, 0.6, 0.4), estimate(slow, 0.4, 0.1, size=500)]
    risen = caught_up(given, trials, 7000, 1.0)
    assert risen[0] is given[0] and 0.45 < risen[1].p1.value < 0.6 and risen[1].p1.spread > 0.05


def test_a_candidate_rises_with_the_one_whose_score_was_most_alike():
    slow, low, alike = ("unidec:cpu",), XR, ("lexical",)
    trials = {low: [trial(0.01, 500), trial(0.07)], alike: [trial(0.28, 500), trial(0.33)], slow: [trial(0.3, 500)]}
    given = [estimate(low, 0.07, 0.04), estimate(alike, 0.33, 0.2), estimate(slow, 0.3, 0.1, size=500)]
    assert 0.3 < caught_up(given, trials, 7000, 1.0)[2].p1.value < 0.36
    assert caught_up(given[::2], trials, 7000, 1.0)[1].p1.value > 0.4  # no other to rise with


def test_facts_and_candidates_follow_data_and_machine(monkeypatch):
    data = toy.dataset()
    monkeypatch.setattr(facts, "_has_encoder", lambda name: True)
    monkeypatch.setattr(facts, "_has_gpu", lambda device: device == "cuda")
    found = facts.Facts.of(data, "cpu")
    assert found.documents == 60 and found.labels == 40 and found.label_texts == 1.0 and "no GPU" in found.describe()
    assert found.candidates == (*QUICK, "lexical", "unidec:cpu")
    assert facts.Facts.of(data, "cuda").candidates == (*QUICK, "lexical", "lightxml", "renee", "unidec")
    codes = LabelSet.of([f"{i:03d}.{i}" for i in range(data.n_labels)])
    assert facts.Facts.of(dataclasses.replace(data, labels=codes), "cpu").candidates == QUICK
    wordless = Dataset(Texts.of([""] * len(data)), data.Y, data.labels, features={"given": data.Y})
    assert facts.Facts.of(wordless, "cpu").candidates == QUICK
    unspaced = Dataset(
        Texts.of(["図書館 abc"] * len(data)), data.Y, LabelSet.of(["犬猫"] + [f"{i}" for i in range(39)])
    )
    assert facts.Facts.of(unspaced, "cpu").words_per_document == 5.0 and facts.Facts.of(unspaced).label_texts == 1 / 40
    monkeypatch.setattr(facts, "_has_encoder", lambda name: False)
    assert (
        facts.Facts.of(data, "cuda").candidates == (*QUICK, "lexical")
        and "no encoder" in facts.Facts.of(data).describe()
    )


def test_an_encoder_that_cannot_read_all_in_time_is_not_even_loaded(monkeypatch):
    monkeypatch.setattr(facts, "_has_encoder", lambda name: True)
    data = toy.dataset(n=300)
    late = Adviser(data, Job(0, "cpu"), {"time": 0.2})
    assert [*late.plans] == [*QUICK, "lexical"] and [*late.too_slow] == ["unidec:cpu"]
    row = late.advise().table[-1]
    assert row["recipe"] == "unidec:cpu" and not row["fits"] and row["P@1"] is None


def test_texts_read_for_a_smaller_sample_are_not_read_again(encoder):
    from treetop.features.encoder.transformer import TransformerConfig
    from treetop.network.prepare import Prepared, prepare

    data, read = toy.dataset(n=40), []
    config, job = TransformerConfig(model=encoder, max_length=32), Job(0, "cpu", reads={})
    half = prepare(data.take(np.arange(20)), config, job, frozen=True)
    whole = prepare(data, config, job, frozen=True)
    plain = whole.frozen(Job(0, "cpu"))
    vectors = Prepared.vectors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Prepared, "vectors", lambda self, *a, tokens=None: read.append(len(tokens)) or vectors(self, tokens=tokens)
        )
        half.frozen(job)
        kept = whole.frozen(job)
    assert read == [20, 20]
    rows = np.arange(40)
    assert kept.names == plain.names
    np.testing.assert_allclose(kept.load(rows)["views"].cpu(), plain.load(rows)["views"].cpu(), atol=2e-3)


def test_auto_refuses_candidates_that_are_no_single_recipes():
    for name in ("auto", "blend", "gandalf+auto"):
        with pytest.raises(ConfigError, match="candidates: neither auto nor blend"):
            treetop.fit("auto", toy.dataset(), settings={"candidates": ["popular", name]})


def test_auto_trains_its_choice_and_says_so(large, tmp_path):
    settings = {"candidates": list(QUICK)}
    model = treetop.fit("auto", large, settings=settings, budget="time=10min", out=tmp_path / "m")
    said = model.card.data
    assert said["chosen"] in ("xr_linear", "neighbours", "xr_linear + neighbours") and "P@1" in said["auto"]
    assert model.card.recipe == "auto" and model.calibration is not None and model.n_train == 7000
    points = curve.of_model(tmp_path / "m")
    assert {point["stage"] for point in points} >= {*QUICK}
    assert all(point["documents"] == point["step"] and 0 <= point["P@5"] <= 100 for point in points)
    alone = treetop.fit("auto", large, settings={"candidates": ["xr_linear"]})
    plain = treetop.fit("xr_linear", large)
    texts = toy.dataset(5).texts
    one, other = alone.rank(texts, 5), plain.rank(texts, 5)
    assert np.array_equal(one.ids, other.ids) and np.array_equal(one.score, other.score)
    assert alone.card.data["auto"] == "nothing was tried"


def test_a_run_of_auto_that_is_continued_tries_nothing_again(monkeypatch, tmp_path):
    from treetop.recipes import auto

    kept = Job(0, "cpu", tmp_path)
    config = auto.Config(candidates=QUICK)
    first = auto.fit(toy.dataset(), config, kept)
    monkeypatch.setattr(Adviser, "advise", lambda self: pytest.fail("tried again"))
    assert auto.fit(toy.dataset(), config, kept).card.data == first.card.data


def advised(monkeypatch, *sources):
    """`auto` whose trials say that these recipes are best."""
    chosen = Advice(None, (), Choice(Estimate(sources, 1.0, True), "told"), 60.0, 0.0)
    monkeypatch.setattr(Adviser, "advise", lambda self: chosen)
    monkeypatch.setattr(auto, "lines", lambda advice: [])
    monkeypatch.setattr(auto, "card_line", lambda advice: "told")


def test_auto_takes_the_first_candidate_where_its_choice_would_not_end(monkeypatch, tmp_path, caplog):
    advised(monkeypatch, "neighbours")
    taken = []

    def late(dataset, config, job):
        taken.append(deadline.seconds_for_steps())
        with deadline.ending(stop=time.monotonic() - 1):
            deadline.check("neighbours")

    monkeypatch.setattr(neighbours, "fit", late)
    started = time.monotonic()
    model = treetop.fit(
        "auto", toy.dataset(), settings={"candidates": list(QUICK)}, budget="time=60s", out=tmp_path / "m"
    )
    assert model.card.data["chosen"] == "xr_linear" and 30 < taken[0] < 60 and time.monotonic() - started < 60
    assert "neighbours would not end within the budget; xr_linear is trained instead" in caplog.text


def test_the_first_candidate_is_never_cut_off(monkeypatch):
    advised(monkeypatch, "xr_linear")
    job = Job(0, "cpu", None, {"time": 1e-3}, ends=time.monotonic() - 1)
    assert auto.fit(toy.dataset(), auto.Config(candidates=QUICK), job).card.data["chosen"] == "xr_linear"


@pytest.mark.parametrize("sources", [("xr_linear",), QUICK])
def test_without_time_for_it_held_out_documents_stay_out(monkeypatch, caplog, large, sources):
    advised(monkeypatch, *sources)
    kept, out = holdout(large, 0.1, 3)
    train, held_out = large.take(kept), large.take(out)
    job = Job(0, "cpu", None, {"time": 1e-3}, ends=time.monotonic(), held_out=held_out, everything=large)
    if len(sources) > 1:
        model = blend.fit(train, blend.Config(sources=sources), job)
    else:
        model = auto.fit(train, auto.Config(candidates=sources), job)
    assert model.n_train == len(train) < len(large) and model.calibration is not None
    assert "no time to train once more" in caplog.text


def test_a_trial_that_takes_all_the_time_of_trials_is_given_up(monkeypatch):
    adviser = Adviser(toy.dataset(n=300), Job(0, "cpu"), {"time": 600.0}, names=("popular", "neighbours"))

    fit = neighbours.fit

    def slow(dataset, config, job):
        time.sleep(0.02)
        deadline.check("slow")
        return fit(dataset, config, job)

    monkeypatch.setattr(neighbours, "fit", slow)
    monkeypatch.setattr(Adviser, "_limit", lambda self, clock: 0.01)
    adviser.advise()
    assert adviser.trials[("popular",)] and not adviser.trials[("neighbours",)]
