"""The contract of executors, and that a job gives the same bytes whatever runs its shards."""

import numpy as np
import pytest

import toy
from elsewhere import Elsewhere
from treetop.core.executor import executor, threads
from treetop.core.executor.executor import LOCAL, current, cut, using
from treetop.training import fit


def add(shard, offset, more):
    return shard + offset + more


def fails(shard):
    if shard == 3:
        raise ValueError("shard 3")
    return shard


@pytest.mark.parametrize("pieces", [1, 2, 7, 256])
def test_cut_covers_all_items_in_order(pieces):
    rng = np.random.default_rng(pieces)
    for costs in (
        rng.integers(0, 9, 50), np.zeros(5), np.ones(3), np.array([1e300, 1.0, 0.0]), np.array([7]),
        rng.random(1000) ** 8, np.full(4, -1.0),
    ):  # fmt: skip
        ranges = cut(costs, pieces)
        assert [i for a, b in ranges for i in range(a, b)] == list(range(len(costs)))
        assert len(ranges) <= pieces and all(a < b for a, b in ranges)
    assert cut(np.zeros(0), pieces) == []


def test_cut_shares_the_cost():
    costs = np.sort(np.random.default_rng(0).random(2000))[::-1]
    shares = [costs[a:b].sum() for a, b in cut(costs, 8)]
    assert len(shares) == 8 and max(shares) < 1.05 * min(shares)


@pytest.mark.parametrize("make", [lambda: LOCAL, lambda: Elsewhere(1), lambda: Elsewhere(5)])
def test_results_come_in_the_order_of_shards(make):
    here = make()
    assert here.run(add, range(20), here.share(100), 1000) == [1100 + i for i in range(20)]
    assert here.run(add, (i for i in range(3)), 1, 2) == [3, 4, 5]
    assert here.run(add, [], 1, 2) == []
    with pytest.raises(ValueError, match="shard 3"):
        here.run(fails, range(6))
    assert here.on_each_node(int, "7") == [7]


def test_the_executor_in_use_ends_with_its_block():
    other = Elsewhere()
    with using(other):
        assert current() is other
        with pytest.raises(ValueError), using(LOCAL):
            raise ValueError
        assert current() is other
    assert current() is LOCAL and not LOCAL.remote and LOCAL.cores == threads.count()


SETTINGS = {
    "xr_linear": {"tree": {"max_leaf": 4, "branching": 3}, "linear": {"negatives": "tfn+man"}, "trees": 2},
    "bonsai": {"tree": {"max_leaf": 4, "branching": 3}},
    "parabel": {"tree": {"max_leaf": 4}},
    "extremetext": {"tree": {"max_leaf": 4}},
    "dismec": {"linear": {"block_size": 9}},
}


@pytest.mark.parametrize("recipe", SETTINGS)
def test_a_model_has_the_same_bytes_wherever_shards_run(recipe, tmp_path, monkeypatch):
    from treetop.features.tfidf.grams import Cutter
    from treetop.predict import beam, shards

    monkeypatch.setattr(Cutter, "block", 200)  # bytes of text: several blocks of so few texts
    monkeypatch.setattr(beam, "ROWS", 7)
    monkeypatch.setattr(shards, "ROWS", 7)
    data, models, calls = toy.dataset(n=120), {}, set()
    for name, here in {"threads": LOCAL, "one": Elsewhere(1), "many": Elsewhere(40)}.items():
        with using(here):
            fit(recipe, data, settings=SETTINGS[recipe], calibrate=False).save(tmp_path / name)
        models[name] = {
            file.relative_to(tmp_path / name): file.read_bytes()
            for file in (tmp_path / name).rglob("*")
            if file.is_file() and file.name != "run.json"
        }
        calls |= {work for work, n in here.calls if n > 1} if here.remote else set()
    assert models["one"] == models["threads"] and models["many"] == models["threads"]
    assert {"_count", "_solve"} <= calls
    if recipe != "dismec":
        assert calls & {"_split", "_grouped"}


def test_rankings_are_the_same_wherever_shards_run(monkeypatch):
    from treetop.predict import shards

    monkeypatch.setattr(shards, "ROWS", 5)
    data = toy.dataset(n=120)
    model = fit("xr_linear", data, settings=SETTINGS["xr_linear"], calibrate=False)
    here, alone = Elsewhere(3), model.rank_dataset(data, 4)
    with using(here):
        shared, scores = model.rank_dataset(data, 4), model.evaluate(data, resamples=0)
    assert ("_ranked", 12) in here.calls
    for field in ("indptr", "ids", "own", "score"):
        np.testing.assert_array_equal(getattr(alone, field), getattr(shared, field))
    assert scores.values == model.evaluate(data, resamples=0).values
    assert executor.current() is LOCAL
