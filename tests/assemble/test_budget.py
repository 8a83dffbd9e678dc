import logging
import re

import pytest

import toy
import treetop
from treetop.assemble.probe import _further, part_bytes
from treetop.core.errors import ResourceError
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.training import plan

SETTINGS = {"tree": {"max_leaf": 5, "branching": 2}, "tfidf": {"min_df": 1}}


def bytes_below(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.fixture(scope="module")
def data():
    return toy.dataset(n=2000)


def test_models_fit_the_budget_and_the_cost_is_told(data, tmp_path, caplog):
    treetop.fit("xr_linear", data, settings=SETTINGS, out=tmp_path / "free")
    free = bytes_below(tmp_path / "free")
    caplog.set_level(logging.INFO, "treetop")
    for share in (0.9, 0.75, 0.62):
        limit = int(free * share)
        out = tmp_path / f"m{limit}"
        model = treetop.fit("xr_linear", data, settings=SETTINGS, budget=f"model={limit}B", out=out)
        assert bytes_below(out) <= limit
        (told,) = (message for message in caplog.messages if message.startswith("budget:"))
        said = re.search(r"P@5 on ([\d,]+) held-out texts .* \([+-][\d.]+ ± [\d.]+\)", told)
        caplog.clear()
        assert said is not None and 900 < int(said[1].replace(",", "")) < 1100  # half of the 2,000
        assert model.predict(data.texts[0], k=1)


def test_an_impossible_budget_is_refused_with_numbers(data):
    with pytest.raises(ResourceError, match=r"model: .*(no room for weights|is the least found)"):
        treetop.fit("xr_linear", data, settings=SETTINGS, budget="model=20KB")
    with pytest.raises(ResourceError, match=r"model: the job needs about .*, --budget model allows 1 B"):
        treetop.fit("popular", data, budget="model=1B")


def test_weights_stay_within_the_room_memory_leaves(data, caplog):
    planned = plan("xr_linear", settings=SETTINGS)
    free = sum(part_bytes(level.rank.to_part()) for level in planned.module.fit(data, planned.config, Job()).members[0])
    caplog.set_level(logging.INFO, "treetop")
    fixed = 300_000  # labels and vocabulary of the toy corpus take less
    model = planned.module.fit(data, planned.config, Job(budget={"weights": fixed + 0.5 * free}))
    assert sum(part_bytes(level.rank.to_part()) for level in model.members[0]) < fixed + 0.5 * free
    assert any("weights for each function; P@5 on" in record.getMessage() for record in caplog.records)
    with pytest.raises(ResourceError, match="memory: no room for the weights of"):
        planned.module.fit(data, planned.config, Job(budget={"weights": 10.0}))


def test_a_probe_follows_the_growth_of_the_model():
    assert _further([100.0, 200.0, 400.0], 3.0) == pytest.approx(200 * 2 * 7)  # doubles with every doubling
    assert _further([100.0, 100.0, 100.0], 5.0) == 0.0
    needs = Forecast(0, 0, 1.0, copies=2.0, beside=100.0, floor=150.0).sized(10.0)
    assert needs.memory == 150.0 and needs.sized(100.0).memory == 300.0
    assert needs.model_within(200.0) == 50.0 and needs.model_within(140.0) == 0.0


def test_a_probe_measures_real_samples(caplog):
    caplog.set_level(logging.INFO, "treetop")
    data = toy.dataset(n=8000)
    planned = plan("xr_linear", settings=SETTINGS)
    guess, measured = planned.forecast(data), planned.forecast(data, probe=True)
    assert not caplog.records  # the trainings of the probe say nothing
    model = planned.module.fit(data, planned.config, Job())
    real = sum(part_bytes(level.rank.to_part()) for level in model.members[0])
    assert abs(measured.model - real) < abs(guess.model - real)
