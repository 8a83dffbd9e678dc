from pathlib import Path

import pytest

from treetop.core import forecast
from treetop.core.errors import ConfigError, ResourceError
from treetop.core.forecast import Forecast, available_memory, duration, parse_budget, size


def test_budgets_are_read_or_refused():
    assert parse_budget("memory=8GB, time=10min,model=50MiB") == {"memory": 8e9, "time": 600, "model": 50 * 2**20}
    assert parse_budget("") == {}
    for text, message in {
        "ram=8GB": "--budget: unknown value 'ram'. Choose one of 'memory', 'time', 'model'.",
        "memory=8": "--budget memory=8: cannot read '8'. Write a number and a unit, such as 8GB.",
        "time=.h": "--budget time=.h: cannot read '.h'. Write a number and a unit, such as 10min.",
    }.items():
        with pytest.raises(ConfigError) as caught:
            parse_budget(text)
        assert str(caught.value) == message


def test_jobs_beyond_budget_or_machine_are_refused(tmp_path):
    Forecast(1e6, 1e6, 1).check({}, tmp_path / "new/model")
    with pytest.raises(ResourceError, match=r"memory: the job needs about 5.0 GB, --budget memory allows 4.0 GB"):
        Forecast(5e9, 1e6, 1).check({"memory": 4e9}, None)
    with pytest.raises(ResourceError, match="time: the job needs about 3.0 h, --budget time allows 10 min"):
        Forecast(1, 1, 3 * 3600).check({"time": 600}, None)
    with pytest.raises(ResourceError, match="this machine allows"):
        Forecast(1e18, 1, 1).check({}, None)
    with pytest.raises(ResourceError, match="of disk space needed"):
        Forecast(1, 1e18, 1).check({}, tmp_path)


def test_an_update_that_is_too_large_is_split():
    job = Forecast(memory=10e9, model=1e6, time=1.0, step=8e9, parts=2)
    for allowed, parts in ((9e9, 4), (6e9, 4), (5.9e9, 8), (2.4e9, 64)):
        with pytest.raises(ResourceError, match=f"Set train.accumulate={parts}, use"):
            job.check({"memory": allowed}, None)
        assert job.memory - job.step + job.step * job.parts / parts <= allowed
    for need, allowed in ((job, 1.9e9), (Forecast(memory=10e9, model=1e6, time=1.0), 5e9)):
        with pytest.raises(ResourceError, match="allows .*Use a smaller preset"):
            need.check({"memory": allowed}, None)


def test_numbers_are_said_in_fitting_units():
    assert [size(x) for x in (5, 1500, 2.5e6, 3e9, 7e12)] == ["5 B", "1.5 KB", "2.5 MB", "3.0 GB", "7.0 TB"]
    assert [duration(x) for x in (0.2, 30, 600, 9000)] == ["under a second", "30 s", "10 min", "2.5 h"]
    assert available_memory() > 1e8


def test_the_limits_of_control_groups_count_with_those_above_them(tmp_path, monkeypatch):
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer/memory.max").write_text("5000000\n")
    (tmp_path / "outer/memory.current").write_text("3000000\n")
    (tmp_path / "outer/memory.stat").write_text("anon 7\ninactive_file 1000000\n")
    (inner / "memory.max").write_text("max\n")
    lines, read = "1:name=systemd:/x\n0::/outer/inner\n", Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, **how: lines if str(self) == "/proc/self/cgroup" else read(self, **how)
    )
    monkeypatch.setitem(forecast.GROUPS, "", (tmp_path, *forecast.GROUPS[""][1:]))
    assert available_memory() == 3e6
    (inner / "memory.max").write_text("100000")
    (inner / "memory.current").write_text("90000")
    (inner / "memory.stat").write_text("")
    assert available_memory() == 10_000


def test_forecasts_are_for_the_device_that_is_named():
    assert forecast.device() == "auto"
    with forecast.for_device("cuda:1"):
        assert forecast.device() == "cuda:1"
    assert forecast.device() == "auto"
