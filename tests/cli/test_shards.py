"""`treetop predict` into a folder of shards: complete, the same as without, resumable, and refusals."""

import json

import pytest

pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet

import toy
from elsewhere import Elsewhere
from treetop.cli import shard_folder, shards
from treetop.cli.answers import Form
from treetop.cli.shard_folder import name_of
from treetop.core.errors import WorkError
from treetop.core.executor.executor import LOCAL, using
from treetop.data.inputs import read_inputs
from treetop.training import fit

N = 23


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    fit("xr_linear", toy.dataset(), settings={"tree": {"max_leaf": 8}}, calibrate=False, out=folder)
    return folder


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "texts.jsonl"
    rows = [{"id": f"t{i}", "text": text, "note": i} for i, text in enumerate(list(toy.dataset(3).texts)[:N])]
    rows[4]["text"] = "xyzzy"
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return file


def ask(model, source, out, *, here=LOCAL, parts=5, resume=False, overwrite=False, k=3, **form):
    from treetop.model import load

    asked = shards.question(model, k, None, Form.of(out / "x.parquet", **form), "auto", False)
    with using(here):
        folder = shards.open_folder(out, asked, str(source), N, parts, {}, resume=resume, overwrite=overwrite)
        shards.predict_shards(asked, load(model), read_inputs(str(source), keep=form.get("keep", ())), N, folder)
    return {file.name: file.read_bytes() for file in sorted(out.glob("part-*"))}


def test_shards_are_the_same_wherever_they_are_predicted(model, source, tmp_path, capsys):
    here, there = ask(model, source, tmp_path / "a"), ask(model, source, tmp_path / "b", here=Elsewhere(2))
    assert list(here) == [name_of(i, 5) for i in range(1, 6)] and here == there
    assert "23 texts in 5 shards; this run 23 in" in capsys.readouterr().err
    from treetop.cli.main import app

    words = ["predict", str(model), str(source), "-k", "3"]
    (tmp_path / "c").mkdir()
    for part in range(1, 6):
        app([*words, "--shard", f"{part}/5", "--out", str(tmp_path / "c")], standalone_mode=False)
    assert {file.name: file.read_bytes() for file in (tmp_path / "c").iterdir()} == here
    app([*words, "--out", str(tmp_path / "whole.parquet")], standalone_mode=False)
    whole = parquet.read_table(tmp_path / "whole.parquet")
    assert parquet.read_table(tmp_path / "a").equals(whole)  # readers leave out the files that begin with _
    app([*words, "--shards", "5", "--out", str(tmp_path / "d")], standalone_mode=False)
    assert {file.name: file.read_bytes() for file in (tmp_path / "d").glob("part-*")} == here
    assert "1 of 23 texts have no word the model knows" in capsys.readouterr().err


class Killed(Elsewhere):
    """Ends after some shards."""

    def stream(self, work, shards, *shared, gpus=0):
        for i, result in enumerate(super().stream(work, shards, *shared, gpus=gpus)):
            if i == 2:
                raise KeyboardInterrupt
            yield result


def test_a_killed_run_goes_on_with_the_missing_shards(model, source, tmp_path, capsys):
    whole = ask(model, source, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        ask(model, source, tmp_path / "killed", here=Killed(2))
    assert len(list((tmp_path / "killed").glob("part-*"))) == 2
    (tmp_path / "killed" / name_of(1, 5)).unlink()
    with (tmp_path / "killed" / shard_folder.DONE).open("a") as out:
        out.write('{"shard": 3, "te')  # cut off by the kill
    capsys.readouterr()
    here = Elsewhere(2)
    assert ask(model, source, tmp_path / "killed", here=here, resume=True) == whole
    assert here.calls == [("answer_shard", 4)]
    assert "23 texts in 5 shards; this run 18 in" in capsys.readouterr().err
    noted = shard_folder.Folder(tmp_path / "killed", 5).noted()
    assert sum(line["texts"] for line in noted) == N and sum(line["unknown"] for line in noted) == 1
    again = Elsewhere(2)
    assert ask(model, source, tmp_path / "killed", here=again, resume=True) == whole
    assert again.calls == [("answer_shard", 0)]


def test_answers_to_different_questions_are_not_mixed(model, source, tmp_path):
    out = tmp_path / "out"
    ask(model, source, out)
    with pytest.raises(WorkError, match="has shards already. Add --resume"):
        ask(model, source, out)
    with pytest.raises(WorkError, match="of a run with other options. Give the same command"):
        ask(model, source, out, resume=True, k=2)
    with pytest.raises(WorkError, match="of a run with other shards"):
        ask(model, source, out, resume=True, parts=4)
    source.write_text(source.read_text().replace("xyzzy", "zyxxy"))
    with pytest.raises(WorkError, match="of a run with other input"):
        ask(model, source, out, resume=True)
    assert list(ask(model, source, out, overwrite=True, parts=2, k=2)) == [name_of(1, 2), name_of(2, 2)]
    (out / shard_folder.PLAN).write_text("[")
    with pytest.raises(WorkError, match="is damaged. Add --overwrite"):
        ask(model, source, out, resume=True)
    (out / shard_folder.PLAN).unlink()
    with pytest.raises(WorkError, match="has files that are no shards"):
        ask(model, source, out, overwrite=True)
    with pytest.raises(WorkError, match="is not a folder"):
        ask(model, source, source, overwrite=True)


class Apart(Elsewhere):
    """Nodes that do not see the folders of this machine."""

    def on_each_node(self, question, *given):
        return ["", question(*given)]


def test_a_model_travels_to_nodes_that_do_not_have_it(model, source, tmp_path, monkeypatch):
    whole = ask(model, source, tmp_path / "whole", long=True, digits=2, keep=("note",))
    monkeypatch.setattr(shards, "_opened", lambda question: pytest.fail("opened where it is not"))
    there = ask(model, source, tmp_path / "there", here=Apart(2), long=True, digits=2, keep=("note",))
    assert there == whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-", "--shards", "3", "--out", "x"], "a stream has no known length"),
        (["t.jsonl", "--shards", "3"], "--out: missing"),
        (["t.jsonl", "--shards", "3", "--shard", "1/2", "--out", "x"], "--shard: is one of the shards"),
        (["t.jsonl", "--resume", "--out", "x"], "--resume: goes on with a folder"),
        (["t.jsonl", "--cluster", "here", "--out", "x"], "--cluster 'here': is no cluster"),
        (["t.jsonl", "--shards", "3", "--bom", "--out", "x"], "--bom: is for tables"),
    ],
)
def test_refusals(model, tmp_path, monkeypatch, words, said):
    from treetop.cli.main import app
    from treetop.core.errors import ConfigError

    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.jsonl").write_text('{"text": "a cat"}\n')
    with pytest.raises(ConfigError, match=said):
        app(["predict", str(model), *words], standalone_mode=False)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "txt"])
def test_texts_are_counted_as_they_are_read(tmp_path, ending):
    import pyarrow

    from treetop.data.inputs import count_inputs

    file, texts = tmp_path / f"t.{ending}", ["a", "b\nc", "", "d"]
    if ending == "jsonl":
        file.write_text("\n \n".join(json.dumps({"text": text}) for text in texts))
    elif ending == "parquet":
        parquet.write_table(pyarrow.table({"text": texts}), file)
    else:
        file.write_text('text\na\n"b\nc"\n\nd\n')
    count = len(list(read_inputs(str(file))))
    assert count_inputs(str(file), lambda: read_inputs(str(file))) == count > 0
    shared = [text for i in (1, 2, 3) for text in read_inputs(str(file), f"{i}/3")]
    assert shared == list(read_inputs(str(file)))
