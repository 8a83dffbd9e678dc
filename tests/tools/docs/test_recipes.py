import json

import pytest

from tools import records
from tools.docs.recipes import is_default, recipes
from treetop.core.errors import InputError

SCORES = {"P@1": 80.0, "P@5": 60.0, "PSP@5": 40.0}


def rows(results, *words):
    lines = [line for line in recipes(results, words).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].split("`")[1] if "`" in row[0] else row[0]: row[3:] for row in cells}


@pytest.fixture
def results(tmp_path):
    measured = {"format": 1, "preset": "default", "scores": SCORES, "train": {"cpu_s": 9.0}, "model_mb": 4.0}
    records.append(tmp_path / "recipes/a.jsonl", {**measured, "name": "xr_linear"})
    records.append(tmp_path / "recipes/a.jsonl", {**measured, "name": "lightxml", "preset": "cpu"})
    records.append(tmp_path / "recipes/b-25k.jsonl", {**measured, "name": "xr_linear"})
    run = {"section": "recipe", "recipe": "lightxml", "data": "b-25k", "on": "test", "name": "default", **SCORES}
    files = {
        "new": [{**run, "P@1": 50.0}, {**run, "P@1": 51.0, "seed": 1}, {**run, "name": "lr 1e-3", "P@1": 99.0}],
        "old": [{**run, "P@1": 1.0}, {**run, "recipe": "renee", "on": "held-out"}],
    }
    (tmp_path / "gpu").mkdir()
    for name, lines in files.items():
        (tmp_path / f"gpu/{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_both_data_sets_stand_in_one_row_and_the_first_file_counts(results):
    found = rows(results, "a", "b-25k", "new", "old")
    scores = ["80.00", "60.00", "40.00"]
    assert found["recipe"] == [
        "P@1 a", "P@5 a", "PSP@5 a", "train CPU s", "model MB", "P@1 b", "P@5 b", "PSP@5 b",
    ]  # fmt: skip
    assert found["xr_linear"] == [*scores, "9.00", "4.00", *scores]
    assert found["lightxml"] == [*scores, "9.00", "4.00", "50.50", "60.00", "40.00"]
    assert set(found["renee"]) == {"–"}


def test_the_caption_names_presets_and_files(results):
    caption = recipes(results, ["a", "b-25k", "new", "old"]).splitlines()[-1]
    assert "(`cpu`)" in caption and "recipes/a.jsonl" in caption
    assert "`xr_linear`: `recipes/b-25k.jsonl`" in caption and "`lightxml`: `gpu/new.jsonl`" in caption


@pytest.mark.parametrize(
    "change", [{"name": "former default"}, {"preset": "cpu"}, {"section": "part"}, {"recipe": "b"}]
)
def test_only_runs_of_the_defaults_of_now_count(change):
    run = {"section": "recipe", "recipe": "a", "name": "default"}
    assert is_default(run, "a") and not is_default({**run, **change}, "a")


def test_too_few_words_are_refused(results):
    with pytest.raises(InputError, match="give two data sets"):
        recipes(results, ["a"])
