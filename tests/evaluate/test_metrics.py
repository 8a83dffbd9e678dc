from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import slow_metrics
from ranking_cases import Case, dataset_of, random_case, ranking_of
from treetop.core.dataset import LABEL_TEXT, LabelSet
from treetop.core.errors import ConfigError, InputError
from treetop.core.types import Ranking
from treetop.evaluate.match import Matches
from treetop.evaluate.metrics import curves, rates
from treetop.evaluate.propensity import inverse_propensity
from treetop.evaluate.score import score

KS = (1, 3, 5, 10)


def slow_values(case: Case, ks=KS) -> dict[str, float]:
    a, b = case.dataset.propensity
    wide = [*case.counts.tolist(), *[0] * (case.dataset.n_labels - len(case.counts))]
    w = [slow_metrics.weight(count, case.n_train, a, b) for count in wide]
    ranked = [slow_metrics.rank(row, barred) for row, barred in zip(case.scores, case.barred, strict=True)]
    return {name: value for k in ks for name, value in slow_metrics.metrics(ranked, case.true, w, k).items()}


def close(found: dict[str, float], wanted: dict[str, float]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name


@pytest.mark.parametrize("seed", range(25))
def test_all_metrics_equal_the_slow_version(seed):
    case = random_case(seed)
    close(score(*case.arguments, resamples=0).values, slow_values(case))


def test_cuts_beyond_ten_and_out_of_order():
    case = random_case(3)
    found = score(*case.arguments, ks=(20, 2, 2), resamples=0)
    close(found.values, slow_values(case, (2, 20)))


def test_perfect_rankings_reach_one_hundred():
    true = [{label: 1.0 for label in range(row, row + 12)} for row in range(8)]
    counts = np.arange(1, 21)[::-1].copy()  # later labels are rarer: the best order is descending
    case = [ranking_of([{label: float(label) for label in row} for row in true]), dataset_of(true, 20), counts, 100]
    found = score(*case, resamples=0)
    for k in KS:
        for name in ("P", "nDCG", "PSP", "PSnDCG"):
            assert found[f"{name}@{k}"] == pytest.approx(100, abs=1e-9)


def test_one_label_each():
    true = [{row: 1.0} for row in range(6)]
    ranking = ranking_of([{row: 9.0, **{label: 1.0 for label in range(10) if label != row}} for row in range(6)])
    found = score(ranking, dataset_of(true, 10), np.ones(10, np.int64), 100, resamples=0)
    assert found["P@5"] == pytest.approx(20) and found["nDCG@5"] == pytest.approx(100)
    assert found["nDCG@1"] == found["P@1"] == pytest.approx(100)


def test_psp_with_equal_weights_is_hits_over_attainable_hits_not_precision():
    case = random_case(11)
    found = score(case.ranking, case.dataset, np.full(36, 7), 1000, resamples=0)
    case.counts = np.full(36, 7)
    matches = Matches.of(*case.arguments)
    same = dataclasses.replace(matches, weights=np.full(40, 2.5))
    psp = rates(same.sums(np.array([5])), len(same), [5])["PSP@5"]
    best = sum(min(5, len(row)) for row in case.true)
    assert psp == pytest.approx(100 * same.hits[:, :5].sum() / best, abs=1e-9)
    assert abs(psp - found["P@5"]) > 1


def test_propensity_check_value():
    assert 1 / inverse_propensity(np.array([1]), 50, 0.55, 1.5)[0] == pytest.approx(0.2556222, abs=1e-7)
    weights = inverse_propensity(np.array([0, 1, 10, 1000]), 5000, 0.55, 1.5)
    assert (np.diff(weights) < 0).all() and weights[-1] > 1
    assert (inverse_propensity(np.array([0, 5]), 2, 0.55, 1.5) == 1).all()  # too few documents for the formula


def test_sums_of_shards_add_up_and_means_of_shards_do_not():
    case = random_case(5)
    whole = Matches.of(*case.arguments)
    cuts = np.array(KS)
    shards, rankings = [], []
    for rows in (np.arange(30), np.arange(30, 120)):
        part = case.dataset.take(rows)
        rankings.append(ranking_of([case.scores[row] for row in rows]))
        shards.append(Matches.of(rankings[-1], part, case.counts, case.n_train))
    total = rates(shards[0].sums(cuts) + shards[1].sums(cuts), len(whole), KS)
    expected = rates(whole.sums(cuts), len(whole), KS)
    close({k: float(v) for k, v in total.items()}, {k: float(v) for k, v in expected.items()})
    joined = score(Ranking.concat(rankings), *case.arguments[1:], resamples=0)
    close(joined.values, score(*case.arguments, resamples=0).values)
    means = [float(rates(shard.sums(cuts), len(shard), KS)["PSP@5"]) for shard in shards]
    assert abs(np.mean(means) - float(expected["PSP@5"])) > 1e-3


@pytest.mark.parametrize("seed", [0, 1])
def test_permuting_labels_changes_nothing(seed):
    """All scores differ here: with ties the order of labels is the tie break and must matter."""
    case = random_case(seed)
    scores = [{label: float(i) for i, label in enumerate(row)} for row in case.scores]
    known, rng = len(case.counts), np.random.default_rng(seed)
    move = np.concatenate([rng.permutation(known), known + rng.permutation(40 - known)])
    back = np.argsort(move)
    Y = case.dataset.Y[:, back].tocsr()
    pairs = case.dataset.filter_pairs
    pairs = np.column_stack([pairs[:, 0], move[pairs[:, 1]]])
    labels = LabelSet.of([case.dataset.labels.ids[int(i)] for i in back])
    other = dataclasses.replace(case.dataset, Y=Y, labels=labels, filter_pairs=pairs)
    moved = ranking_of([{int(move[label]): x for label, x in row.items()} for row in scores])
    a = score(ranking_of(scores), *case.arguments[1:], resamples=50)
    b = score(moved, other, case.counts[back[:known]], case.n_train, resamples=50)
    close(a.values, b.values)
    assert a.bins == b.bins and a.counts == b.counts
    for name, interval in a.intervals.items():
        assert interval == pytest.approx(b.intervals[name], abs=1e-9)


def test_only_documents_count():
    case = random_case(2)
    roles = np.zeros(len(case.dataset), np.uint8)
    roles[::3] = LABEL_TEXT
    mixed = score(case.ranking, dataclasses.replace(case.dataset, roles=roles), case.counts, case.n_train, resamples=0)
    rows = np.flatnonzero(roles == 0)
    alone = score(
        ranking_of([case.scores[row] for row in rows]), case.dataset.take(rows), case.counts, case.n_train, resamples=0
    )
    close(mixed.values, alone.values)


def test_repeated_predictions_count_once():
    ranking = Ranking(np.array([0, 3]), np.array([1, 1, 2], np.int32), np.ones(3, np.float32), np.ones(3, np.float32))
    found = score(ranking, dataset_of([{1: 1.0, 2: 1.0}], 3), np.ones(3, np.int64), 10, resamples=0)
    assert found["P@3"] == pytest.approx(200 / 3) and found["R@3"] == 100


def test_nothing_to_find_gives_zero():
    found = score(ranking_of([{0: 1.0}, {}]), dataset_of([{}, {}], 2), np.ones(2, np.int64), 10, resamples=20)
    assert set(found.values.values()) == {0.0}
    assert found.counts["documents_without_labels"] == 2


def test_counts_name_what_was_evaluated():
    case = random_case(4)
    counts = score(*case.arguments, resamples=0).counts
    tested = set().union(*case.true)
    assert counts["documents"] == 120 and counts["positives"] == sum(map(len, case.true))
    assert counts["labels_tested"] == len(tested)
    assert counts["labels_tested_unknown"] == len([label for label in tested if label >= 36])
    assert counts["labels_tested_unseen"] == len([x for x in tested if x >= 36 or case.counts[x] == 0])


def test_curves_pass_through_the_scores():
    case = random_case(6)
    found = score(*case.arguments, resamples=0)
    drawn = curves(Matches.of(*case.arguments))
    for name in ("P", "R", "nDCG", "PSP"):
        for k in KS:
            assert drawn[name][k - 1] == pytest.approx(found[f"{name}@{k}"], abs=1e-9)
    assert drawn["best P"][4] == pytest.approx(100 * np.mean([min(len(t), 5) for t in case.true]) / 5)


def test_refusals_are_sentences():
    case = random_case(7)
    with pytest.raises(InputError, match="the ranking has 120 rows, data has 10"):
        score(case.ranking, case.dataset.take(np.arange(10)), case.counts, 10)
    with pytest.raises(InputError, match=r"41 training counts for 40 labels.*Dataset.align"):
        score(case.ranking, case.dataset, np.ones(41, np.int64), 10)
    with pytest.raises(InputError, match="names a label outside the 40 columns"):
        score(ranking_of([{40: 1.0}] * 120), case.dataset, case.counts, 10)
    with pytest.raises(ConfigError, match="k must be numbers from 1 to 1000"):
        score(*case.arguments, ks=(0, 1))
    with pytest.raises(InputError, match="no documents to evaluate on"):
        score(ranking_of([]), case.dataset.take(np.arange(0)), case.counts, 10)
