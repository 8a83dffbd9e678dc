"""`treetop calibrate`, a learnt `treetop blend`, and what `treetop predict` makes of probabilities."""

import json
import logging
import math

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import toy
import treetop
from treetop.assemble.held_out.scores import calibrated
from treetop.cli import blend, calibrate, evaluate, explain, labels, predict, verify
from treetop.core.errors import InputError, TreetopError
from treetop.core.sealed import unseal

app = typer.Typer()
for command in (blend.blend, calibrate.calibrate, evaluate.evaluate, explain.explain, predict.predict, verify.verify):
    app.command()(command)
app.add_typer(labels.app, name="labels")


def run(*words, text=None):
    return CliRunner().invoke(app, list(map(str, words)), input=text)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two models, 600 documents they were not trained on, and both joined by a learnt fusion, calibrated."""
    folder = tmp_path_factory.mktemp("calibrate")
    for name, recipe in (("xr_linear",) * 2, ("neighbours",) * 2, ("plain", "xr_linear")):
        treetop.fit(recipe, toy.dataset(n=300), out=folder / name)
    (folder / "data").mkdir()
    toy.write_rows(toy.dataset(1, n=600), folder / "data/valid.jsonl")
    toy.write_rows(toy.dataset(2, n=200), folder / "data/test.jsonl")
    done = run(
        "blend", folder / "xr_linear", folder / "neighbours", "--out", folder / "both", "--held-out", folder / "data"
    )
    assert done.exit_code == 0, done.output
    toy.write_rows(toy.dataset(5, n=700), folder / "more.jsonl")
    done = run("calibrate", folder / "both", folder / "more.jsonl", "--split", "train", "--out", folder / "sure")
    assert done.exit_code == 0 and done.stdout == f"{folder}/sure\n", done.output
    return folder


def answers(home, model, *options):
    text = "".join(f"{t}\n" for t in toy.dataset(2, n=200).texts)
    done = run("predict", home / model, "-", *options, text=text)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def true_labels():
    data = toy.dataset(2, n=200)
    return [{data.labels.ids[c] for c in data.Y[row].indices} for row in range(len(data))]


def test_a_learnt_blend_is_no_worse_than_its_models_and_opens_again(home):
    test = toy.dataset(4, n=1000)
    both = treetop.load(home / "both", check="full")
    alone = [treetop.load(home / name).evaluate(test, resamples=0)["P@1"] for name in ("xr_linear", "neighbours")]
    assert both.evaluate(test, resamples=0)["P@1"] >= max(alone) - 1.0
    assert both.fusion is not None and both.card.config["how"] == "learnt, balanced"
    both.check_golden()
    assert run("verify", home / "both").exit_code == 0


def test_calibrating_changes_no_score_and_keeps_the_run(home):
    before, after, none = (answers(home, name) for name in ("both", "sure", "plain"))
    assert [row["scores"] for row in before] == [row["scores"] for row in after]
    assert all(p is None for row in none for p in row["probabilities"])
    assert all(0 <= p <= 1 for row in (*before, *after) for p in row["probabilities"])
    assert run("calibrate", home / "xr_linear", home / "data").exit_code == 0  # in place
    assert unseal(home / "xr_linear/run.json")["seconds"] > 0
    assert treetop.load(home / "xr_linear", check="full").predict("cat dogs")[0].probability is not None


def test_a_threshold_leaves_out_what_is_less_likely(home):
    every, some = answers(home, "sure"), answers(home, "sure", "--threshold", 0.5)
    for one, other in zip(every, some, strict=True):
        kept = [p >= 0.5 for p in one["probabilities"]]
        assert other["ids"] == [label for label, keep in zip(one["ids"], kept, strict=True) if keep]


def test_precision_and_recall_are_reached_on_new_documents(home):
    truth = true_labels()
    rows = answers(home, "sure", "--precision", 0.7)
    hits = [label in true for row, true in zip(rows, truth, strict=True) for label in row["ids"]]
    assert len(hits) > 50 and np.mean(hits) > 0.62
    rows = answers(home, "sure", "--recall", 0.8)
    recall = [len(set(row["ids"]) & true) / len(true) for row, true in zip(rows, truth, strict=True)]
    assert np.mean(recall) == pytest.approx(0.8, abs=0.06)


def test_a_precision_never_reached_prints_no_labels_and_says_so(home):
    model = treetop.load(home / "sure")
    assert model.predict("cat dogs", threshold=math.inf) == []
    done = run("predict", home / "sure", "-", "--precision", 1.0, text="cat dogs\n")
    assert done.exit_code == 0


def test_best_f1_takes_the_threshold_of_the_held_out_documents(home):
    lowest = treetop.load(home / "sure").calibration.threshold_for_f1()
    rows, wide = answers(home, "sure", "--best-f1"), answers(home, "sure", "-k", 100)
    kept = [[p for p in row["probabilities"] if p >= lowest] for row in wide]
    assert [row["probabilities"] for row in rows] == kept and any(kept)
    both = run("predict", home / "sure", "-", "--best-f1", "--recall", 0.8, text="cat\n")
    assert "Give one of them" in str(both.exception)
    bare = run("predict", home / "plain", "-", "--best-f1", text="cat\n")
    assert "not calibrated" in str(bare.exception)


def test_texts_without_a_known_word_are_marked_and_counted(home, tmp_path):
    text = "cat dogs\nzzxqy\n?!\n"
    done = run("predict", home / "sure", "-", text=text)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row.get("unknown") for row in rows] == [None, True, True] and all(row["ids"] for row in rows)
    assert "2 of 3 texts have no word the model knows" in done.stderr
    for option in ("--threshold", "--precision", "--recall"):
        done = run("predict", home / "sure", "-", option, 0.1, text=text)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [bool(row["ids"]) for row in rows] == [True, False, False]
    assert "no word" not in run("predict", home / "sure", "-", text="cat dogs\n").stderr
    done = run("predict", home / "sure", "-", "--threshold", 0.0, "--out", tmp_path / "t.csv", text=text)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "id,text,ids,labels,scores,probabilities" and lines[2] == ",zzxqy,,,,"


def test_evaluate_prints_f1_at_thresholds(home):
    shown = run("evaluate", home / "sure", home / "data").stdout
    assert "labels by probability" in shown and "best F1 on held-out" in shown
    found = json.loads(run("evaluate", home / "sure", home / "data", "--json").stdout)
    assert [row["name"] for row in found["thresholds"]] == ["half", "best F1"]
    assert "by probability" not in run("evaluate", home / "plain", home / "data").stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["predict", "{home}/plain", "-", "--threshold", "0.5"], "not calibrated"),
        (["calibrate", "{home}/both", "{home}/data"], "fusion was fitted on these documents"),
        (["predict", "{home}/sure", "-", "--threshold", "0.5", "--precision", "0.5"], "Give one of them"),
        (["predict", "{home}/sure", "-", "--recall", "0.9999"], "out of reach"),
        (["predict", "{home}/sure", "-", "--precision", "1.5"], "out of range"),
        (["calibrate", "{home}/both", "{home}/data", "--split", "test"], "at least 500"),
        (["calibrate", "{home}/both", "{home}/data", "--out", "{home}/sure"], "exists already"),
        (["blend", "{home}/both", "{home}/neighbours", "--out", "{home}/x"], "cannot be averaged with others"),
        (["blend", "{home}/both", "{home}/neighbours", "--out", "{home}/x", "--weights", "1,2", "--held-out",
          "{home}/data"], "not both"),
        (["blend", "{home}/both", "{home}/neighbours", "--out", "{home}/x", "--aim", "zzz", "--held-out",
          "{home}/data"], "--aim"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(home, words, reason):
    done = run(*(word.format(home=home) for word in words))
    assert isinstance(done.exception, TreetopError) and reason in str(done.exception), done.output


def test_rows_of_the_training_are_refused(home):
    model = treetop.fit("popular", toy.dataset(n=600))
    with pytest.raises(InputError, match="trained on rows of this data"):
        calibrated(model, toy.dataset(n=600))
    most = treetop.load(home / "neighbours")  # trained on the first 300 of these
    with pytest.raises(InputError, match="trained on rows of this data"):
        calibrated(most, toy.dataset(n=700))
    with pytest.raises(InputError, match="trained on rows of this data"):
        treetop.blend([home / "xr_linear", home / "neighbours"], held_out=toy.dataset(n=700))


def warnings_of(caplog, home, model, data, *options):
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="treetop"):
        assert run("evaluate", home / model, data, "--json", *options).exit_code == 0
    return [line for line in caplog.messages if "slightly too good" in line]


def test_evaluate_warns_of_the_documents_that_the_probabilities_are_from(home, tmp_path, caplog):
    both, more = tmp_path / "both", home / "more.jsonl"
    both.mkdir()
    toy.write_rows(toy.dataset(n=300), both / "train.jsonl")
    toy.write_rows(toy.dataset(1, n=600), both / "valid.jsonl")
    treetop.fit(
        "xr_linear", treetop.Dataset.read(both), held_out=treetop.Dataset.read(both, "valid"), out=home / "fitted"
    )
    (line,) = warnings_of(caplog, home, "fitted", both, "--split", "valid")
    assert "was calibrated on these texts" in line
    assert not warnings_of(caplog, home, "fitted", more)
    assert run("calibrate", home / "fitted", more, "--split", "train", "--out", home / "again").exit_code == 0
    (line,) = warnings_of(caplog, home, "again", more)
    assert "was calibrated on these texts" in line and "calibrated_on" in (home / "again/README.md").read_text()
    assert not warnings_of(caplog, home, "again", both, "--split", "valid")
    assert len(warnings_of(caplog, home, "fitted", both, "--split", "valid")) == 1  # the first model stays as it was


def test_evaluate_warns_of_the_documents_that_a_fusion_is_from(home, caplog):
    (line,) = warnings_of(caplog, home, "sure", home / "data", "--split", "valid")  # calibrated on others since
    assert "the fusion of" in line and "was learned on these texts" in line
    (line,) = warnings_of(caplog, home, "sure", home / "more.jsonl")
    assert "was calibrated on these texts" in line
    assert not warnings_of(caplog, home, "both", home / "more.jsonl")


def test_a_blend_is_not_calibrated_on_the_documents_of_its_models(home, tmp_path, caplog):
    model, more = tmp_path / "model", home / "more.jsonl"
    assert run("calibrate", home / "plain", more, "--split", "train", "--out", model).exit_code == 0
    treetop.blend([model, home / "neighbours"], held_out=treetop.Dataset.read(home / "data", "valid")).save(
        home / "joined"
    )
    assert not warnings_of(caplog, home, "joined", more)
    assert len(warnings_of(caplog, home, "joined", home / "data", "--split", "valid")) == 1


def test_probabilities_may_be_fitted_to_the_same_documents_again(home, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert run("calibrate", home / "sure", home / "more.jsonl", "--split", "train", "--out", first).exit_code == 0
    assert run("calibrate", first, home / "more.jsonl", "--split", "train", "--out", second).exit_code == 0
    assert treetop.load(second).card == treetop.load(first).card == treetop.load(home / "sure").card


def test_labels_of_a_fused_model_can_be_changed(home):
    model = treetop.load(home / "sure")
    first = model.predict("cat dogs")[0]
    retired = model.retire_labels([first.id])
    assert first.id not in [label.id for label in retired.predict("cat dogs", k=40)]
    assert all(label.probability is not None for label in retired.predict("cat dogs"))
    merged = model.merge_labels({first.id: model.labels.ids[5]})
    assert model.labels.ids[5] in [label.id for label in merged.predict("cat dogs", k=3)]
    assert retired.restore_labels([first.id]).predict("cat dogs") == model.predict("cat dogs")


def test_a_fused_model_in_a_blend_gives_each_of_its_sources(home):
    more = treetop.blend([home / "both", home / "xr_linear"], held_out=toy.dataset(3, n=600))
    assert [n for n, _ in more.fusion.sources] == [1, 1, 1]
    assert len(more.predict("cat dogs")) == 5 and more.calibration.documents == 600


def test_probabilities_of_a_learnt_blend_hold_on_new_documents(home):
    both = treetop.blend([home / "xr_linear", home / "neighbours"], held_out=toy.dataset(3, n=1300))
    assert both.calibration.documents == 1300
    test = toy.dataset(4, n=1000)
    ranking = both.rank_dataset(test, 3)
    rows = np.repeat(np.arange(len(test)), np.diff(ranking.indptr))
    right = np.asarray(test.Y[rows, ranking.ids]).ravel() > 0
    assert both.probabilities(ranking).mean() == pytest.approx(right.mean(), abs=0.03)
