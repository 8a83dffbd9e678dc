"""Two trees of the project on one GPU, their trainings in turn: is the new one as fast, and does it score the same?

    python benchmarks/gpu/before_after.py --old OLD/ --new . --data build/gpu --out results.jsonl [--runs 5] [--rows N]

One process per tree stays warm; each training is run once unmeasured, then `--runs` times, old and new in turn. Seconds
and tokens are those of the loop from its first to its last step; P@1 and P@5 are on test texts that nothing was chosen
on. Data and encoder as `pack.py` writes them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

EPOCHS = {"lightxml": 3, "cascadexml": 3, "renee": 2, "unidec": 2, "astec": 4, "xr_transformer": 3}
TEXTS = 2000  # of the test rows that are scored


def work(options: argparse.Namespace) -> None:
    """Answer commands on standard input, one JSON line each, with the tree that PYTHONPATH names."""
    import numpy as np
    from pack import unpack

    import treetop
    from treetop.train import loop

    encoder, results, real = str(unpack(options.data)), [], loop._Run.go

    def go(self: Any) -> Any:
        results.append(real(self))
        return results[-1]

    loop._Run.go = go  # type: ignore[method-assign]
    model_key = "model" if (Path(treetop.__file__).parent / "core/renamed.py").exists() else "encoder"  # its name then
    folder = options.data / "finna-yso-en-25k"
    train = treetop.Dataset.read(folder, "train")
    if options.rows:
        train = train.take(np.arange(min(options.rows, len(train))))
    test = treetop.Dataset.read(folder, "test").align(train.labels)
    test = test.take(np.arange(min(TEXTS, len(test))))
    for line in sys.stdin:
        asked = json.loads(line)
        results.clear()
        settings = {"encoder": {model_key: encoder}, "train": {"epochs": float(asked["epochs"])}}
        started = time.perf_counter()
        whole_data = {"calibrate": False} if "calibrate" in inspect.signature(treetop.fit).parameters else {}
        model = treetop.fit(
            asked["recipe"], train, settings=settings, seed=asked["seed"], device=options.device, **whole_data
        )
        whole = time.perf_counter() - started
        answer = {
            "seconds": sum(r.seconds for r in results), "tokens": sum(r.tokens for r in results),
            "steps": sum(r.steps for r in results), "memory": max(r.memory for r in results), "fit": whole,
        }  # fmt: skip
        if asked["score"]:
            scores = model.evaluate(test, resamples=0)
            answer |= {"P@1": scores["P@1"], "P@5": scores["P@5"], "PSP@5": scores["PSP@5"]}
        print("ANSWER " + json.dumps(answer), flush=True)


class Tree:
    """A warm process that trains with one tree."""

    def __init__(self, root: Path, options: argparse.Namespace) -> None:
        here = Path(__file__).resolve()
        command = [
            sys.executable, str(here), "--work", "--data", str(options.data.resolve()), "--device", options.device,
            "--rows", str(options.rows),
        ]  # fmt: skip
        path = f"{root.resolve()}:{here.parent}"
        env = {**os.environ, "PYTHONPATH": path, "TREETOP_CACHE": str(root.resolve() / "build/kernels")}
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def fit(self, recipe: str, seed: int, *, score: bool) -> dict[str, float]:
        asked = {"recipe": recipe, "epochs": EPOCHS[recipe], "seed": seed, "score": score}
        assert self.process.stdin and self.process.stdout  # noqa: S101
        self.process.stdin.write(json.dumps(asked) + "\n")
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise RuntimeError(f"{recipe}: the worker ended with {self.process.wait()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--new", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--recipes", nargs="*", default=list(EPOCHS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=540.0, help="no recipe begins after so many")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    started = time.monotonic()
    trees = {"old": Tree(options.old, options), "new": Tree(options.new, options)}
    for recipe in options.recipes:
        if time.monotonic() - started > options.seconds:
            break
        first = {name: tree.fit(recipe, 0, score=True) for name, tree in trees.items()}
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for seed in range(1, options.runs + 1):
            for name, tree in trees.items():
                runs[name].append(tree.fit(recipe, seed, score=False))
            if time.monotonic() - started > options.seconds:
                break
        rates = {name: [run["tokens"] / run["seconds"] for run in found] for name, found in runs.items()}
        line = {
            "recipe": recipe, "rows": options.rows, "epochs": EPOCHS[recipe], "scores": first,
            "seconds": {name: [round(run["seconds"], 3) for run in found] for name, found in runs.items()},
            "tokens_per_s": {name: [round(rate) for rate in found] for name, found in rates.items()},
            "memory": {name: max(run["memory"] for run in found) for name, found in runs.items()},
            "ratio_of_medians": round(statistics.median(rates["new"]) / statistics.median(rates["old"]), 4),
        }  # fmt: skip
        print(json.dumps(line), flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
