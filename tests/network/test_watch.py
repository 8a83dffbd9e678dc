"""Documents looked at after every epoch: their figures are those of an evaluation, filter pairs left out."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
import toy
from toy_network import FLAT, N, cached, network
from treetop.core.types import Ranking
from treetop.core.work import Job
from treetop.evaluate.score import score
from treetop.network.watch import LEAST, MOST, Watched, rows_held_out, sample, sampled_job, watched


def seen_of(data, rows, **changes):
    views = cached(np.zeros((len(data), 2), np.float32))
    return dataclasses.replace(rows_held_out(data, views, rows), **changes)


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_an_evaluation(seed):
    rng, data = np.random.default_rng(seed), toy.dataset(n=50)
    rows = np.sort(rng.permutation(50)[:20])
    pairs = np.column_stack([rng.integers(0, 50, 60), rng.integers(0, toy.N_LABELS, 60)])
    data = dataclasses.replace(data, filter_pairs=np.unique(pairs, axis=0).astype(np.int64))
    seen = seen_of(data, rows)
    top = np.array([rng.permutation(toy.N_LABELS)[: seen.k] for _ in rows])
    top[rng.random(top.shape) < 0.1] = -1
    lengths = (top >= 0).sum(1)
    ids = top[top >= 0].astype(np.int32)
    ranking = Ranking(np.concatenate([[0], np.cumsum(lengths)]), ids, np.zeros(len(ids)), np.zeros(len(ids)))
    expected = score(ranking, data.take(rows), data.label_counts, len(data), resamples=0)
    made = seen.validation(top)
    assert made.figures == pytest.approx({name: expected[name] for name in ("P@1", "P@5", "PSP@5")})
    assert made.score == pytest.approx(np.mean([expected[name] for name in ("P@1", "P@3", "P@5")]))
    assert dataclasses.replace(seen, decides=False).validation(top).score is None


def test_nothing_ranked_and_few_labels():
    seen = seen_of(toy.dataset(n=10), np.arange(10))
    assert set(seen.validation(np.full((10, 3), -1)).figures.values()) == {0.0}
    few = dataclasses.replace(seen, counts=seen.counts[:4])
    assert few.k == 4


def test_a_sample_is_the_same_every_time_and_documents_only():
    data, beside = toy.dataset(n=50), toy.dataset(seed=1, n=MOST + 100)
    assert sample(data, Job()) is None
    made = sample(data, Job(held_out=beside))
    assert len(made) == LEAST and made.texts == sample(data, Job(held_out=beside)).texts
    again = sampled_job(data, Job(held_out=beside))
    assert sample(data, again).texts == made.texts  # so candidates can be given for it
    roles = np.ones(len(beside), np.uint8)
    assert sample(data, Job(held_out=dataclasses.replace(beside, roles=roles))) is None
    roles[3] = 0
    assert list(sample(data, Job(held_out=dataclasses.replace(beside, roles=roles))).texts) == [beside.texts[3]]


def test_rows_held_out_come_first_and_other_labels_are_not_looked_at():
    data, inputs, none = toy.dataset(n=N), cached(np.zeros((N, 2), np.float32)), np.zeros(0, np.int64)
    job = Job(held_out=toy.dataset(seed=1, n=20))
    assert watched(data, None, inputs, np.arange(4), job).decides
    assert watched(data, None, inputs, none, Job()) is None
    moved = dataclasses.replace(data, labels=dataclasses.replace(data.labels, ids=data.labels.names))
    assert watched(moved, None, inputs, none, job) is None


def test_a_network_ranks_documents_beside_its_rows():
    data = toy.dataset(n=N)
    made, views = network(FLAT, data, held_out=np.arange(N))
    beside = cached(views[::-1].copy())
    seen = Watched.of(data, beside, np.arange(N), data, decides=False)
    rows = np.arange(N)
    assert np.array_equal(made.top_labels(rows, 5, seen), made.top_labels(rows[::-1], 5))
