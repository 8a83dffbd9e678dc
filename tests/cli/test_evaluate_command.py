from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import toy
import treetop.model
from treetop.cli.compare import compare
from treetop.cli.evaluate import evaluate
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError, InputError
from treetop.core.types import Ranking
from treetop.evaluate.score import evaluate_model

METRICS = ("P", "R", "nDCG", "PSP", "PSnDCG", "C", "macroF1", "microF1")


class Stub:
    """Ranks labels by training count, or against it."""

    def __init__(self, name: str) -> None:
        data = toy.dataset()
        self.labels, self.n_train = data.labels, len(data)
        self.counts = np.bincount(data.Y.indices, minlength=len(self.labels))
        self.card = treetop.model.Card(name)
        self.sign = -1 if name == "reverse" else 1

    def rank_dataset(self, dataset, k):
        order = np.argsort(-self.sign * self.counts, kind="stable")[:k].astype(np.int32)
        n, ids = len(dataset), np.tile(order, len(dataset))
        scores = np.tile(-np.arange(len(order), dtype=np.float32), n)
        return Ranking(np.arange(0, len(ids) + 1, len(order), dtype=np.int64), ids, scores, scores)


@pytest.fixture
def run(monkeypatch, tmp_path):
    app = typer.Typer()
    app.command()(evaluate)
    app.command()(compare)
    monkeypatch.setattr(treetop.model, "load", lambda path: Stub(Path(path).name))
    monkeypatch.setattr(Dataset, "read", lambda path, split, strict=False, **_: toy.dataset(seed=1))

    def call(*words: str, code: int = 0):
        result = CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})
        if code == 0 and result.exception:
            raise result.exception
        return result.stdout

    return call


def test_json_is_the_same_as_the_api(run):
    found = json.loads(run("evaluate", "forward", "toy", "--json"))
    for metric in METRICS:
        assert all(f"{metric}@{k}" in found for k in (1, 3, 5, 10))
    assert {"name", "labels", "P@5_share", "R@10"} <= found["bins"][0].keys()
    again = evaluate_model(Stub("forward"), toy.dataset(seed=1)).to_dict()
    assert found == json.loads(json.dumps(again))
    low, high = found["intervals"]["P@1"]
    assert low <= found["P@1"] <= high


def test_table_report_and_label_file(run, tmp_path):
    shown = run("evaluate", "forward", "toy", "--report", str(tmp_path / "r"), "--per-label", str(tmp_path / "l.csv"))
    scores = evaluate_model(Stub("forward"), toy.dataset(seed=1))
    assert f"{scores['nDCG@5']:.2f}" in shown and "share of P@5" in shown and "volume 5" in shown
    assert "forward on toy (test)" in (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "l.csv").read_text(encoding="utf-8").startswith("id,name,train_count")


def test_cuts_and_no_intervals(run):
    found = json.loads(run("evaluate", "forward", "toy", "--json", "-k", "7,2", "--no-intervals"))
    assert found["intervals"] == {} and "P@7" in found and "P@1" not in found
    with pytest.raises(ConfigError, match="-k: 'five' is not a list of numbers from 1 to 1000"):
        run("evaluate", "forward", "toy", "-k", "five")
    with pytest.raises(InputError, match="unknown ending '.pdf'"):
        run("evaluate", "forward", "toy", "--per-label", "labels.pdf")


def test_compare_puts_models_side_by_side(run):
    found = json.loads(run("compare", "toy", "forward", "reverse", "--json"))
    assert found["against"] == "forward" and list(found["models"]) == ["forward", "reverse"]
    row = found["differences"]["reverse"]["P@5"]
    assert row["value"] == pytest.approx(found["models"]["reverse"]["P@5"] - found["models"]["forward"]["P@5"])
    assert row["value"] < 0 and row["interval"][1] < 0 and row["p"] < 0.01
    shown = run("compare", "toy", "forward", "reverse")
    assert "forward" in shown and "reverse" in shown and f"{row['value']:+.2f}" in shown


def test_compare_writes_a_page_with_texts(run, tmp_path):
    target = tmp_path / "r" / "index.html"
    shown = run("compare", "toy", "forward", "reverse", "--report", str(target.parent), "--json", "-k", "1,3")
    found, html = json.loads(shown), target.read_text(encoding="utf-8")
    assert "<h1>2 models on toy (test)</h1>" in html and html.count("<article>") == 10
    value = found["differences"]["reverse"]["P@3"]["value"]
    assert f"{value:+.2f}<small>" in html and f"{found['models']['forward']['P@3']:.2f}" in html
    assert max(len(block.split("<li ")) - 1 for block in html.split("<ol>")[1:]) == 3  # no more than the largest k
    run("compare", "toy", "forward", "reverse", "--report", str(target.parent), "-k", "1,3")
    assert target.read_text(encoding="utf-8") == html
    run("evaluate", "forward", "toy", "--report", str(tmp_path / "one"))
    assert (tmp_path / "one" / "index.html").read_text(encoding="utf-8").count("<article>") == 10


def test_compare_tells_equal_names_apart(run):
    found = json.loads(run("compare", "toy", "a/forward", "b/forward", "a/forward", "--json"))
    assert list(found["models"]) == ["a/forward", "b/forward", "a/forward (3)"]
    assert found["differences"]["a/forward (3)"]["P@1"] == {"value": 0.0, "interval": [0.0, 0.0], "p": 1.0}
