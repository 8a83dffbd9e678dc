"""`treetop bench`: recipes side by side; a record for each."""

import json

import pytest

import toy
from command import run
from treetop.bench import cells


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
    done = run("--quiet", "bench", data, "popular", "neighbours", "--json")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert all(line.startswith("warning") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["peers"], "peers"),  # a subcommand of old: no such data set
        (["DATA", "popular", "neighbour"], "Did you mean 'neighbours'"),
        (["DATA", "popular", "--record", "."], "--record .: is a folder"),
        (["DATA", "popular", "--table", "."], "--table .: is a folder"),
        (["DATA", "popular", "--resume"], "--resume: needs the file of records"),
        (["DATA", "popular", "--budget", "time=soon"], "time"),
        (["DATA", "lightxml:fast"], "fast"),
    ],
)
def test_mistakes_are_one_sentence_before_any_work(data, words, said):
    done = run("bench", *(str(data) if word == "DATA" else word for word in words))
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_recipe_that_fails_stops_no_other_and_the_table_says_why(data, tmp_path):
    records, table = tmp_path / "records.jsonl", tmp_path / "table.md"
    words = ["bench", data, "popular", "neighbours", "--budget", "model=1KB", "--record", records, "--table", table]
    done = run(*words, "--set", "k=3")
    assert done.returncode == 2 and "k" in done.stderr  # no setting of popular: a mistake, before any work
    done = run(*words)
    assert done.returncode == 2 and [row.split()[0] for row in done.stdout.splitlines()] == ["recipe", "popular"]
    good, bad = map(json.loads, records.read_text().splitlines())
    assert good["cell"]["budget"] == "model=1KB" and "problem" not in good and bad["recipe"] == "neighbours"
    assert f"- `neighbours`: {bad['problem']}" in table.read_text() and "model" in bad["problem"]


def test_a_table_is_resumed(data, tmp_path):
    records, table = tmp_path / "records.jsonl", tmp_path / "table.md"
    words = ["bench", data, "popular", "neighbours", "--record", records, "--table", table, "--resume"]
    assert run("bench", data, "popular", "--record", records).returncode == 0
    done = run(*words)
    assert done.returncode == 0 and "1 of 2 recipes are in" in done.stderr and len(done.stdout.splitlines()) == 3
    assert len(records.read_text().splitlines()) == 2
    again = run(*words)
    assert again.stdout == done.stdout and len(records.read_text().splitlines()) == 2
    other = run(*words, "--seed", "1")  # another question
    assert other.returncode == 0 and len(records.read_text().splitlines()) == 4
    lines = table.read_text().splitlines()
    scores, costs = (i for i, line in enumerate(lines) if line.startswith("| recipe |"))
    assert [lines[i].split("|")[1].strip() for i in (scores + 2, scores + 3)] == ["popular", "neighbours"]
    assert " to " in lines[scores + 2] and lines[scores].count("|") == lines[scores + 2].count("|")
    assert lines[costs].count("|") == lines[costs + 3].count("|")


def test_a_name_may_carry_its_preset_and_all_is_every_recipe():
    assert cells.named(["lightxml:cpu", "popular"], "default") == [("lightxml", "cpu"), ("popular", "default")]
    every = [name for name, _ in cells.named(["all"], "default")]
    assert {"xr_linear", "unidec", "auto"} <= set(every) and len(every) == len(set(every))


def test_a_process_that_is_killed_has_a_record():
    asked = cells.Asked(seed=3, budget="time=1min").cell("popular", "default")
    assert cells._record("", asked, -9) == cells.failed(asked, "its process was ended by signal 9")


def test_only_the_newest_success_on_the_same_data_counts():
    asked = cells.Asked().cell("popular", "default")
    old, new, foreign = ({"cell": asked, "data": {"fingerprint": name}, "n": n} for n, name in enumerate("aab"))
    assert cells.matching([old, new, foreign, cells.failed(asked, "no")], asked, "a") is new
    assert cells.matching([old | {"problem": "no"}], asked, "a") is None
    assert cells.matching([old], cells.Asked(seed=1).cell("popular", "default"), "a") is None
