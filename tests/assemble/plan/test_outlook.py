"""Plans: forecasts of data that are not there, what more cores and machines change, rates, and refusals."""

import dataclasses
import json
from functools import partial

import pytest

import toy
from treetop.assemble.plan import rates as rates_module
from treetop.assemble.plan.imagined import Size, imagined
from treetop.assemble.plan.outlook import Machines, outlook
from treetop.assemble.plan.rates import load_rates, measure
from treetop.cli.main import app
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.partition.balanced import BalancedConfig
from treetop.training import plan

RATES = load_rates()
LARGE = Size(1e8, 1e7, 32)


def test_imagined_data_have_sizes_and_take_no_memory():
    data = imagined(LARGE, bytes_per_token=6.5, described=0.5)
    assert len(data) == 1e8 and data.n_labels == 1e7 and data.Y.nnz == 5e8
    assert len(data.texts.blob) == 1e8 * 32 * 6.5 and len(data.label_counts) == 1e7
    assert data.texts.blob.strides == (0,) and data.labels.names.blob.strides == (0,)


@pytest.mark.parametrize("recipe", ["xr_linear", "parabel", "dismec", "neighbours"])
def test_a_forecast_of_imagined_data_is_that_of_real_data(recipe):
    real = toy.dataset(n=300)
    words = sum(len(text.split()) for text in real.texts)
    size = Size(300, 40, words / 300, real.Y.nnz / 300)
    there = imagined(size, bytes_per_token=len(real.texts.blob) / words, described=0.6)
    mine, other = (plan(recipe).forecast(data) for data in (real, there))
    assert other.memory == pytest.approx(mine.memory, rel=0.05)
    assert other.time == pytest.approx(mine.time, rel=0.05)


def test_more_cores_take_less_time_and_no_less_work():
    needs = [outlook(plan("xr_linear"), LARGE, Machines(1, cores), RATES) for cores in (1, 2, 16, 64)]
    assert [n.seconds for n in needs] == sorted((n.seconds for n in needs), reverse=True)
    assert len({round(n.cpu) for n in needs}) == 1 and needs[0].seconds == pytest.approx(needs[0].cpu)
    first = next(stage for stage in needs[-1].stages if stage.name == "level 1")
    assert first.seconds == first.cpu  # its nodes are solved together, by one core
    assert needs[-1].network == 0.0 and needs[-1].memory_worker == 0.0


def test_more_machines_send_more_and_each_holds_what_is_shared():
    one, four, eight = (outlook(plan("xr_linear"), LARGE, Machines(n, 16), RATES) for n in (1, 4, 8))
    assert 0.0 == one.network < four.network < eight.network
    assert one.memory < four.memory == eight.memory and 0.0 < four.memory_worker < four.memory
    slow = outlook(plan("xr_linear"), LARGE, Machines(4, 16, network=1.25e8), RATES)
    assert slow.seconds - four.seconds == pytest.approx(four.network * (1 / 1.25e8 - 1 / 1.25e9))


def test_settings_and_sizes_count():
    def seconds(size=LARGE, calibrate=True, **settings):
        return outlook(plan("xr_linear", settings=settings), size, Machines(1, 8), RATES, calibrate=calibrate).seconds

    assert 1.7 < seconds() / seconds(calibrate=False) < 2.0
    assert 1.5 < seconds(trees=3) / seconds() < 3.0
    for smaller in (Size(5e7, 1e7, 32), Size(1e8, 1e6, 32), Size(1e8, 1e7, 16), Size(1e8, 1e7, 32, 2.0)):
        assert seconds(smaller) < seconds()
    flat = outlook(plan("xr_linear"), Size(1e4, 50, 10, 1.0), Machines(), RATES)
    assert flat.predict > 0 and "label clusters" in [stage.name for stage in flat.stages]


@pytest.mark.parametrize("recipe", ["xr_linear", "parabel", "bonsai", "extremetext", "dismec", "popular", "lexical"])
def test_linear_recipes_have_an_outlook(recipe):
    for size in (Size(1e3, 1e2, 5), Size(1e6, 1e5, 12), LARGE):
        found = outlook(plan(recipe), size, Machines(2, 4), RATES)
        assert found.seconds >= 0 and found.memory > 1e6 and found.disk > found.model > 0


def test_networks_are_planned_by_their_own_forecast():
    pytest.importorskip("torch")
    size = Size(1e6, 1e5, 20)
    cpu, gpu = (outlook(plan("renee"), size, Machines(1, 2, gpus), RATES) for gpus in (0, 8))
    real = plan("renee").forecast(imagined(size, bytes_per_token=RATES.bytes_per_token, described=0.5))
    assert cpu.seconds == pytest.approx(real.time) and gpu.seconds < cpu.seconds / 100
    several = outlook(plan("renee"), size, Machines(4, 2, 8), RATES)
    assert several.network is None and several.memory_worker == several.memory and several.predict is None


@pytest.mark.parametrize("recipe", ["auto", "blend", "gandalf+xr_linear"])
def test_recipes_that_look_into_data_are_refused(recipe):
    with pytest.raises(ConfigError, match="looks into the data"):
        outlook(dataclasses.replace(plan("xr_linear"), recipe=recipe), LARGE, Machines(), RATES)


@pytest.mark.parametrize("field", ["documents", "labels", "tokens", "labels_per_document"])
def test_sizes_out_of_range_are_refused(field):
    for value in (0, -1, 1e14, float("nan")):
        with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')}: .* is out of range"):
            dataclasses.replace(LARGE, **{field: value})


def test_rates_are_measured_kept_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(Dataset, "read", staticmethod(lambda name: toy.dataset(n=200)))
    monkeypatch.setattr(rates_module, "BalancedConfig", partial(BalancedConfig, max_leaf=3, branching=3))
    found = measure()
    assert all(value > 0 for name, value in vars(found).items() if name != "source")
    assert found.gpu == RATES.gpu and found.source["data"] == ["wordnet", "metamath"]
    found.save_to(tmp_path / "rates.json")
    assert load_rates(tmp_path / "rates.json") == found
    for damaged in ("", "[]", '{"read": 1.0}'):
        (tmp_path / "bad.json").write_text(damaged)
        with pytest.raises(ConfigError):
            load_rates(tmp_path / "bad.json")


def test_the_command_says_it_all(capsys, tmp_path):
    words = ["plan", "xr_linear", "--documents", "1e8", "--labels", "1e7", "--tokens", "32", "--machines", "16"]
    app([*words, "--cores", "64", "--price", "3"], standalone_mode=False)
    out = capsys.readouterr().out
    assert "100,000,000 texts of 32 words, 10,000,000 labels, 5 on a text; 16 × 64 cores" in out
    for part in ("time ", "memory ", "network ", "disk ", "predict ", "at 3 an hour", "plan --measure"):
        assert part in out
    app([*words, "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["machines"]["count"] == 16
    with pytest.raises(ConfigError, match="give all three"):
        app(["plan", "xr_linear", "--documents", "1e8"], standalone_mode=False)
    with pytest.raises(ConfigError, match="needs --rates"):
        app(["plan", "--measure"], standalone_mode=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        app([*words, "--rates", str(tmp_path / "no.json")], standalone_mode=False)
