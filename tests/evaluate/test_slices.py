from __future__ import annotations

import numpy as np
import pytest

from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.dataset import LabelSet
from treetop.evaluate.score import score
from treetop.evaluate.slices import equal_volume


@pytest.mark.parametrize("seed", range(4))
def test_shares_of_each_cut_add_up_to_precision(seed):
    found = score(*random_case(seed).arguments, resamples=0)
    for cut in ("frequency", "volume"):
        rows = [row for row in found.bins if row["cut"] in (cut, "both")]
        assert sum(row["P@5_share"] for row in rows) == pytest.approx(found["P@5"], abs=1e-9)
        assert sum(row["labels"] for row in rows) == 40
        assert sum(row["positives"] for row in rows) == found.counts["positives"]


def test_bins_by_hand():
    counts = np.array([500, 101, 100, 11, 10, 1, 0])
    ranking = ranking_of([{0: 5.0, 2: 4.0, 3: 3.0, 5: 2.0}, {0: 5.0, 1: 4.0, 4: 3.0}])
    dataset = dataset_of([{0: 1.0, 3: 1.0, 4: 1.0, 6: 1.0}, {1: 1.0, 4: 0.2, 7: 1.0}], 8)  # 7: unknown to the model
    rows = {row["name"]: row for row in score(ranking, dataset, counts, 1000, resamples=0).bins}
    assert list(rows) == ["head", "torso", "tail", *(f"volume {i}" for i in range(1, 6)), "unseen"]
    assert [rows[name]["labels"] for name in ("head", "torso", "tail", "unseen")] == [2, 2, 2, 2]
    assert [rows[name]["P@5_share"] for name in ("head", "torso", "tail", "unseen")] == pytest.approx([20, 10, 10, 0])
    assert [rows[name]["R@10"] for name in ("head", "torso", "tail", "unseen")] == pytest.approx([100, 100, 50, 0])
    assert rows["tail"]["train_counts"] == [1, 10] and rows["unseen"]["positives"] == 2


def test_volumes_are_equal_and_ordered():
    rng = np.random.default_rng(0)
    counts = np.minimum(rng.zipf(1.5, 3000), 60).astype(np.int64)
    counts[:50] = 0
    bins = equal_volume(counts, LabelSet.of([str(i) for i in range(3000)]))
    assert (bins[:50] == -1).all()
    volumes = np.array([counts[bins == b].sum() for b in range(5)])
    assert np.abs(volumes - counts.sum() / 5).max() <= 60  # one label's worth
    for b in range(4):
        assert counts[bins == b].min() >= counts[bins == b + 1].max()
    assert (np.diff([(bins == b).sum() for b in range(5)]) >= 0).all()


def test_equally_frequent_labels_are_split_by_id_not_by_column():
    ids = [f"x{i}" for i in range(50)]
    bins = equal_volume(np.ones(50, np.int64), LabelSet.of(ids))
    order = np.random.default_rng(1).permutation(50)
    moved = equal_volume(np.ones(50, np.int64), LabelSet.of([ids[i] for i in order]))
    assert np.array_equal(moved, bins[order])
    assert np.bincount(bins).tolist() == [10] * 5


def test_no_label_seen():
    assert (equal_volume(np.zeros(3, np.int64), LabelSet.of(["a", "b", "c"])) == -1).all()
