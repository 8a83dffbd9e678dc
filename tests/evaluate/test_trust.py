import numpy as np
import pytest

import toy
import treetop
from ranking_cases import dataset_of, random_case, ranking_of
from treetop.evaluate import trust
from treetop.evaluate.match import Matches, match
from treetop.evaluate.score import score_matches


def sure(seed, **options):
    """A random case with probabilities that have many ties."""
    case = random_case(seed, **options)
    p = np.random.default_rng(seed).integers(0, 11, len(case.ranking.ids)).astype(np.float32) / 10
    return case, p, Matches.of(*case.arguments, probabilities=p, f1_threshold=0.3)


def plain(case, p):
    """(document, label, probability, right?) of every allowed prediction, and its rank."""
    made = []
    for row, (barred, true) in enumerate(zip(case.barred, case.true, strict=True)):
        a, b = case.ranking.indptr[row : row + 2]
        entries = zip(case.ranking.ids[a:b].tolist(), p[a:b].tolist(), strict=True)
        kept = [(label, x) for label, x in entries if label not in barred][:10]
        made += [(row, label, x, label in true, rank) for rank, (label, x) in enumerate(kept)]
    return made


@pytest.mark.parametrize("seed", range(4))
def test_probabilities_stand_beside_their_labels(seed):
    case, p, matches = sure(seed)
    expected = {(row, label): x for row, label, x, _, _ in plain(case, p)}
    found = {
        (row, int(label)): float(x)
        for row in range(len(matches))
        for label, x in zip(matches.top[row], matches.probability[row], strict=True)
        if label >= 0
    }
    assert found == pytest.approx(expected) and (matches.probability[matches.top < 0] == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_f1_at_thresholds_is_that_of_plain_sets(seed):
    case, p, matches = sure(seed)
    rows = {row["name"]: row for row in trust.at_thresholds(matches)}
    assert list(rows) == ["half", "best F1"] and rows["best F1"]["threshold"] == 0.3
    for row in rows.values():
        kept = [(d, label, right) for d, label, x, right, _ in plain(case, p) if x >= np.float32(row["threshold"])]
        hits, true = sum(right for *_, right in kept), sum(map(len, case.true))
        assert row["microF1"] == pytest.approx(200 * hits / (len(kept) + true))
        assert row["labels_per_document"] == pytest.approx(len(kept) / len(case.true))
        every = []
        for label in set().union(*case.true):
            mine = [right for _, other, right in kept if other == label]
            every.append(2 * sum(mine) / (len(mine) + sum(label in true for true in case.true)))
        assert row["macroF1"] == pytest.approx(100 * np.mean(every))


def test_accepting_for_a_precision_takes_the_lowest_threshold_that_has_it():
    case, p, matches = sure(1, rows=400)
    first = [(x, right) for _, _, x, right, rank in plain(case, p) if rank < trust.FIRST]
    for wanted in (5.0, 20.0, 30.0):

        def precision(t):
            return 100 * np.mean([right for x, right in first if x >= t])

        steps = [np.float32(i / 100) for i in range(101)]
        fits = [t for t in steps if sum(x >= t for x, _ in first) >= trust.FEW and precision(t) >= wanted]
        found = trust.accept_for(matches, wanted)
        if not fits:
            assert found is None
            continue
        assert found.threshold == pytest.approx(fits[0]) and found.precision == pytest.approx(precision(fits[0]))
        assert found.share == pytest.approx(100 * sum(x >= fits[0] for x, _ in first) / len(first))
    assert trust.accept_for(matches, 100.1) is None


def test_reliability_is_the_mean_gap_of_bins_of_equal_size():
    n = 3000
    p = np.random.default_rng(0).random(n).astype(np.float32)
    right = np.random.default_rng(1).random(n) < p
    ranking = ranking_of([{0: 1.0}] * n)
    data = dataset_of([{0: 1.0} if hit else {1: 1.0} for hit in right], 2)
    honest = trust.reliability(Matches.of(ranking, data, np.array([1, 1]), 9, probabilities=p))
    assert len(honest.predicted) == trust.BINS and honest.error < 4
    assert honest.predicted == sorted(honest.predicted)
    bold = trust.reliability(Matches.of(ranking, data, np.array([1, 1]), 9, probabilities=np.ones_like(p)))
    assert bold.error == pytest.approx(100 * (1 - right.mean()), abs=1e-3)
    share, precision = trust.acceptance(Matches.of(ranking, data, np.array([1, 1]), 9, probabilities=p))
    assert share[-1] == 100 and precision[-1] == pytest.approx(100 * right.mean())
    assert share == sorted(share) and precision[0] > 90


def test_without_probabilities_or_suggestions_there_is_nothing_to_say():
    case = random_case(0)
    matches = Matches.of(*case.arguments)
    assert trust.reliability(matches) is None and trust.accept_for(matches, 90) is None
    assert trust.acceptance(matches) == ([], []) and trust.at_thresholds(matches) == []
    assert "thresholds" not in score_matches(matches, resamples=0).to_dict()
    none = Matches.of(
        ranking_of([{}, {}]), dataset_of([{0: 1.0}, {}], 2), np.array([3, 0]), 10, probabilities=np.zeros(0, np.float32)
    )
    assert trust.reliability(none) is None and trust.acceptance(none) == ([], []) and trust.accept_for(none, 1) is None
    assert [row["microF1"] for row in trust.at_thresholds(none)] == [0.0]


def test_a_calibrated_model_brings_its_thresholds():
    model = treetop.fit("xr_linear", toy.dataset(n=300), held_out=toy.dataset(1, n=600))
    test = toy.dataset(2, n=200)
    half, best = model.evaluate(test, resamples=0).to_dict()["thresholds"]
    assert half["threshold"] == 0.5 and best["threshold"] == model.calibration.threshold_for_f1()
    rows = model.predict(list(test.texts), 10, threshold=0.5)
    assert half["labels_per_document"] == pytest.approx(sum(map(len, rows)) / 200)
    threshold, precision, recall = model.calibration.cuts
    f1 = [2 * a * b / max(a + b, 1e-9) for a, b in zip(precision, recall, strict=True)]
    assert max(f1) == pytest.approx(f1[int(np.flatnonzero(threshold == np.float32(best["threshold"]))[-1])])
    assert match(model, test).f1_threshold == best["threshold"]
