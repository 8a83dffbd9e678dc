import json

import pytest

from tools import records
from tools.docs import tables
from tools.docs.__main__ import main
from treetop.core.errors import InputError


def cell(results, method, rep, *, cpu, p1=40.0, dataset="toy", run="peers", **more):
    values = {
        "format": 1,
        "name": method,
        "rep": rep,
        "train": {"cpu_s": cpu, "wall_s": cpu / 2, "peak_mb": 500.0},
        "model_mb": 12.5,
        "batch": {"docs_per_cpu_s": 9000.0},
        "single": {"cpu_us": 210.0, "p50_ms": 0.2, "p99_ms": 1.5},
        "scores": {f"{metric}@{k}": p1 for metric in ("P", "PSP") for k in (1, 3, 5)} | {"C@5": 50.0},
        "data": {
            "train": 1000, "test": 10, "features": 7, "labels": 70, "labels_seen": 60,
            "features_per_text": 3.25, "labels_per_text": 2.0,
        },
        **more,
    }  # fmt: skip
    records.append(results / run / f"{dataset}.jsonl", values)


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    for rep, (ours, theirs) in enumerate([(10.0, 40.0), (30.0, 60.0), (12.0, 30.0)], 1):
        cell(folder, "treetop-xr_linear", rep, cpu=ours, p1=40.25)
        cell(folder, "pecos", rep, cpu=theirs)
    return folder


def rows(markdown):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines()]


def test_figures_are_medians_and_ours_come_first(results):
    head, _, ours, theirs = rows(tables.peers(results, ["toy"]))
    assert (ours[0], theirs[0]) == ("treetop-xr_linear", "pecos")
    assert ours[head.index("train CPU s")] == "12.0" and theirs[head.index("train CPU s")] == "40.0"
    assert ours[head.index("P@1/3/5")] == "40.25/40.25/40.25" and ours[-1] == "3"


def test_ratios_are_taken_inside_a_repetition(results):
    head, _, row = rows(tables.ratios(results, ["treetop-xr_linear", "pecos"]))
    assert row[head.index("train CPU s")] == "0.40"  # the median of 10/40, 30/60, 12/30; of medians it were 0.30
    assert row[head.index("P@1 −")] == "+0.25"


def test_a_peer_that_ran_once_is_compared_in_that_repetition(results):
    cell(results, "slow", 2, cpu=300.0)
    head, _, row = rows(tables.ratios(results, ["treetop-xr_linear", "slow"]))
    assert row[head.index("train CPU s")] == "0.10"


def test_a_second_run_is_set_beside_the_first(results):
    cell(results, "treetop-xr_linear", 1, cpu=9.0, run="second")
    cell(results, "pecos", 1, cpu=20.0, run="second")
    head, _, row = rows(tables.agreement(results, ["treetop-xr_linear", "pecos", "second"]))
    assert row[0] == "toy" and row[head.index("train CPU s")] == "0.40 · 0.45"


def test_scale_is_ordered_by_labels(results):
    for name, labels in (("synthetic-1m", 1_000_000), ("synthetic-10k", 10_000)):
        cell(results, "pecos", 1, cpu=9.0, dataset=name, data={"labels": labels}, first={"open_s": 0.25})
    found = rows(tables.scale(results, ["pecos", "absent"]))
    assert [row[0] for row in found[2:]] == ["pecos, 10,000 labels", "pecos, 1,000,000 labels"]
    assert found[2][found[0].index("opens in s")] == "0.250"


def test_missing_figures_show_as_missing(results):
    cell(results, "half", 1, cpu=5.0, single={})
    found = {row[0]: row for row in rows(tables.peers(results, ["toy"]))}
    assert found["half"][6:9] == ["–", "–", "–"]


def test_tables_stand_between_markers_and_nothing_else_moves(results, tmp_path):
    page = tmp_path / "README.md"
    page.write_text(
        "before\n<!-- table: peers toy -->\nold\n<!-- end -->\nbetween\n<!-- table: datasets -->\n<!-- end -->\n"
    )
    assert tables.update(page, results, check=True) and "old" in page.read_text()
    assert tables.update(page, results)
    text = page.read_text()
    assert text.startswith("before\n<!-- table: peers toy -->\n\n| method |") and "old" not in text
    assert "<!-- end -->\nbetween\n" in text and "| toy | 1,000 | 10 | 7 | 70 | 60 | 3.2 | 2.0 |" in text
    assert not tables.update(page, results)


def test_unknown_tables_and_open_markers_are_refused(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table: peer toy -->\n<!-- end -->\n")
    with pytest.raises(InputError, match="Did you mean 'peers'"):
        tables.update(page, results)
    page.write_text("<!-- table: peers toy -->\n")
    with pytest.raises(InputError, match="has no '<!-- end -->'"):
        tables.update(page, results)


def test_the_command_says_what_is_out_of_date(results, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- table: datasets -->\n<!-- end -->\n")
    call = ["--file", str(page), "--root", str(tmp_path)]
    assert main([*call, "--check"]) == 1
    assert main(call) == 0 and "updated" in capsys.readouterr().out
    assert main([*call, "--check"]) == 0


def test_runs_on_a_gpu_are_averaged_by_name_and_past_or_shared_ones_show_less(tmp_path):
    run = {"section": "recipe", "recipe": "r", "data": "d", "on": "test", "P@1": 10.0, "P@3": 5.0, "P@5": 4.0}
    lines = [
        {"section": "command", "past": True}, {**run, "name": "old"},
        {"section": "command"}, {**run, "name": "default", "fit_s": 2.0, "recall": [90.0]},
        {**run, "name": "other data", "data": "e"},
        {"section": "command", "seconds": False}, {**run, "name": "default", "P@1": 20.0, "fit_s": 100.0},
        {**run, "section": "part", "of": "default", "name": "half"},
        {"section": "recipe", "data": "d", "on": "test", "name": "broken", "error": "x"},
    ]  # fmt: skip
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu/file.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    head, _, *found = rows(tables.TABLES["gpu"](tmp_path, ["file", "d", "test"]))
    assert head == ["run", "P@1/3/5", "recall of levels", "fit s", "runs"]
    assert found == [
        ["r, default", "15.00/5.00/4.00", "90.0", "2.0", "2"],
        ["r, default: half", "10.00/5.00/4.00", "–", "–", "1"],
    ]


def test_tables_of_fast_answers(tmp_path):
    for name in ("fast_encoder", "fast_answers", "million_labels"):
        assert len(rows(tables.TABLES[name](tmp_path, []))) == 2  # no records yet
    for form, spent in (("float32", 10.0), ("int8", 4.0)):
        line = {"format": 1, "encoder": "e", "kind": "short", "texts": 32, "form": form, "cpu_ms_per_text": spent}
        line |= {"name": form, "times": 10.0 / spent, "cosine": 0.9961}
        records.append(tmp_path / "fast-encoder.jsonl", line)
        scores = {"P@1": 40.0, "P@5": 20.0, "PSP@5": 30.0, "same_of_5": 0.95, "cpu_s": spent}
        records.append(
            tmp_path / "fast-encoder.jsonl", {"format": 1, "name": f"m {form}", "model": "m", "form": form, **scores}
        )
    search = {"search": "exact", "labels": 1000000, "texts": 256, "ms_per_text": 8.0, "cpu_ms_per_text": 15.0}
    records.append(
        tmp_path / "million-labels.jsonl", {"format": 1, "name": "exact", "recall@10": 1.0, "load": 0.1, **search}
    )
    assert rows(tables.TABLES["fast_encoder"](tmp_path, []))[2] == [
        "e",
        "short",
        "32",
        "10.0",
        "–",
        "4.00",
        "2.50",
        "0.9961",
    ]
    assert rows(tables.TABLES["fast_answers"](tmp_path, []))[3][:3] == ["m", "int8", "40.00"]
    assert rows(tables.TABLES["million_labels"](tmp_path, []))[2][:3] == ["exact", "1,000,000", "256"]
