"""What `treetop plan` says of data sets that are here, beside what training them takes.

    python benchmarks/larger/plan.py DATA... [--recipe xr_linear] [--set tfidf.ngrams=[1,1]]

`plan` is told only a data set's size: documents, labels, words of a text, labels of a text, words of a label's name.
`fit` is the command a user would type, on all cores of this machine, in a process of its own with kernels compiled
beforehand. Adds a record per data set to benchmarks/results/plan.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.provenance import append, provenance, versions

RESULTS = Path(__file__).parents[1] / "results" / "plan.jsonl"
TREETOP = [sys.executable, "-m", "treetop"]


def size_of(data: Path) -> dict[str, float]:
    """What a user would know of a data set."""
    dataset = Dataset.read(data)
    rows, labels = dataset.take(np.flatnonzero(dataset.documents)), list(dataset.labels.texts)
    words = sum(len(text.split()) for text in rows.texts)
    return {
        "documents": len(rows), "labels": dataset.n_labels, "tokens": round(words / len(rows), 2),
        "labels-per-document": round(rows.Y.nnz / len(rows), 2),
        "label-tokens": round(sum(len(label.split()) for label in labels) / max(len(labels), 1), 2),
    }  # fmt: skip


def fit(words: list[str]) -> dict[str, float]:
    """Run a command; seconds, CPU seconds, and bytes of memory at its peak."""
    started = time.monotonic()
    process = subprocess.Popen([*TREETOP, "-q", "fit", *words])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"fit ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": time.monotonic() - started, "cpu_seconds": used.ru_utime + used.ru_stime,
        "memory": 1024.0 * used.ru_maxrss,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--recipe", default="xr_linear")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    more = [word for item in options.set for word in ("--set", item)]
    for data in options.data:
        size = size_of(data)
        told = [word for name, value in size.items() for word in (f"--{name}", str(value))]
        command = [*TREETOP, "plan", options.recipe, *told, *more, "--json"]
        planned = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        with tempfile.TemporaryDirectory() as work:
            measured = fit([options.recipe, str(data), "--out", str(Path(work) / "model"), *more])
            files = [file for file in (Path(work) / "model").rglob("*") if file.is_file()]
            measured["model"] = float(sum(file.stat().st_size for file in files))
        values: dict[str, Any] = {
            name: {"plan": round(planned[name], 1), "fit": round(measured[name], 1),
                   "fit ÷ plan": round(measured[name] / planned[name], 2)}
            for name in measured
        }  # fmt: skip
        print(data.name, json.dumps(values), flush=True)
        record = {
            **provenance(seed=0), "versions": versions(), "name": f"{data.name} {options.recipe}", "data": data.name,
            "recipe": options.recipe, "settings": options.set, "size": size, "rates": planned["rates"], **values,
        }  # fmt: skip
        append(RESULTS, record)


if __name__ == "__main__":
    main()
