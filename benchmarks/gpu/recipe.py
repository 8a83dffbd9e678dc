"""Whole trainings by `treetop.fit` on one GPU, one JSON line each: settings, seconds, memory, scores.

    python benchmarks/gpu/recipe.py --data build/gpu --plan benchmarks/gpu/plans/lightxml.json --out results.jsonl

A plan is a list of runs: {"recipe", "data", "preset", "settings", "seed", "on": "held-out" or "test", "curve",
"latency", "recall": true, "parts": {name: members}}. Choices are made on rows held out from train. `parts` scores some
of the model's members alone; runs of one `share` have all stages before the linear ranker in common.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import json
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pack import unpack

from treetop.assemble import neural_fit, tower_fit
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.data.split import holdout
from treetop.predict.beam import step
from treetop.train import journal
from treetop.training import fit

OUT: list[Path] = []  # the file of results, if any
RESULTS: list[Any] = []
STAGES: list[tuple[str, float]] = []
SHARED: dict[tuple[Any, ...], Any] = {}
RUN: dict[str, Any] = {}
HELD = 12_000


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)
    if OUT:
        with OUT[0].open("a") as file:
            file.write(json.dumps(line) + "\n")


@functools.cache
def read(folder: Path, split: str) -> Dataset:
    train = Dataset.read(folder, "train")
    return train if split == "train" else Dataset.read(folder, "test").align(train.labels)


@functools.cache
def halves(folder: Path, on: str) -> tuple[Dataset, Dataset]:
    train = read(folder, "train")
    if on == "test":
        return train, read(folder, "test")
    kept, out = holdout(train, min(0.2, HELD / len(train)), 0)
    return train.take(kept), train.take(out)


def watch() -> None:
    """Remember what every training says about itself and how long stages take, and tokenise a data set once."""
    real, tokenise, held, stage = neural_fit.train, neural_fit.tokenise, {}, Job.stage

    def timed(self: Job, name: str, make: Any) -> Any:
        started = time.perf_counter()
        key = (RUN.get("share"), RUN["data"], RUN.get("on"), self.seed, name)
        common = key[0] is not None and not name.startswith(("refined", "ranker", "fused"))
        made = SHARED[key] if common and key in SHARED else stage(self, name, make)
        if common:
            SHARED[key] = made
        STAGES.append((name, round(time.perf_counter() - started, 2)))
        return made

    def train(*args: Any, **named: Any) -> Any:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        made = real(*args, **named)
        torch.cuda.synchronize()
        RESULTS.append(made)
        return made

    def once(texts: Any, tokenizer: Any, *rest: Any) -> Any:
        key = (id(texts), hash(tokenizer.raw), tokenizer.max_length, tokenizer.long)
        if key not in held:
            held[key] = (texts, tokenise(texts, tokenizer, *rest))
        return held[key][1]

    for module in (neural_fit, tower_fit):
        module.train, module.tokenise = train, once  # type: ignore[assignment]
    Job.stage = timed  # type: ignore[method-assign]


def one(root: Path, run: dict[str, Any]) -> Any:
    on = run.get("on", "held-out")
    train, test = halves(root / run["data"], on)
    settings = {**run.get("settings", {})}
    settings["encoder"] = {"encoder": str(root / "encoder"), **settings.get("encoder", {})}
    journal.SECONDS = 0.25 if run.get("curve") else 2.0
    RESULTS.clear()
    STAGES.clear()
    RUN.clear()
    RUN.update(run)
    started = time.perf_counter()
    named = {"preset": run.get("preset", "default"), "seed": run.get("seed", 0), "device": "cuda"}
    model = fit(run.get("recipe", "lightxml"), train, settings=settings, **named)
    whole = time.perf_counter() - started
    for features in model.features.values():
        if hasattr(features, "to"):  # words have no device
            features.to(torch.device("cuda"))
    scores = model.evaluate(test, resamples=run.get("resamples", 0))
    line = {
        **run, "on": on, "fit_s": whole, "train_s": sum(r.seconds for r in RESULTS),
        "steps": sum(r.steps for r in RESULTS), "tokens_per_s": sum(r.tokens for r in RESULTS)
        / max(1e-9, sum(r.seconds for r in RESULTS)), "memory": max((r.memory for r in RESULTS), default=0),
        "loss": RESULTS[-1].loss if RESULTS else None,
        **shown(scores), "levels": [level.rank.n for level in model.members[0]],
        "stages": STAGES[:],
        "model_bytes": sum(array.nbytes for array in arrays(model)),
    }  # fmt: skip
    if run.get("curve"):
        line["curve"] = [(x["step"], round(x["loss"], 3)) for r in RESULTS for x in r.history if "loss" in x]
    if run.get("latency"):
        line |= latencies(model, test)
    if run.get("recall"):
        line["recall"] = recalls(model, test)
    say(section="recipe", **line)
    for name, members in run.get("parts", {}).items():
        some = dataclasses.replace(model, members=[model.members[m] for m in members], golden=())
        found = shown(some.evaluate(test, resamples=0))
        say(section="part", of=run.get("name"), data=run["data"], name=name, on=on, **found)
    return model


def shown(scores: Any) -> dict[str, float]:
    names = [f"{kind}@{k}" for kind in ("P", "PSP", "R") for k in (1, 3, 5, 10)]
    return {name: round(scores[name], 2) for name in names if name in scores.values}


def arrays(model: Any) -> list[np.ndarray]:
    parts = [item.to_part() for item in model.features.values()]
    parts += [level.rank.to_part() for member in model.members for level in member]
    made = []
    while parts:
        part = parts.pop()
        made += part.arrays.values()
        parts += part.parts.values()
    return made


def recalls(model: Any, test: Dataset) -> list[float]:
    """Per level above the labels: percent of the true labels that lie below the kept nodes."""
    levels = model.members[0]
    rows = np.arange(min(len(test), 8192))
    views = {name: view for item in model.features.values() for name, view in item.views(test.texts.take(rows)).items()}
    node = np.arange(test.n_labels)
    up = []
    for level in reversed(levels[1:]):
        shortlist = level.shortlist
        parents = np.repeat(np.arange(shortlist.n_parents), np.diff(shortlist.indptr))
        of = np.empty(shortlist.n, np.int64)
        of[shortlist.children] = parents
        node = of[node]
        up.append(node)
    Y = test.Y[rows]
    owner = np.repeat(rows, np.diff(Y.indptr))
    made, above = [], None
    for level, ancestor in zip(levels[:-1], reversed(up), strict=True):
        above = step(level, views, above, level.beam)
        kept = np.repeat(rows, np.diff(above.indptr)) * level.rank.n + above.ids
        made.append(round(100 * float(np.isin(owner * level.rank.n + ancestor[Y.indices], kept).mean()), 2))
    return made


def latencies(model: Any, test: Dataset) -> dict[str, float]:
    """Milliseconds: one text on the GPU, and per text in a large batch."""
    texts = [test.texts[i] for i in range(300)]
    model.predict(texts[0])
    spent = []
    for text in texts:
        started = time.perf_counter()
        model.predict(text)
        spent.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    model.rank(test.texts.take(np.arange(8192) % len(test)), 5)
    return {"one_text_ms": float(np.median(spent)), "batch_ms": 1e3 * (time.perf_counter() - started) / 8192}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=540.0, help="start no run after this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    OUT.extend([options.out] if options.out else [])
    begun = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = True
    if not (options.data / "encoder").is_dir():
        unpack(options.data)
    watch()
    say(section="machine", gpu=torch.cuda.get_device_name(), torch=torch.__version__)
    for run in json.loads(options.plan.read_text()):
        if time.perf_counter() - begun > options.seconds:
            break
        try:
            one(options.data, run)
        except Exception:
            say(section="recipe", **run, error=traceback.format_exc()[-1500:])
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
