"""`treetop advise` and `treetop tune` on toy data."""

import json

import pytest
import typer
import yaml
from typer.testing import CliRunner

import toy
from treetop.cli import advise, fit, tune
from treetop.core.errors import ConfigError, WorkError

app = typer.Typer()
for command in (advise.advise, fit.fit, tune.tune):
    app.command()(command)


def run(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    toy.write_rows(toy.dataset(n=200), folder / "train.jsonl")
    return folder


def test_advise_prints_a_table_its_choice_and_a_command(data, tmp_path):
    words = ("advise", data, "--budget", "time=1min", "--candidates", "xr_linear,neighbours", "--device", "cpu")
    said = run(*words)
    assert "200 documents" in said and "recipe" in said and "of the budget of 60 s" in said
    command = said.splitlines()[-1]
    assert command.startswith("treetop fit ") and f"{data} --out model/" in command
    found = json.loads(run(*words, "--json"))
    assert [row["recipe"] for row in found["candidates"]] == ["xr_linear", "neighbours"]
    assert sum(row["chosen"] for row in found["candidates"]) == 1 and found["spent_s"] <= 15


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--candidates", "xr_linear,blend"], "neither auto nor blend"),
        (["--budget", "time=soon"], "cannot read 'soon'"),
        (["--device", "gpu"], "gpu"),
    ],
)
def test_mistakes_of_advise_are_told(data, words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        run("advise", data, *words)


def test_tune_writes_settings_that_fit_takes_as_a_preset(data, tmp_path):
    out = tmp_path / "best.yaml"
    words = ("tune", "neighbours", data, "--set", "k=7", "--budget", "time=10s", "--out", out, "--device", "cpu")
    said = run(*words)
    assert "defaults" in said and "documents" in said.splitlines()[0]
    assert "keep them" in said or "--set k=7 --set" in said
    chosen = yaml.safe_load(out.read_text())
    assert chosen["k"] == 7
    tried = out.with_suffix(".tries.jsonl").read_text()
    assert not any(json.loads(line)["settings"].get("k") for line in tried.splitlines()[1:])  # fixed
    assert run(*words, "--resume").splitlines()[-1] == said.splitlines()[-1]
    with pytest.raises(WorkError, match="Add --resume"):
        run(*words)
    run("fit", "neighbours", data, "--preset", out, "--out", tmp_path / "m")
    assert json.loads((tmp_path / "m/manifest.json").read_text())["config"]["k"] == 7


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["popular"], "lists no settings to try"),
        (["neighbours", "--budget", "memory=1GB"], "tune takes a time only"),
        (["neighbours", "--out", "x.json"], "ends in .yaml"),
        (["neighbours", "--aim", "all"], "--aim"),
        (["neighbours", "--preset", "missing.yaml"], "missing.yaml: cannot be read"),
    ],
)
def test_mistakes_of_tune_are_told(data, words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        run("tune", words[0], data, *words[1:])
