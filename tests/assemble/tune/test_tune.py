"""Successive halving: what is proposed, how many on which rung, that defaults stay, and that a search goes on."""

import json

import numpy as np
import pytest

import toy
from treetop.assemble.advise.clock import Clock
from treetop.assemble.advise.judging import folds
from treetop.assemble.advise.trials import Bench, Trial
from treetop.assemble.tune import space
from treetop.assemble.tune.halving import Search, best, judged, planned_rungs, table
from treetop.assemble.tune.tries import Tries, Try
from treetop.core import registry
from treetop.core.config import merged
from treetop.core.errors import ConfigError, ResourceError, WorkError
from treetop.core.work import Job
from treetop.training import plan

VALUES = {"k": [1, 20, 100], "power": [1.0, 3.0]}
JOB = {"recipe": "neighbours", "data": "x"}


class Fake(Bench):
    """Trials without training: a second per thousand documents, hits by the settings."""

    def run(self, name, plan, size):
        TIME[0] += size / 1000
        RAN.append((name, size))
        right = 0.7 if plan.config.k == 20 else 0.5
        hits = (np.random.default_rng(1).random((400, 3)) < right).astype(float)
        return Trial(name, size, hits, size / 1000, 0.0)


TIME, RAN = [0.0], []


def search(tries=None, seconds=60.0, n=3000):
    data = toy.dataset(n=n)
    bench = Fake(data, folds(data, 0), Job(), Clock(seconds, lambda: TIME[0]), lambda: TIME[0])
    return Search(bench, lambda changes: plan("neighbours", settings=space.nested(changes)), VALUES, tries or Tries())


@pytest.mark.parametrize("recipe", [name for name in registry.names("recipe") if space.constant(name, "TUNES", {})])
def test_every_listed_setting_exists_and_its_default_is_among_the_values(recipe):
    pytest.importorskip("torch")
    values, planned = space.space(recipe), plan(recipe)
    for name, listed in values.items():
        assert len(listed) > 1, name
        for value in listed:
            plan(recipe, settings=merged({}, space.nested({name: value})))
        assert space.value_of(planned.settings, name) in listed, (name, space.value_of(planned.settings, name))


def test_recipes_without_a_list_are_refused_with_those_that_have_one():
    with pytest.raises(ConfigError, match="tune: 'popular' lists no settings to try. Recipes that do: neighbours, "):
        space.space("popular")


def test_proposals_start_with_the_defaults_then_single_changes_then_combinations():
    now = plan("neighbours").settings
    made = space.proposals(VALUES, now, 20, 0)
    assert made[0] == {} and sorted(map(len, made[1:4])) == [1, 1, 1] and len(made) == 6  # all there are
    assert len({space.key(each) for each in made}) == len(made)
    assert made == space.proposals(VALUES, now, 20, 0) and space.proposals(VALUES, now, 1, 0) == [{}]
    assert (
        space.as_words({"tfidf.ngrams": [1, 3], "x": "a", "y": None})
        == "--set tfidf.ngrams=[1,3] --set x=a --set y=null"
    )


def test_rungs_and_tries_fit_the_budget():
    for budget in (0.0, 1.0, 20.0, 300.0):
        sizes, count = planned_rungs([500, 2000, 8000], 1.0, budget)
        assert sizes[0] == 500 and 2 <= count <= 60
        assert budget < 5 or count * len(sizes) <= budget
    assert planned_rungs([500, 2000, 8000], 1.0, 300.0)[0] == [500, 2000, 8000]
    assert planned_rungs([500, 2000, 8000], 1.0, 30.0)[0] == [500, 2000]


@pytest.mark.parametrize("seconds", [0.7, 2.0, 8.0, 60.0])
def test_a_search_stays_within_its_budget_and_keeps_the_defaults_on_every_rung(seconds):
    TIME[0] = 0.0
    made = search(seconds=seconds)
    ranked = made.run()
    assert TIME[0] <= seconds or len(made.tries.done) == 1
    for size in {t.size for t in made.tries.done}:
        assert made.tries.find({}, size) is not None
    if seconds == 60.0:
        assert best(ranked).settings["k"] == 20 and ranked[0].size == max(t.size for t in made.tries.done)
        assert ranked[0].gain > 0.2 and "k=20" in "\n".join(table(made.tries.done))


def test_no_time_at_all_is_refused():
    with pytest.raises(ResourceError, match="not even the defaults"):
        search(seconds=0.0).run()


def test_chance_is_no_winner():
    def one(gain, error, settings):
        return Try(settings, 500, 0.5, 0.5, 1.0, gain, error, 1.0)

    assert best([one(0.01, 0.01, {"k": 20}), one(0.0, 0.0, {})]) is None
    assert best([one(0.0, 0.0, {}), one(-0.1, 0.01, {"k": 20})]) is None
    assert best([one(0.05, 0.01, {"k": 20})]).settings == {"k": 20}
    same = Trial("t", 500, np.ones((10, 3)), 1.0, 1.0)
    assert judged({"k": 1}, same, same, "tail").gain == 0.0


def test_an_interrupted_search_goes_on_and_another_is_refused(tmp_path):
    TIME[0] = 0.0
    file = tmp_path / "best.tries.jsonl"
    whole = search(Tries.open(file, JOB)).run()
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:4]) + "\n" + lines[4][:20])  # killed while it wrote
    TIME[0], RAN[:] = 0.0, []
    again = Tries.open(file, JOB, resume=True)
    assert len(again.done) == 3
    file.write_text("\n".join(lines[:4]) + "\n")
    assert search(again).run() == whole and len(RAN) < len(lines)
    assert len(file.read_text().splitlines()) == len(lines)
    with pytest.raises(WorkError, match="an earlier search exists. Add --resume"):
        Tries.open(file, JOB)
    with pytest.raises(WorkError, match="of other data or settings"):
        Tries.open(file, JOB | {"data": "y"}, resume=True)
    assert json.loads(lines[0]) == JOB
