"""`treetop bench`: recipes side by side; a record for each."""

import json

import pytest
import typer

import toy
from command import run
from treetop.cli import bench


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "data"
    folder.mkdir()
    for split, seed in (("train", 0), ("test", 1)):
        toy.write_rows(toy.dataset(seed), folder / f"{split}.jsonl")
    return folder


def test_recipes_stand_side_by_side_and_each_leaves_a_record(data, tmp_path):
    file = tmp_path / "deep" / "records.jsonl"
    done = run("bench", data, "popular", "neighbours", "--seed", "3", "--record", file)
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == "recipe P@1 P@5 PSP@5 train CPU s wall s peak MB model MB documents/s".split()
    assert [row.split()[0] for row in rows] == ["popular", "neighbours"]
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["name"], one["seed"], one["format"]) for one in found] == [("popular", 3, 1), ("neighbours", 3, 1)]
    for one, row in zip(found, rows, strict=True):
        assert f"{one['scores']['P@1']:.2f}" in row and one["versions"]["treetop"] == one["treetop"]
        assert one["command"].startswith("python -m treetop bench") and one["train"]["peak_mb"] > 50
        assert one["batch"]["docs_per_s"] > 0 and one["model_mb"] > 0 and len(one["commit"]) >= 7
    assert found[0]["scores"]["P@1"] < found[1]["scores"]["P@1"]


def test_one_recipe_as_json(data):
    done = run("bench", data, "neighbours", "--json", "--set", "k=3")
    assert done.returncode == 0 and json.loads(done.stdout)["settings"]["k"] == 3, done.stderr


def test_quiet_is_quiet_for_each_recipe(data):
    done = run("--quiet", "bench", data, "popular", "popular", "--json")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert all(line.startswith("warning") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["peers"], "peers"),  # a subcommand of old: no such data set
        (["DATA", "popular", "neighbour"], "Did you mean 'neighbours'"),
        (["DATA", "popular", "--record", "."], "--record .: is a folder"),
    ],
)
def test_mistakes_are_one_sentence_before_any_work(data, words, said):
    done = run("bench", *(str(data) if word == "DATA" else word for word in words))
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_recipe_that_fails_stops_no_other(data, capsys):
    with pytest.raises(typer.Exit) as ended:
        bench._each(["populer", "popular"], str(data), [], as_json=False)
    assert ended.value.exit_code == 2
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()] == ["recipe", "popular"]
