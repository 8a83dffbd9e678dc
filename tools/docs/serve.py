"""Tables of load on servers: ours and Annif's, of the newest commit each scenario was run at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.docs.markdown import MISSING, markdown, text

Record = dict[str, Any]
OK, REFUSED = "200", "429"
SECONDS = 10  # of `wrk`, at most


def newest(file: Path) -> list[list[Record]]:
    """Runs of each scenario: a list for each, of the newest commit, in the order in which they came first."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        found: Record = json.loads(line)
        key = (found["system"], _system(found), found["name"].removeprefix("annif-"), found.get("rate"))
        groups.setdefault(key, []).append(found)
    return [[run for run in runs if run["commit"] == runs[-1]["commit"]] for runs in groups.values()]


def load(results: Path, words: Sequence[str]) -> str:
    """`serve_load`: what happens to requests that come at a fixed rate."""
    rows = []
    for runs in newest(results / "serve.jsonl"):
        if "status" not in runs[-1]:
            continue
        late = sorted(run["status"][OK]["p99"] for run in runs)
        sent, refused = sum(run["sent"] for run in runs), sum(_refused(run) for run in runs)
        cells = [
            _system(runs[-1]), runs[-1]["name"].removeprefix("annif-"), f"{runs[-1]['rate']:,}", str(len(runs)),
            text(median(run["status"][OK]["p50"] for run in runs)), text(median(late)),
            " ".join(text(value) for value in late) if len(late) > 1 else MISSING,
            text(100 * refused / sent, 2), f"{sum(_failed(run) for run in runs):,}", _cpu(runs),
        ]  # fmt: skip
        rows.append(cells)
    head = [
        "server",
        "scenario",
        "requests a second",
        "runs",
        "p50 ms",
        "p99 ms",
        "of each run",
        "429, %",
        "failed",
        "CPU ms",
    ]
    return markdown(head, rows)


def most(results: Path, words: Sequence[str]) -> str:
    """`serve_most`: as many requests as `wrk` gets on so many connections, where fewer than 1 % are refused."""
    rows = []
    for runs in newest(results / "serve.jsonl"):
        found = [each for run in runs for each in run.get("wrk", ())]
        good = [each for each in found if each["refused"] < 0.01 * SECONDS * each["requests_per_s"]]
        if good:
            best = max(good, key=lambda each: float(each["requests_per_s"]))
            rate, late = text(best["requests_per_s"]), text(best["p99"])
            rows.append([_system(runs[-1]), rate, str(best["connections"]), text(best["p50"]), late])
    return markdown(["server", "most requests a second", "connections", "p50 ms", "p99 ms"], rows)


def _system(found: Record) -> str:
    if found["system"] == "annif":
        return f"Annif {found['packages']['annif']}, `{found['backend']}`"
    # The first records do not name their model, which was that of `make bench-serve`.
    model = {"finna": "xr_linear"}.get(found.get("model", "finna"), found.get("model"))
    return f"`{model}`" + " `--fast`" * bool(found.get("fast"))


def _cpu(runs: list[Record]) -> str:
    """Milliseconds of all workers for a request."""
    found = [run["server_cpu_ms_per_request"] for run in runs if "server_cpu_ms_per_request" in run]
    return text(median(found)) if found else MISSING


def _refused(run: Record) -> int:
    return int(run["status"].get(REFUSED, {}).get("requests", 0))


def _failed(run: Record) -> int:
    """Requests without an answer, or with one that is neither good nor a refusal."""
    answered = sum(found["requests"] for status, found in run["status"].items() if status in (OK, REFUSED))
    return int(run["sent"] - answered)
