"""`treetop blend` and what other commands say of its models."""

import json
import shutil

import pytest
import typer
from typer.testing import CliRunner

import toy
import treetop
from treetop.cli import blend, compare, evaluate, explain, labels, predict, verify
from treetop.core.errors import TreetopError
from treetop.data.write import write

app = typer.Typer()
for command in (blend.blend, compare.compare, evaluate.evaluate, explain.explain, predict.predict, verify.verify):
    app.command()(command)
app.add_typer(labels.app, name="labels")


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two models and the rows they were not trained on."""
    folder = tmp_path_factory.mktemp("blend")
    for recipe, settings in (("xr_linear", {}), ("parabel", {"tfidf": {"char_ngrams": [2, 3]}}), ("neighbours", {})):
        treetop.fit(recipe, toy.dataset(), settings=settings, out=folder / recipe)
    toy.write_rows(toy.dataset(1), folder / "test.jsonl")
    done = run("blend", folder / "xr_linear", folder / "parabel", "--out", folder / "both", "--weights", "4, 1")
    assert done.exit_code == 0 and done.stdout == f"{folder}/both\n", done.output
    return folder


def test_the_command_does_what_python_does(home):
    found = treetop.load(home / "both", check="full")
    made = treetop.blend([home / "xr_linear", home / "parabel"], (4, 1))
    texts = list(toy.dataset(1).texts)
    assert found.predict(texts) == made.predict(texts) and found.weights == made.weights
    again = run("blend", home / "xr_linear", home / "parabel", "--out", home / "both")
    assert "exists already" in str(again.exception)
    ranked = ("blend", home / "neighbours", home / "xr_linear", "--how", "rank_average", "--out", home / "ranked")
    assert run(*ranked).exit_code == 0 and run(*ranked, "--overwrite").exit_code == 0
    assert treetop.load(home / "ranked").blend == "rank_average"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "{home}/x"], "blend: 1 model. Give two or more"),
        (["{home}/xr_linear", "--out", "{home}/parabel"], "{home}/parabel: exists already"),
        (["{home}/test.jsonl", "--out", "{home}/x"], "{home}/test.jsonl: no such model folder"),
        (["{home}/neighbours", "--out", "{home}/x"], "{home}/neighbours: blend: 'average' needs scores from 0 to 1"),
        (["{home}/parabel", "--out", "{home}/x", "--how", "rank_average"], "{home}/parabel: its 3 members are blended"),
        (["{home}/parabel", "--out", "{home}/x", "--how", "mean"], "blend: unknown value 'mean'"),
        (["{home}/parabel", "--out", "{home}/x", "--weights", "4"], "weights: 1 for 2 models."),
        (["{home}/parabel", "--out", "{home}/x", "--weights", "4,-1"], "weights: -1.0 is not a weight."),
        (["{home}/parabel", "--out", "{home}/x", "--weights", "nan,1"], "weights: nan is not a weight."),
        (["{home}/parabel", "--out", "{home}/x", "--weights", "0,0"], "weights: all 2 are 0."),
        (
            ["{home}/parabel", "--out", "{home}/x", "--weights", "1,5e-324"],
            "weights: 5e-324 is too small next to 1.0 to",
        ),
        (["{home}/parabel", "--out", "{home}/x", "--weights", "9e-7,1"], "weights: 9e-07 is too small next to 1.0 to"),
        (["{home}/parabel", "--out", "{home}/x", "--weights", "5e-324,5e-324"], "weights: 5e-324 is too small next to"),
    ],
)
def test_mistakes_are_one_sentence(home, words, sentence):
    done = run("blend", home / "xr_linear", *(word.format(home=home) for word in words))
    assert isinstance(done.exception, TreetopError), done.output
    assert str(done.exception).startswith(sentence.format(home=home)) and "\n" not in str(done.exception)
    assert not (home / "x").exists()


def test_verify_evaluate_compare_and_predict(home):
    assert "intact (40 labels, 8 golden inputs with the same answers)" in run("verify", home / "both").stdout
    scores = json.loads(run("evaluate", home / "both", home / "test.jsonl", "--json").stdout)
    assert 0 < scores["P@1"] <= 100
    done = run("compare", home / "test.jsonl", home / "xr_linear", home / "both", "--report", home / "report")
    assert done.exit_code == 0 and "P@1" in done.stdout, done.output
    assert "blend of xr_linear (4), parabel (1)" in (home / "report/index.html").read_text()
    rows = run("predict", home / "both", home / "test.jsonl", "-k", 2).stdout.splitlines()
    assert len(rows) == 60 and len(json.loads(rows[0])["ids"]) == 2


def test_explain_says_where_each_member_comes_from(home):
    shown = run("explain", home / "both", "--text", "cat and horses", "-k", 1).stdout
    assert "member 1 (xr_linear, 80 %)" in shown and "member 4 (parabel, 6.67 %)" in shown
    done = run("explain", home / "ranked", "--text", "cat and horses", "-k", 1, "--json")
    (found,) = json.loads(done.stdout)
    joined = found["joined"]
    assert joined["how"] == "rank_average" and [s["recipe"] for s in joined["sources"]] == ["neighbours", "xr_linear"]
    assert sum(source["part"] for source in joined["sources"]) == pytest.approx(found["score"], rel=1e-5)


def test_labels_of_a_blend_change_but_are_not_added(home):
    (home / "new.jsonl").write_text('{"id": "new", "text": "a new label"}\n')
    done = run("labels", "add", home / "both", home / "new.jsonl")
    assert "labels add: a blend cannot place new labels" in str(done.exception)
    first = treetop.load(home / "both").predict("cat and horses", 1)[0].id
    assert run("labels", "retire", home / "both", first).exit_code == 0
    assert treetop.load(home / "both").predict("cat and horses", 1)[0].id != first
    assert "intact (40 labels, 1 label change" in run("verify", home / "both").stdout
    assert run("labels", "undo", home / "both").exit_code == 0


def test_a_damaged_model_does_not_pass_for_intact_in_a_blend(home, tmp_path):
    shutil.copytree(home / "xr_linear", tmp_path / "hurt")
    file = max(tmp_path.glob("hurt/member-*/*/rank/arrays.safetensors"))
    raw = bytearray(file.read_bytes())
    raw[-5] ^= 0x40
    file.write_bytes(raw)
    done = run("blend", home / "parabel", tmp_path / "hurt", "--out", tmp_path / "out")
    assert isinstance(done.exception, TreetopError) and "changed after the model was saved" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_into_a_model(home, tmp_path):
    for words in (
        ("blend", home / "xr_linear", home / "parabel", "--out", home / "parabel/both"),
        ("predict", home / "parabel", home / "test.jsonl", "--out", home / "parabel/manifest.json", "--overwrite"),
        ("evaluate", home / "parabel", home / "test.jsonl", "--per-label", home / "parabel/labels.csv"),
    ):
        done = run(*words)
        assert isinstance(done.exception, TreetopError) and "is inside the model folder" in str(done.exception)
    assert run("verify", home / "parabel").exit_code == 0
    with pytest.raises(TreetopError, match="is inside the model folder"):
        write(toy.dataset(), home / "parabel/data")
