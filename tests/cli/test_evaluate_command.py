from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import toy
import treetop
import treetop.model
from treetop.cli.compare import compare
from treetop.cli.evaluate import evaluate
from treetop.core import store
from treetop.core.card import Card
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError, InputError, ModelError, ResourceError, WorkError
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.evaluate import per_label
from treetop.evaluate.score import evaluate_model

METRICS = ("P", "R", "nDCG", "PSP", "PSnDCG", "C", "macroF1", "microF1")


class Stub:
    """Ranks labels by training count, or against it."""

    def __init__(self, name: str) -> None:
        data = toy.dataset()
        self.labels, self.n_train = data.labels, len(data)
        self.counts = np.bincount(data.Y.indices, minlength=len(self.labels))
        self.card = Card(name)
        self.sign = -1 if name == "reverse" else 1

    calibration = fusion = None
    members = ((),)

    def probabilities(self, ranking):
        return None

    def log_remarks(self, dataset, name):
        pass

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
    monkeypatch.setattr(treetop.model, "load", lambda path, **_: Stub(Path(path).name))
    monkeypatch.setattr(store, "check_folder", lambda path: None)
    monkeypatch.setattr(Dataset, "read", lambda path, split, strict=False, **_: toy.dataset(seed=1))

    def call(*words: str, code: int = 0, columns: str | None = "120"):
        result = CliRunner().invoke(app, list(words), env={"COLUMNS": columns})
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


def test_a_label_file_is_replaced_only_when_asked(run, tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(WorkError, match=r"labels.csv: exists already.*--overwrite"):
        run("evaluate", "forward", "toy", "--per-label", str(file))
    assert file.read_text(encoding="utf-8") == "mine"
    run("evaluate", "forward", "toy", "--per-label", str(file), "--overwrite")
    assert file.read_text(encoding="utf-8").startswith("id,name")


def test_a_label_file_spoils_no_data(run, tmp_path):
    data = tmp_path / "test.jsonl"
    data.write_text("mine", encoding="utf-8")
    for source, file in ((data, data), (tmp_path, data), (tmp_path, tmp_path / "labels.jsonl")):
        with pytest.raises(ConfigError, match="is inside the folder of the data"):
            run("evaluate", "forward", str(source), "--per-label", str(file), "--overwrite")
    run("evaluate", "forward", str(data), "--per-label", str(tmp_path / "l.csv"))
    assert data.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l.csv", "test.jsonl"]


def test_a_label_file_that_breaks_off_leaves_nothing(run, tmp_path, monkeypatch):
    def broken(matches):
        yield dict.fromkeys(per_label.COLUMNS, "1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(per_label, "label_rows", broken)
    with pytest.raises(ResourceError, match=r"l\.csv: could not be written \(No space left on device\); nothing was"):
        run("evaluate", "forward", "toy", "--per-label", str(tmp_path / "l.csv"))
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize(("columns", "room"), [("100", 100), ("120", 120), (None, 120), ("400", 400)])
def test_compare_fits_many_models_into_the_window(run, columns, room):
    names = [f"model-{i}" for i in range(5)] + ["reverse"]
    shown = run("compare", "toy", *names, columns=columns)
    found = json.loads(run("compare", "toy", *names, "--json", columns=columns))
    lines = shown.splitlines()
    assert max(map(len, lines)) <= room
    heads = [line.split() for line in lines if "model-" in line or "reverse" in line][:-1]  # the last is the footnote
    assert [word for head in heads for word in head if word not in ("difference", "p")] == names
    assert len(heads) == 1 if room == 400 else len(heads) > 1
    rows = [line for line in lines if line.split()[:1] == ["nDCG@5"]]
    assert len(rows) == len(heads)
    for scores in found["models"].values():
        assert f"{scores['nDCG@5']:.2f}" in " ".join(rows)
    for differences in found["differences"].values():
        assert f"{differences['nDCG@5']['value']:+.2f} (" in " ".join(rows)


def test_compare_shows_a_name_that_is_wider_than_the_window(run):
    names = ["forward", "reverse", "a-model-with-a-name-that-is-longer-than-the-window"]
    shown = run("compare", "toy", *names, columns="40")
    assert all(name in shown for name in names) and "…" not in shown


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


def test_a_report_spoils_neither_a_model_nor_another_page(run, tmp_path):
    for place in (tmp_path / "model", tmp_path / "model" / "labels" / "r"):
        (tmp_path / "model").mkdir(exist_ok=True)
        for name in ("manifest.json", "part.json"):
            (tmp_path / "model" / name).write_text("{}")
        with pytest.raises(ConfigError, match="is inside a model folder"):
            run("evaluate", "forward", "toy", "--report", str(place))
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["manifest.json", "part.json"]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<p>my own page</p>")
    with pytest.raises(ConfigError, match="not a treetop report"):
        run("compare", "toy", "forward", "reverse", "--report", str(tmp_path / "site"))
    assert "my own" in (tmp_path / "site" / "index.html").read_text()
    for _ in range(2):  # a report may take the place of an older one
        run("compare", "toy", "forward", "reverse", "--report", str(tmp_path / "r"))
        run("evaluate", "forward", "toy", "--report", str(tmp_path / "r"))


def test_compare_looks_at_every_model_before_it_works(run, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(Dataset, "read", lambda *_, **__: pytest.fail("worked before it looked"))
    with pytest.raises(ModelError, match="absent: no such model folder"):
        run("compare", "toy", str(tmp_path / "absent"))


def test_compare_names_the_model_that_lacks_labels(run, monkeypatch, caplog):
    def cut(path, **_):
        stub = Stub(Path(path).name)
        if stub.card.recipe == "reverse":
            stub.labels, stub.counts = LabelSet.of(list(stub.labels.ids)[:30]), stub.counts[:30]
        return stub

    monkeypatch.setattr(treetop.model, "load", cut)
    run("compare", "toy", "forward", "reverse")
    said = [record.getMessage() for record in caplog.records if "does not know" in record.getMessage()]
    assert len(said) == 1 and "labels reverse does not know" in said[0]


def test_compare_says_when_a_model_comes_from_other_data(run, tmp_path, monkeypatch, caplog):
    """By the hash of the data that a folder holds; by the number of documents where one of the two has none."""
    origins = {"m": ("aa", 60), "same": ("aa", 60), "swapped": ("bb", 60), "more": ("", 61), "old": ("", 60)}

    def load(path, **_):
        stub = Stub(Path(path).name)
        digest, stub.n_train = origins[Path(path).name]
        stub.card = Card("stub", data={"sha256": digest} if digest else {"name": "toy"})
        return stub

    monkeypatch.setattr(treetop.model, "load", load)
    run("compare", "toy", *origins, "--report", str(tmp_path), "-k", "1")
    said = [record.getMessage() for record in caplog.records if "other data" in record.getMessage()]
    assert [sentence.split()[0] for sentence in said] == ["swapped", "more"]
    assert "swapped was trained on other data than m: PSP may weigh" in (tmp_path / "index.html").read_text("utf-8")
    caplog.clear()
    run("compare", "toy", "old", "swapped", "more", "-k", "1")
    said = [record.getMessage() for record in caplog.records if "other data" in record.getMessage()]
    assert [sentence.split()[0] for sentence in said] == ["more"]


def test_fit_leaves_the_hash_that_compare_looks_at(tmp_path):
    data = toy.dataset()
    turned = dataclasses.replace(data, texts=Texts.of([*data.texts][::-1]))  # as many texts, labels and assignments
    for name, source in (("a", data), ("b", data), ("c", turned)):
        treetop.fit("popular", source, out=tmp_path / name)
    a, b, c = (treetop.load(tmp_path / name).card.data["sha256"] for name in "abc")
    assert a == b != c


def test_a_page_of_one_model_speaks_of_one(run, tmp_path):
    run("compare", "toy", "forward", "--report", str(tmp_path))
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "best of a row" not in html and "the first is the baseline" not in html and "★" not in html


def test_models_alike_are_said_to_be(run, tmp_path):
    run("compare", "toy", "forward", "forward", "--report", str(tmp_path))
    said = "all models have as many right on every text"
    assert said in (tmp_path / "index.html").read_text(encoding="utf-8")
    run("compare", "toy", "forward", "reverse", "--report", str(tmp_path))
    assert said not in (tmp_path / "index.html").read_text(encoding="utf-8")
