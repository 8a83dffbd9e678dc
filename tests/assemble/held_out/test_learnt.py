"""Fusion and calibration learnt on held-out documents: isotonic rates, weights, and what the fusion reaches."""

from dataclasses import replace

import numpy as np
import pytest

from treetop.assemble.held_out.boosted import learn_boosted
from treetop.assemble.held_out.calibration import learn_calibration
from treetop.assemble.held_out.fusion import learn_fusion
from treetop.assemble.held_out.judged import Judged, positions
from treetop.assemble.held_out.logistic import alone, learn_logistic, non_negative
from treetop.assemble.held_out.rising import rising, rising_rate
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.predict.fuse.boosted import Boosted
from treetop.predict.fuse.fuse import Fusion, probability
from treetop.predict.fuse.logistic import Logistic

N, LABELS = 1200, 40


@pytest.fixture(scope="module")
def world():
    """Documents whose labels two noisy sources see from two sides; frequencies differ."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    truth = rng.normal(size=(N, LABELS)) + np.linspace(0.5, -1.5, LABELS)
    Y = sparse.csr_matrix((truth > 1.2).astype(np.float32))
    sources = []
    for noise in (0.7, 0.9):
        scores = (1 / (1 + np.exp(-(truth + noise * rng.normal(size=truth.shape))))).astype(np.float32)
        best = np.argsort(-scores, axis=1)[:, :20]
        indptr = np.arange(0, 20 * N + 1, 20)
        sources.append(
            Ranking.sorted(indptr, best.ravel().astype(np.int32), np.take_along_axis(scores, best, 1).ravel())
        )
    labels = LabelSet.of([f"L{i:02d}" for i in range(LABELS)])
    dataset = Dataset(Texts.of([f"text {i}" for i in range(N)]), Y, labels)
    counts = np.asarray(Y.sum(0)).ravel().astype(np.int64)
    return sources, dataset, counts


def half(world, first):
    """One half of the documents, judged."""
    sources, dataset, counts = world
    rows = np.arange(N // 2) if first else np.arange(N // 2, N)
    cut = [Ranking.concat([_row(s, r) for r in rows]) for s in sources]
    return cut, Judged.of(cut, dataset.take(rows), counts, N), dataset.take(rows)


def _row(ranking, r):
    a, b = ranking.indptr[r], ranking.indptr[r + 1]
    return Ranking(np.array([0, b - a]), ranking.ids[a:b], ranking.score[a:b], ranking.own[a:b])


def slow_rising(value, weight):
    """By the definition: max over starts of min over ends of weighted means."""
    n = len(value)

    def mean(a, b):
        return float(np.dot(value[a:b], weight[a:b]) / weight[a:b].sum())

    return [max(min(mean(a, b) for b in range(i + 1, n + 1)) for a in range(i + 1)) for i in range(n)]


@pytest.mark.parametrize("seed", range(4))
def test_pooling_gives_the_isotonic_regression(seed):
    rng = np.random.default_rng(seed)
    value, weight = rng.random(12), rng.random(12) + 0.1
    np.testing.assert_allclose(rising(value, weight), slow_rising(value, weight))


def test_rates_rise_and_stay_between_0_and_1_on_odd_scores():
    one = np.ones(50, np.float32)
    for score in (np.zeros(50), np.linspace(0, 1, 50), np.repeat([1.0, 2.0], 25)):
        for hit in (np.zeros(50), np.ones(50), np.arange(50) % 2):
            x, rate = rising_rate(score.astype(np.float32), hit.astype(np.float32), one, 20)
            assert len(x) == len(rate) == 20 and (np.diff(x) >= 0).all() and (np.diff(rate) >= 0).all()
            assert rate.min() > 0 and rate.max() < 1


def test_non_negative_weights_are_the_minimum_under_the_constraint():
    from scipy.optimize import minimize

    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(500, 3)), np.ones(500)])
    y = (X @ [1.0, -0.7, 0.2, -0.5] + rng.logistic(size=500) > 0).astype(np.float32)
    signed = np.array([True, True, True, False])
    found = non_negative(X, y, np.ones(500, np.float32), signed)

    def loss(w):
        z = X @ w
        return float((np.logaddexp(0, z) - y * z).sum() + 0.5e-3 * w @ w)

    best = minimize(loss, np.zeros(4), bounds=[(0, None)] * 3 + [(None, None)])
    assert found[1] == 0 and (found[:3] >= 0).all()
    np.testing.assert_allclose(found, best.x, atol=2e-3)


def test_places_break_ties_by_label(world):
    _, judged, _ = half(world, True)
    place = positions(judged.pairs, np.zeros(len(judged.pairs)))
    starts = judged.pairs.indptr[:-1]
    assert (place[starts] == 0).all() and (judged.pairs.ids[starts + 1] > judged.pairs.ids[starts]).all()


def test_filtered_pairs_are_not_judged(world):
    sources, dataset, counts = world
    import dataclasses

    barred = np.array([[0, int(sources[0].ids[0])]])
    rows = dataclasses.replace(dataset, filter_pairs=barred)
    judged = Judged.of(sources, rows, counts, N)
    assert barred[0, 1] not in judged.pairs.ids[: judged.pairs.indptr[1]]


def test_sampled_negatives_stand_for_those_left_out(world):
    _, judged, _ = half(world, True)
    some = judged.sampled(0)
    assert some.hit.sum() == judged.hit.sum()
    assert some.weight.sum() == pytest.approx(len(judged.hit), rel=0.1)


@pytest.mark.parametrize("learn", [learn_logistic, learn_boosted])
def test_a_higher_score_never_lowers_a_label(world, learn):
    counts = world[2]
    _, judged, _ = half(world, True)
    fusion = learn(judged, counts)
    import dataclasses

    pairs = judged.pairs
    before = fusion.logits(pairs, counts)
    for s in range(2):
        score = pairs.score.copy()
        score[:, s] = np.minimum(score[:, s] + 0.05, pairs.best[pairs.rows, s])
        assert (fusion.logits(dataclasses.replace(pairs, score=score), counts) >= before - 1e-5).all()


@pytest.mark.parametrize("aim", ["balanced", "precision", "tail"])
def test_a_fusion_is_better_than_each_source_on_new_documents(world, aim):
    counts = world[2]
    _, judged, _ = half(world, True)
    learnt = learn_fusion(judged, counts, N, (0.55, 1.5), aim, 0)
    lists, new, _ = half(world, False)
    single = [new.quality(new.pairs.score[:, s]) for s in range(2)]
    fusion = Fusion(learnt.fusion, ((1, "average"), (1, "average")))
    ranking = fusion.rank(lists, (), counts, 20)
    p = probability(learnt.fusion.logits(new.pairs, counts))
    found = new.quality(learnt.fusion.rarity.lifted(p, new.pairs.indptr, new.pairs.ids, counts))
    if aim != "tail":
        assert found.p1 > max(a.p1 for a in single) - 0.005 and found.p5 > max(a.p5 for a in single)
    if aim != "precision":
        assert found.psp5 > max(a.psp5 for a in single)
    assert (
        np.diff(ranking.score)[np.diff(np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr))) == 0] <= 0
    ).all()


@pytest.mark.parametrize("learn", [learn_logistic, learn_boosted])
def test_fusions_are_stored(world, learn):
    counts = world[2]
    _, judged, _ = half(world, True)
    fusion = Fusion(learn(judged, counts), ((1, "average"), (1, "average")))
    again = Fusion.from_part(fusion.to_part())
    assert type(again.scorer) in (Logistic, Boosted) and again.sources == fusion.sources
    assert np.array_equal(again.scorer.logits(judged.pairs, counts), fusion.scorer.logits(judged.pairs, counts))


def test_calibrated_probabilities_hold_on_new_documents(world):
    counts = world[2]
    lists, _, rows = half(world, True)
    judged = Judged.of(lists[:1], rows, counts, N)
    calibration = learn_calibration(judged, counts, np.diff(rows.Y.indptr))
    lists, new, rows = half(world, False)
    new = Judged.of(lists[:1], rows, counts, N)
    p = calibration.probabilities(new.pairs.score[:, 0], counts[new.pairs.ids])
    for chunk in np.array_split(np.argsort(p, kind="stable"), 10):
        assert p[chunk].mean() == pytest.approx(new.hit[chunk].mean(), abs=0.06)
    cut = calibration.threshold_for_precision(0.7)
    assert new.hit[p >= cut].mean() == pytest.approx(0.7, abs=0.06)
    low = calibration.threshold_for_recall(0.5)
    positives = np.diff(rows.Y.indptr)
    recall = np.bincount(new.pairs.rows, new.hit * (p >= low), len(rows)) / np.maximum(positives, 1)
    assert recall[positives > 0].mean() == pytest.approx(0.5, abs=0.05)


def test_too_few_documents_are_refused(world):
    counts = world[2]
    _lists, judged, rows = half(world, True)
    with pytest.raises(InputError, match="at least 500"):
        learn_calibration(judged, counts, np.diff(rows.Y.indptr)[:100])


def test_a_source_that_knows_nothing_does_not_spoil_the_other(world):
    """Where no fusion is better, the best source is kept with its ranking."""
    sources, dataset, counts = world
    rng = np.random.default_rng(5)
    noise = Ranking.sorted(sources[0].indptr, sources[0].ids, rng.random(len(sources[0].ids)).astype(np.float32))
    judged = Judged.of([sources[0], noise], dataset, counts, N)
    learnt = learn_fusion(judged, counts, N, (0.55, 1.5), "precision", 0)
    single = judged.quality(judged.pairs.score[:, 0])
    assert learnt.quality.p1 >= single.p1 and learnt.quality.p5 >= single.p5
    kept = judged.quality(alone(judged, 0).logits(judged.pairs, counts))
    assert kept == pytest.approx(single, abs=1e-3)


@pytest.mark.parametrize("right", [False, True])
def test_where_no_label_or_every_label_is_right_probabilities_say_so(world, right):
    sources, dataset, counts = world
    judged = Judged.of(sources[:1], dataset, counts, N)
    sure = learn_calibration(replace(judged, hit=np.full(len(judged.hit), right, np.float32)), counts, np.full(N, 20))
    p = sure.probabilities(judged.pairs.score[:, 0], counts[judged.pairs.ids])
    assert (p > 0.9).all() if right else (p < 0.1).all()
    assert (sure.threshold_for_precision(0.9) is not None) == right
    nothing = Judged.of([Ranking.concat([_empty()] * N)], dataset, counts, N)
    with pytest.raises(InputError, match="returns no label for any"):
        learn_calibration(nothing, counts, np.full(N, 2))


def _empty():
    return Ranking(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32))


def test_labels_a_source_did_not_return_come_behind_those_it_did(world):
    """A source of one label each, all with the same score, is as good as that label, whatever others returned."""
    sources, dataset, counts = world
    first = Ranking(np.arange(N + 1), sources[0].top(1).ids, np.ones(N, np.float32), np.ones(N, np.float32))
    judged = Judged.of([first, sources[1]], dataset, counts, N)
    right = np.asarray(dataset.Y[np.arange(N), first.ids]).ravel() > 0
    learnt = learn_fusion(judged, counts, N, dataset.propensity, "balanced", 0)
    assert learnt.sources[0].p1 == pytest.approx(right.mean())
    logits = alone(judged, 0).logits(judged.pairs, counts)
    assert judged.quality(logits).p1 == pytest.approx(right.mean())
