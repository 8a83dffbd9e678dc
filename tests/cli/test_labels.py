"""`treetop labels` as a user meets it."""

import json

import pytest
from typer.testing import CliRunner

import command
import toy
import treetop
from treetop.cli.labels import app
from treetop.core.errors import TreetopError


def run(*words):
    """The whole command, as a process of its own."""
    done = command.run(*words)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def labels(*words):
    """What a subcommand prints, in this process."""
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*words):
    with pytest.raises(TreetopError) as caught:
        labels(*words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    treetop.fit("neighbours", toy.dataset(), settings={"tfidf": {"min_df": 1}}, out=folder / "m")
    return folder


def test_retire_rename_merge_restore_list_log_and_undo(home):
    model = home / "m"
    assert labels("retire", model, "L01", "L02", "--by", "ann", "--note", "gone") == (
        f"{model}: 2 labels retired (change 1)\n"
    )
    assert "intact (40 labels, 1 label change, 8 golden inputs" in run("verify", model).stdout
    assert "1 label renamed (change 2)" in labels("rename", model, "L03", "tin and glass", "--text", "about tin")
    assert json.loads(labels("merge", model, "L04", "L05", "--into", "tin and glass", "--json"))["ids"] == [
        "L04",
        "L05",
    ]
    assert "1 label restored" in labels("restore", model, "L02")
    rows = [line.split("\t") for line in labels("list", model).splitlines()]
    assert rows[0] == ["id", "name", "status", "texts"] and len(rows) == 41
    assert [row[2] for row in rows[2:6]] == ["retired", "active", "active", "merged into L03"]
    assert rows[4][1] == "tin and glass"
    found = [json.loads(line) for line in labels("list", model, "--status", "retired", "--json").splitlines()]
    assert [row["id"] for row in found] == ["L01", "L04", "L05"] and found[1]["into"] == "L03"
    assert len(labels("list", model, "--find", "tin and").splitlines()) == 2
    log = [json.loads(line) for line in labels("log", model, "--json").splitlines()]
    assert [entry["action"] for entry in log] == ["retire", "rename", "merge", "restore"]
    assert (log[0]["who"], log[0]["note"], log[0]["number"]) == ("ann", "gone", 1)
    assert "1 label as before (change 5)" in labels("undo", model)
    assert labels("log", model).splitlines()[-1].split("  ")[3] == "undo 4"
    assert "intact (40 labels, 5 label changes, 8 golden inputs" in run("verify", model).stdout


def test_files_of_labels(home, tmp_path):
    treetop.load(home / "m").trained.save(tmp_path / "m")
    (tmp_path / "retire.csv").write_text("id,name\nL10,x\nL11,y\n")
    (tmp_path / "rename.jsonl").write_text('{"id": "L12", "name": "twelve"}\n{"id": "L13", "text": "about iron"}\n')
    (tmp_path / "merge.tsv").write_text("id\tinto\nL14\tL15\nL16\ttwelve\n")
    assert "2 labels retired" in labels("retire", tmp_path / "m", "--file", tmp_path / "retire.csv")
    assert "2 labels renamed" in labels("rename", tmp_path / "m", "--file", tmp_path / "rename.jsonl")
    assert "2 labels merged" in labels("merge", tmp_path / "m", "--file", tmp_path / "merge.tsv")
    model = treetop.load(tmp_path / "m")
    assert model.labels.names[12] == "twelve" and model.labels.texts[13] == "about iron"
    assert model.edits.merged == {14: 15, 16: 12} and model.labels.status[[10, 11, 14, 16]].all()


def test_mistakes_are_one_sentence_and_nothing_is_lost(home, tmp_path):
    treetop.load(home / "m").trained.save(tmp_path / "m")
    model = tmp_path / "m"
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "text": "a cat"}\n{"id": "b", "text": \n')
    (tmp_path / "twice.csv").write_text("id,text\na,a cat\na,a dog\n")
    (tmp_path / "noid.csv").write_text("key,text\na,a cat\n")
    (tmp_path / "new.jsonl").write_text('{"id": "a", "text": "a cat"}\n')
    (tmp_path / "into.csv").write_text("id,into\nL01,\n")
    assert "'neighbours' learns labels from training texts only" in refused("add", model, tmp_path / "new.jsonl")
    broken = refused("add", model, tmp_path / "bad.jsonl")
    assert "bad.jsonl:2: broken JSON" in broken and 'such as {"id": "cat"' in broken
    assert "twice.csv:3: label id 'a' appears twice" in refused("add", model, tmp_path / "twice.csv")
    assert "noid.csv:1: the header has no column 'id'" in refused("add", model, tmp_path / "noid.csv")
    assert "no such file" in refused("add", model, tmp_path / "nothing.jsonl")
    assert "unknown kind of file" in refused("add", model, model / "README.md")
    done = run("labels", "retire", model, "nobody")
    assert done.returncode == 2 and done.stderr == (
        "error: label 'nobody': unknown id or name. `treetop labels list` shows all.\n"
    )
    assert "label 'L010': unknown id or name. Did you mean 'L10'?" in refused("retire", model, "L010")
    (tmp_path / "some.csv").write_text("id,into\nL01,L02\nL99x,L03\n")
    (tmp_path / "into2.csv").write_text("id,into\nL01,L02\nL04,nobody\n")
    (tmp_path / "empty.jsonl").write_text("")
    for action in ("retire", "merge"):
        assert "some.csv:3: label 'L99x': unknown id or name." in refused(
            action, model, "--file", tmp_path / "some.csv"
        )
    assert "into2.csv:3: label 'nobody': unknown" in refused("merge", model, "--file", tmp_path / "into2.csv")
    assert "into2.csv:2: label 'L01': is not retired" in refused("restore", model, "--file", tmp_path / "into2.csv")
    assert "empty.jsonl: contains no labels. Give one" in refused("retire", model, "--file", tmp_path / "empty.jsonl")
    assert "label 'L01': appears twice" in refused("retire", model, "L01", "L01")
    assert "no label would be left" in refused("retire", model, *(f"L{i:02d}" for i in range(40)))
    assert "One of the two is needed" in refused("retire", model)
    assert "give --into LABEL" in refused("merge", model, "L01")
    assert "into.csv:2: label 'L01' has no 'into'" in refused("merge", model, "--file", tmp_path / "into.csv")
    assert "neither a new name nor a new text" in refused("rename", model, "L01")
    name = json.loads(labels("list", model, "--find", "L01", "--json"))["name"]
    assert "label 'L01': already has this name. There is nothing to change." in refused("rename", model, "L01", name)
    (tmp_path / "names.csv").write_text("id,name\nL01,One\nL02,\n")
    (tmp_path / "names.jsonl").write_text('{"id": "L01", "name": "One"}\n{"id": "L02", "name": " "}\n')
    assert "names.csv:3: label 'L02': neither a new name" in refused("rename", model, "--file", tmp_path / "names.csv")
    assert "names.jsonl:2: label 'L02': its name is empty or not a string. Give some text" in refused(
        "rename", model, "--file", tmp_path / "names.jsonl"
    )
    assert "there is no change left" in refused("undo", model)
    assert "no such model folder" in refused("list", tmp_path / "none")
    assert not (model / "edits").exists() and "intact (40 labels, 8 golden" in run("verify", model).stdout


def test_add_by_file_of_any_kind(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import toy_encoder
    import toy_heads

    encoder = toy_encoder.write_encoder(tmp_path / "encoder")
    toy_heads.model(str(encoder), toy.dataset(n=100)).save(tmp_path / "m")
    (tmp_path / "one.jsonl").write_text('{"id": "N1", "text": "about lamps and wine", "name": "lamps"}\n')
    (tmp_path / "two.csv").write_text('id,text\nN2,"bread, salt"\nN3,river stone\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "known.csv").write_text("id,text\nN9,a lamp\nL03,a cat\n")
    (tmp_path / "bare.jsonl").write_text('{"id": "N8", "text": "a lamp"}\n\n{"id": "N9"}\n')
    for file, message in (
        ("empty.jsonl", "empty.jsonl: contains no labels. Give one label per row, with 'id' and 'text'"),
        ("known.csv", "known.csv:3: label 'L03': is known already, and a new label needs an id of its own."),
        ("bare.jsonl", "bare.jsonl:3: label 'N9': no text. A new label is found by its words; give it a text"),
    ):
        assert message in refused("add", tmp_path / "m", tmp_path / file)
    assert "1 label added (change 1)" in labels("add", tmp_path / "m", tmp_path / "one.jsonl")
    assert "2 labels added (change 2)" in labels("add", tmp_path / "m", tmp_path / "two.csv")
    count = 3
    if pyarrow := pytest.importorskip("pyarrow"):
        import pyarrow.parquet as parquet

        table = pyarrow.table({"id": ["N4"], "name": ["engines"], "text": ["engine wheel metal"]})
        parquet.write_table(table, tmp_path / "three.parquet")
        assert "1 label added" in labels("add", tmp_path / "m", tmp_path / "three.parquet")
        count = 4
    listed = labels("list", tmp_path / "m", "--status", "added").splitlines()
    assert listed[1] == "N1\tlamps\tactive, added\t0" and len(listed) == count + 1
    found = {label.id for label in treetop.load(tmp_path / "m").predict("bread, salt", k=5)}
    assert "N2" in found
    model = treetop.load(tmp_path / "m", check="full")
    model.check_golden()
    assert len(model.labels) == 40 + count and len(model.edits.log) == count - 1
    assert "label 'N2': is known already" in refused("add", tmp_path / "m", tmp_path / "two.csv")
    assert "1 label renamed" in labels("rename", tmp_path / "m", "N3", "--text", "cloud and fish", "--re-encode")
    assert "label 'L00': was trained" in refused("rename", tmp_path / "m", "L00", "x", "--re-encode")


def test_a_note_cannot_forge_the_log_nor_colour_a_terminal(fitted_home):
    labels("rename", fitted_home, "L01", "a\x1b[31mred", "--note", "why\n9  2026-01-01T00:00:00Z  boss  add  1: fake")
    log = labels("log", fitted_home)
    assert len(log.splitlines()) == 1 and "boss" in log
    assert "\x1b" not in labels("list", fitted_home, "--find", "red")


@pytest.fixture
def fitted_home(home, tmp_path):
    treetop.load(home / "m").trained.save(tmp_path / "own")
    return tmp_path / "own"


def test_a_name_that_another_label_has_is_told(fitted_home, caplog):
    labels("rename", fitted_home, "L01", "a name of its own")
    assert not caplog.messages
    labels("rename", fitted_home, "L02", "a name of its own")
    assert "label 'L02': its new name 'a name of its own' is that of another label too" in caplog.text
