"""Whole trainings by `treetop.fit`, one JSON line each: settings, seconds, memory, scores.

    python benchmarks/gpu/recipe.py --data build/gpu --plan benchmarks/gpu/plans/lightxml.json --out results.jsonl

A plan is a list of runs: {"name", "recipe", "data", "preset", "settings", "seed", "rows": texts learned from, "on":
"held-out" or "test", "resamples": for intervals, "save": folder}, and where true or given:

- `words` reads word vectors (`pack.py --words`) in the place of the encoder;
- `curve` keeps the losses, `points` holds 5 % of the documents out of training and scores them after every epoch;
- `latency` times answers, `recall` looks at the levels above the labels, `tails` at rare labels;
- `parts` {name: members} scores some of the model's members alone, `joins` [[transform, combine]] other scores of the
  last member's last level, `heads` each head of a dual encoder, `cosines` both by their cosines, `duals` [weights]
  both with the dual one weighed, `rares` [weights] with rare labels lifted (`search.logit_adjustment`), `blend` the
  average with a model of another recipe;
- `tree` trains XR-Linear on the features of a model with a linear level;
- `bare` reads the texts of a dual encoder's batches and goes back, without heads, losses and label vectors (its scores
  mean nothing);
- `calibrate` holds documents out, as `treetop fit` does unless asked not to;
- runs of one `share` have all stages before the linear ranker in common, those of one `trees` their label trees.

Choices are made on rows held out from train. On a GPU models answer there (`Model.to`). Where a model is looked at in
several ways, views of its texts are made once. `--device cpu` is for small runs.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import resource
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pack import unpack
from variants import on_same_features, variants, variants_of

from treetop.assemble.dual import fit as dual_fit
from treetop.assemble.probe import model_bytes
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.data.split import holdout
from treetop.evaluate.match import match
from treetop.evaluate.slices import bins
from treetop.labels.text import label_words
from treetop.network import fit as network_fit
from treetop.network import prepare
from treetop.network.pool import PoolNetwork
from treetop.network.samplers.clustered import PoolPlan
from treetop.predict.beam import step
from treetop.train import journal
from treetop.training import fit, plan

OUT: list[Path] = []  # the file of results, if any
RESULTS: list[Any] = []
STAGES: list[tuple[str, float]] = []
POINT = ("step", "P@1", "PSP@5")  # after every epoch, of documents held out of training
SIZES: list[list[tuple[int, int, float]]] = []  # per training with pools: queries, labels, positives of a query
REFRESHES: list[float] = []  # seconds in which clusters and hard negatives were found
BEGUN: list[float] = []  # when each step of a training with pools began, those seconds taken off
SHARED: dict[tuple[Any, ...], Any] = {}
RUN: dict[str, Any] = {}
HELD = 12_000
DEVICE = ["cuda"]


def settled() -> None:
    """Wait for what the GPU still does."""
    if DEVICE[0] == "cuda":
        torch.cuda.synchronize()


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
    real, tokenise, held, stage = network_fit.train, prepare.tokenise, {}, Job.stage

    def timed(self: Job, name: str, make: Any) -> Any:
        started = time.perf_counter()
        key = (RUN.get("share"), RUN["data"], RUN.get("on"), self.seed, name)
        common = key[0] is not None and not name.startswith(("refined", "ranker", "fused"))
        if "trees" in RUN and name == "tree":
            key, common = (RUN["trees"], *key[1:]), True
        made = SHARED[key] if common and key in SHARED else stage(self, name, make)
        if common:
            SHARED[key] = made
        STAGES.append((name, round(time.perf_counter() - started, 2)))
        return made

    def train(*args: Any, **named: Any) -> Any:
        settled()
        if DEVICE[0] == "cuda":
            torch.cuda.reset_peak_memory_stats()
        if isinstance(args[1], PoolPlan):
            count(args[1])
        if RUN.get("bare"):
            strip(args[0])
        made = real(*args, **named)
        settled()
        RESULTS.append(made)
        return made

    def once(texts: Any, tokenizer: Any, *rest: Any) -> Any:
        key = (id(texts), hash(tokenizer.raw), tokenizer.max_length, tokenizer.long)
        if key not in held:
            held[key] = (texts, tokenise(texts, tokenizer, *rest))
        return held[key][1]

    network_fit.train = dual_fit.train = train
    prepare.tokenise = dual_fit.tokenise = once
    Job.stage = timed  # type: ignore[method-assign]


def remember(features: Any) -> None:
    """Make the views of a stretch of texts once."""
    real, held = features.views, {}

    def views(texts: Any) -> Any:
        key = (len(texts), texts[0], texts[len(texts) - 1]) if len(texts) > 1 else None
        if key is None or key not in held:
            held[key] = real(texts)
        return held[key]

    features.views = views


def count(plan: PoolPlan) -> None:
    """Remember the sizes of all batches of a training, and how long its clusters and hard negatives take."""
    batch, refresh, sizes = plan.pools.batch, plan.refresh, []
    SIZES.append(sizes)

    def counted(*args: Any) -> Any:
        BEGUN.append(time.perf_counter() - sum(REFRESHES))
        made = batch(*args)
        sizes.append((len(made.everyone), len(made.pool), len(made.positive) / len(made.everyone)))
        return made

    def timed(epoch: int) -> None:
        if plan.config.due(epoch):
            settled()
            started = time.perf_counter()
            refresh(epoch)
            settled()
            REFRESHES.append(time.perf_counter() - started)

    plan.pools.batch = counted  # type: ignore[method-assign]
    object.__setattr__(plan, "refresh", timed)


def strip(task: PoolNetwork) -> None:
    """Leave nothing but the encoder: what it makes of the texts is added up."""
    task.tables.pop("classifier", None)
    task._losses = lambda vectors, loaded: (1e-6 * vectors["dual"].sum(), 0.0 * vectors["dual"].sum())  # type: ignore


def one(root: Path, run: dict[str, Any]) -> None:
    on = run.get("on", "held-out")
    train, test = halves(root / run["data"], on)
    if "rows" in run:
        train = train.take(np.sort(np.random.default_rng(0).permutation(len(train))[: run["rows"]]))
    settings = {**run.get("settings", {})}
    if "encoder" in plan(run.get("recipe", "lightxml")).settings:
        source = root / ("words" if run.get("words") else "encoder")
        settings["encoder"] = {"model": str(source), **settings.get("encoder", {})}
    if "synonym" in settings:
        settings["synonym"] = {**settings["synonym"], "encoder": str(root / "encoder")}
    journal.SECONDS = 0.25 if run.get("curve") else 2.0
    for held in (RESULTS, STAGES, SIZES, REFRESHES, BEGUN, RUN):
        held.clear()
    RUN.update(run, root=root)
    if run.get("points"):
        settings["validation"] = 0.05
    torch.backends.cuda.matmul.allow_tf32 = True
    started = time.perf_counter()
    named = {"preset": run.get("preset", "default"), "seed": run.get("seed", 0), "device": DEVICE[0]}
    named["calibrate"] = run.get("calibrate", False)
    out = None if "save" not in run else Path(run["save"])
    model = fit(run.get("recipe", "lightxml"), train, out=out, settings=settings, **named)
    whole = time.perf_counter() - started
    model = model.to(DEVICE[0])
    for features in model.features.values() if variants_of(run) else ():
        remember(features)
    scores = model.evaluate(test, resamples=run.get("resamples", 0))
    line = {
        **run, "on": on, "fit_s": whole, "train_s": sum(r.seconds for r in RESULTS),
        "steps": sum(r.steps for r in RESULTS), "tokens_per_s": sum(r.tokens for r in RESULTS)
        / max(1e-9, sum(r.seconds for r in RESULTS)), "memory": max((r.memory for r in RESULTS), default=0),
        "loss": RESULTS[-1].loss if RESULTS else None,
        **shown(scores), "levels": [level.rank.n for level in model.members[0]],
        "stages": STAGES[:],
        "model_bytes": model_bytes(model),
        "peak_rss": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }  # fmt: skip
    if run.get("curve"):
        line["curve"] = [(x["step"], round(x["loss"], 3)) for r in RESULTS for x in r.history if "rate" in x]
    if run.get("points"):
        line["points"] = [[x[key] for key in POINT] for r in RESULTS for x in r.history if "P@1" in x]
    if run.get("latency"):
        line |= latencies(model, test)
    if run.get("recall"):
        line["recall"] = recalls(model, test)
    if SIZES:  # of the last quarter of the batches: queries, labels, positives of a query
        line["pools"] = [np.mean(sizes[-(-3 * len(sizes) // 4) :], axis=0).round(2).tolist() for sizes in SIZES]
        step = (BEGUN[-1] - BEGUN[len(BEGUN) // 2]) / max(1, len(BEGUN) - 1 - len(BEGUN) // 2)  # of the second half
        line |= {"refresh_s": np.round(REFRESHES, 3).tolist(), "step_ms": 1e3 * step}
    if run.get("tails"):
        line |= tails(model, test) | {"intervals": intervals(scores)}
    say(section="recipe", **line)
    parts(model, run, train, test)


def parts(model: Any, run: dict[str, Any], train: Dataset, test: Dataset) -> None:
    """A line for each of what else a run asks for."""
    facts = {"section": "part", "of": run.get("name"), "data": run["data"], "on": run.get("on", "held-out")}
    for name, some in variants(model, run, train):
        found = some.to(DEVICE[0]).evaluate(test, resamples=0)
        say(**facts, name=name, seed=run.get("seed", 0), **shown(found))
    if run.get("tree"):
        started = time.perf_counter()
        some = on_same_features(model, train)
        found = {"fit_s": time.perf_counter() - started, "model_bytes": model_bytes(some)}
        say(**facts, name="XR-Linear, same features", **found, **shown(some.evaluate(test, resamples=0)))


def shown(scores: Any) -> dict[str, float]:
    names = [f"{kind}@{k}" for kind in ("P", "PSP", "R") for k in (1, 3, 5, 10)]
    return {name: round(scores[name], 2) for name in names if name in scores.values}


def intervals(scores: Any) -> dict[str, list[float]]:
    return {name: [round(x, 2) for x in pair] for name, pair in scores.intervals.items() if name in shown(scores)}


def tails(model: Any, test: Dataset) -> dict[str, Any]:
    """Rare labels: recall and coverage at 10 of those with at most five texts, and of all labels by their own text."""
    matches = match(model, test)
    rare = (matches.counts > 0) & (matches.counts <= 5)
    tested, right = rare & (matches.positives > 0), matches.correct(10)
    top = model.rank(label_words(test.labels), 10).padded(10)
    own = (top == np.arange(len(top))[:, None]).any(1)
    return {
        "rare_R@10": round(100 * float(right[rare].sum() / max(1, matches.positives[rare].sum())), 2),
        "rare_C@10": round(100 * float((right[tested] > 0).mean()) if tested.any() else 0.0, 2),
        "own_text@10": round(100 * float(own.mean()), 2),
        "own_text_rare@10": round(100 * float(own[rare[: len(own)]].mean()) if rare.any() else 0.0, 2),
        "bins": bins(matches),
    }


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
    texts = [test.texts[i % len(test)] for i in range(300)]
    model.predict(texts[0])
    spent = []
    for text in texts:
        started = time.perf_counter()
        model.predict(text)
        spent.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    model.rank(test.texts.take(np.arange(8192) % len(test)), 5)
    return {"one_text_ms": float(np.median(spent)), "batch_ms": 1e3 * (time.perf_counter() - started) / 8192}


def claimed(folder: Path | None, i: int) -> bool:
    """Whether run `i` is this process's own."""
    try:
        if folder is not None:
            (folder / str(i)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=540.0, help="start no run after this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda", help="cpu: without a GPU, for small runs")
    parser.add_argument("--claims", type=Path, help="a folder: processes with the same one share the runs of a plan")
    options = parser.parse_args()
    OUT.extend([options.out] if options.out else [])
    DEVICE[0] = options.device
    begun = time.perf_counter()
    unpack(options.data)
    watch()
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else f"none, {torch.get_num_threads()} CPU threads"
    say(section="machine", gpu=gpu, torch=torch.__version__)
    for i, run in enumerate(json.loads(options.plan.read_text())):
        if time.perf_counter() - begun > options.seconds:
            break
        if not claimed(options.claims, i):
            continue
        try:
            one(options.data, run)
        except Exception:
            say(section="recipe", **run, error=traceback.format_exc()[-1500:])
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
