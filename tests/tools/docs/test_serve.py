import json

from tools.docs.serve import load, most

RUN = {"system": "treetop", "model": "finna", "name": "rated", "rate": 1000, "sent": 100}


def run(commit, p50, p99, refused=0, answered=100):
    status = {"200": {"requests": answered - refused, "p50": p50, "p99": p99}}
    if refused:
        status["429"] = {"requests": refused, "p50": 1.0, "p99": 1.0}
    return {**RUN, "commit": commit, "status": status}


def tables(folder, *lines):
    (folder / "serve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in load(folder, []).split("\n")]


def test_medians_of_the_newest_commit(tmp_path):
    old, runs = run("old", 1.0, 999.0), [run("new", 2.0, 30.0), run("new", 4.0, 10.0, refused=5), run("new", 3.0, 20.0)]
    runs[0]["server_cpu_ms_per_request"] = 0.5
    (row,) = tables(tmp_path, old, *runs)[2:]
    assert row == ["`xr_linear`", "rated", "1,000", "3", "3.00", "20.0", "10.0 20.0 30.0", "1.67", "0", "0.500"]


def test_requests_without_an_answer_or_with_an_error_have_failed(tmp_path):
    bad = run("new", 2.0, 30.0, answered=97)
    bad["status"]["500"] = {"requests": 2, "p50": 1.0, "p99": 1.0}
    (row,) = tables(tmp_path, bad)[2:]
    assert row[-4:] == ["–", "0.00", "3", "–"]


def test_the_most_where_hardly_any_are_refused(tmp_path):
    found = [
        {"connections": 8, "requests_per_s": 90.0, "p50": 70.0, "p99": 300.0, "refused": 0},
        {"connections": 16, "requests_per_s": 3000.0, "p50": 1.0, "p99": 2.0, "refused": 29_000},
    ]
    line = {"system": "treetop", "model": "unidec", "fast": True, "name": "maximum", "commit": "c", "wrk": found}
    (tmp_path / "serve.jsonl").write_text(json.dumps(line))
    assert most(tmp_path, []).split("\n")[2] == "| `unidec` `--fast` | 90.0 | 8 | 70.0 | 300 |"
