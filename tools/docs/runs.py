"""Tables of whole trainings on a GPU, from the lines `benchmarks/gpu/recipe.py` writes.

Lines behind a `command` line share its facts: `past` are earlier defaults, which tables leave out; where several
processes shared the machine, `seconds` is false and no time is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tools.docs.markdown import MISSING, markdown, text
from treetop.core.errors import InputError

Run = dict[str, Any]


def gpu(results: Path, words: Sequence[str]) -> str:
    """`gpu FILE DATA SPLIT [RECIPE]`: every run of a file on a data set, means over runs of the same name."""
    file, data, split, *recipe = words
    runs = [run for run in select(results, file, data, split) if not recipe or run["recipe"] in recipe]
    several = len({run["recipe"] for run in runs}) > 1
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(_name(run, several), []).append(run)
    head = ["run", "P@1/3/5", "PSP@5", "R@10", "recall of levels", "training s", "fit s"]
    head += ["GPU GiB", "model MB", "one text ms", "texts, labels, positives of a batch", "runs"]
    rows = [[name, *_cells(runs)] for name, runs in found.items()]
    used = [i for i in range(len(head)) if any(row[i] != MISSING for row in rows)]
    return markdown([head[i] for i in used], [[row[i] for i in used] for row in rows])


def select(results: Path, name: str, data: str, split: str) -> list[Run]:
    """Runs of a file on a part of a data set."""
    file = results / "gpu" / f"{name}.jsonl"
    if not file.exists():
        raise InputError(f"{file}: no such file of runs. Write the name of one in benchmarks/results/gpu.")
    return [run for run in lines(file) if run.get("data") == data and run.get("on") == split]


def lines(file: Path) -> Iterator[Run]:
    """Runs of a file that ended with a score, less what its `command` lines take from them."""
    past, timed, recipe = False, True, None
    for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n"):  # LF alone ends a line
        run = json.loads(line)
        if run["section"] == "command":
            past, timed = bool(run.get("past")), bool(run.get("seconds", True))
        recipe = run.get("recipe", recipe)  # parts follow the run they are of
        if not (past or run.get("past")) and run["section"] in ("recipe", "part") and "P@1" in run:
            kept = run if timed else {key: value for key, value in run.items() if not key.endswith(("_s", "_ms"))}
            yield {**kept, "recipe": recipe}


def _name(run: Run, several: bool) -> str:
    name = f"{run['of']}: {run['name']}" if "of" in run else str(run.get("name"))
    return f"{run['recipe']}, {name}" if several or name.startswith("default") else name


def _cells(runs: Sequence[Run]) -> list[str]:
    precision = "/".join(text(_mean(runs, f"P@{k}"), 2) for k in (1, 3, 5))
    recall = next((run["recall"] for run in runs if isinstance(run.get("recall"), list) and run["recall"]), None)
    trained = [run for run in runs if run.get("memory")]
    seconds = [text(_mean([run for run in runs if run.get(key)], key), 1) for key in ("train_s", "fit_s")]
    return [
        precision, *(text(_mean(runs, key), 2) for key in ("PSP@5", "R@10")),
        ", ".join(text(part, 1) for part in recall) if recall else MISSING,
        *seconds, text(_mean(trained, "memory", 1 << 30), 1), text(_mean(runs, "model_bytes", 1_000_000), 0),
        text(_mean(runs, "one_text_ms"), 1), _batch(runs), str(len(runs)),
    ]  # fmt: skip


def _batch(runs: Sequence[Run]) -> str:
    """Texts and labels that meet in a batch and positives of a text, where batches are pools; of the last stage."""
    pools = next((run["pools"] for run in runs if run.get("pools")), None)
    if pools is None:
        return MISSING
    texts, labels, positives = pools[-1]
    return f"{text(texts, 0)}, {text(labels, 0)}, {text(positives, 1)}"


def _mean(runs: Sequence[Run], key: str, unit: float = 1.0) -> float | None:
    found = [float(run[key]) / unit for run in runs if isinstance(run.get(key), int | float)]
    return mean(found) if found else None
