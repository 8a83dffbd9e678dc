"""What `fit auto` chooses and reaches within a time budget, beside single recipes and a blend on the same data.

    python benchmarks/choices/auto.py SHAPE --data ../shared/data --budget 120 900 --references --out auto.jsonl

SHAPE: a data set (finna-yso-en-25k, wordnet, metamath, ...), or NAME:ROWS for so many of its training rows. Every model
is made by the command a user would type, in a process of its own, on the cores this one has; seconds are those of the
whole command. References have the largest budget too, so a recipe whose forecast is longer is refused at once. Scores
are those of test, at most 10,000 rows. `expected` is what auto promised for its choice.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import treetop
from treetop.core.dataset import Dataset
from treetop.core.provenance import append, provenance
from treetop.data.write import write

REFERENCES = {
    "xr_linear": ["xr_linear"], "neighbours": ["neighbours"], "bonsai": ["bonsai"], "lexical": ["lexical"],
    "unidec:cpu": ["unidec", "--preset", "cpu"], "blend": ["blend"],
}  # fmt: skip
ROWS = 10_000


def folder(shape: str, data: Path, scratch: Path) -> tuple[str, Dataset]:
    """Where a shape's data lie, and its test rows."""
    name, _, rows = shape.partition(":")
    source = name if name in {"wordnet", "metamath"} else str(data / name)
    train = Dataset.read(source, "train")
    test = Dataset.read(source, "test").align(train.labels)
    test = test.take(np.sort(np.random.default_rng(0).permutation(len(test))[:ROWS]))
    if not rows:
        return source, test
    chosen = np.sort(np.random.default_rng(0).permutation(len(train))[: int(rows)])
    write({"train": train.take(chosen)}, scratch / "data", "jsonl")
    return str(scratch / "data"), test


def run(words: list[str], device: str, limit: float) -> tuple[float, float, str]:
    """Seconds of a command, its CPU seconds, and why it failed, if it did."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "treetop", "fit", *words, "--device", device, "--overwrite"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        problem = done.stderr[-300:] if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = f"not ready after {limit:.0f} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, cpu, problem


def told(out: Path, test: Dataset, device: str) -> dict[str, Any]:
    """Scores on test, and what the card says of a choice."""
    model = treetop.load(out, device=device)
    scores = model.evaluate(test)
    card = model.card.data
    values = {name: round(scores[name], 2) for name in ("P@1", "P@5", "PSP@5")}
    return values | {"chosen": card.get("chosen"), "expected": card.get("auto")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--budget", type=int, nargs="*", default=[120, 900])
    parser.add_argument("--references", nargs="*", choices=[*REFERENCES], default=None)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds after which a command is given up")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/auto.jsonl"))
    options = parser.parse_args()
    names = [*REFERENCES] if options.references == [] else options.references or []
    for shape in options.shapes:
        scratch = Path(tempfile.mkdtemp())
        source, test = folder(shape, options.data, scratch)
        jobs = [(f"auto {seconds} s", ["auto", "--budget", f"time={seconds}s"]) for seconds in options.budget]
        within = ["--budget", f"time={max(options.budget, default=int(options.limit))}s"]
        for name, words in jobs + [(name, [*REFERENCES[name], *within]) for name in names]:
            words = [words[0], source, "--out", str(scratch / "model"), *words[1:]]
            if options.encoder and "auto" in words:
                words += ["--set", f"encoder={options.encoder}"]
            if options.encoder and "unidec" in words:
                words += ["--set", f"encoder.model={options.encoder}"]
            if options.encoder and "blend" in words:
                words += ["--set", f"encoder={options.encoder}"]
            seconds, cpu, problem = run(words, options.device, options.limit)
            line: dict[str, Any] = {"name": f"{shape} {name}", "data": shape, "what": name, "device": options.device}
            line |= {"cores": len(os.sched_getaffinity(0)), "seconds": round(seconds, 1), "cpu_s": round(cpu, 1)}
            line |= {"problem": problem} if problem else told(scratch / "model", test, options.device)
            print(json.dumps(line), flush=True)
            append(options.out, provenance(seed=0) | line)
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
