"""Recipes as `treetop fit` trains them, with documents held out, their parts alone, and blends; a JSON line each.

    python benchmarks/gpu/fuse.py --data build/gpu --out results.jsonl [--names unidec four] wordnet build/gpu/finna-...

All models of a data set and seed learn from the same documents and are taught on the same held-out ones; linear recipes
are not trained again on all. Scores are those of test (at most `--rows` of it). A line of a model with several sources
says how far it lies above the best of them by P@1 on held-out documents, with the standard error of the paired
difference. Then how well probabilities hold: expected calibration error over the best five labels with a probability
of 0.01 or more (15 bins of equal mass), overall and by label frequency; the share of the gain in Brier score that
isotonic regression fitted on test would have; what `--precision` reached, and how many labels it accepts against the
best threshold on test; the recall that `--recall` reached, and the labels it took.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pack import unpack
from recipe import shown

import treetop
from treetop.assemble.held_out.hold_out import HoldOut
from treetop.assemble.held_out.rising import rising
from treetop.assemble.held_out.scores import source_rankings
from treetop.core.dataset import Dataset
from treetop.evaluate.match import Matches, hits
from treetop.evaluate.score import score
from treetop.predict.calibrate import frequency_bin
from treetop.predict.fuse.fuse import DEPTH
from treetop.training import plan

RECIPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "xr_linear": ("xr_linear", "default", {}),
    "neighbours": ("neighbours", "default", {}),
    "unidec-cpu": ("unidec", "cpu", {}),
    "lightxml": ("lightxml", "default", {}),
    "renee": ("renee", "default", {}),
    "cascadexml": ("cascadexml", "default", {"ranker": "both"}),
    "ngame": ("ngame", "default", {}),
    "unidec": ("unidec", "default", {}),
}
BLENDS = {
    "words": ("xr_linear", "neighbours"),
    "cpu": ("xr_linear", "neighbours", "unidec-cpu"),
    "four": ("xr_linear", "lightxml", "renee", "unidec"),
    "unidec and xr_linear": ("unidec", "xr_linear"),
}


def trained(name: str, train: Dataset, held_out: Dataset, options: Any, encoder: Path) -> Any:
    recipe, preset, settings = RECIPES[name]
    if "encoder" in plan(recipe).settings:
        settings = settings | {"encoder": {"model": str(encoder)}}
    torch.backends.cuda.matmul.allow_tf32 = True
    model = treetop.fit(
        recipe, train, preset=preset, settings=settings, seed=options.seed, device=options.device, held_out=held_out
    )
    return model.to(options.device)


def per_document(ranking: Any, model: Any, test: Dataset) -> dict[str, Any]:
    """P@1 and P@5 of each document, and the parts that PSP@5 is the ratio of."""
    found = Matches.of(ranking, test, model.counts, model.n_train, depth=100)
    top, hit = found.top[:, :5], found.hits[:, :5]
    gain = np.where(hit, found.weights[np.maximum(top, 0)], 0.0)
    return {"P@1": hit[:, 0].astype(float), "P@5": hit.mean(1), "gain@5": gain.sum(1)}


def above(ours: dict[str, Any], best: dict[str, Any]) -> dict[str, list[float]]:
    """How far, in points, and the standard error; of the gain in percent of the best source's."""
    made = {}
    for name in ("P@1", "P@5"):
        gap = 100 * (ours[name] - best[name])
        made[name] = [round(float(gap.mean()), 3), round(float(gap.std() / np.sqrt(len(gap))), 3)]
    made["gain@5"] = [round(100 * float(ours["gain@5"].sum() / max(best["gain@5"].sum(), 1e-9) - 1), 3)]
    return made


def error(p: Any, right: Any, bins: int = 15) -> float | None:
    """Expected calibration error over bins of equal mass."""
    parts = [part for part in np.array_split(np.argsort(p, kind="stable"), bins) if len(part)]
    gaps = [len(part) * abs(float(p[part].mean()) - float(right[part].mean())) for part in parts]
    return round(sum(gaps) / len(p), 4) if len(p) >= 100 else None


def brier(p: Any, right: Any) -> float | None:
    """The share of the gain over the base rate that isotonic regression fitted on these very pairs has."""
    order = np.argsort(p, kind="stable")
    y = right[order].astype(float)
    base, ours = float(((y - y.mean()) ** 2).mean()), float(((y - p[order]) ** 2).mean())
    best = float(((y - rising(y, np.ones(len(y)))) ** 2).mean())
    return round((base - ours) / max(base - best, 1e-12), 4)


def sureness(model: Any, wide: Any, test: Dataset) -> dict[str, Any]:
    """How well the probabilities of a model hold on test, of which `wide` has the best 100 labels."""
    if model.calibration is None:  # too few held-out documents
        return {}
    ranking = wide.top(5)
    p, kept = model.probabilities(ranking), ranking.padded(5)
    right = hits(kept, test.Y)[kept >= 0]
    listed, bins = p >= 0.01, frequency_bin(model.counts[ranking.ids])
    found: dict[str, Any] = {"ece": error(p[listed], right[listed]), "brier": brier(p[listed], right[listed])}
    for b, name in enumerate(("tail", "torso", "head")):
        found[f"ece_{name}"] = error(p[listed & (bins == b)], right[listed & (bins == b)])
    p, kept = model.probabilities(wide), wide.padded(100)
    hit = hits(kept, test.Y)
    right, rows = hit[kept >= 0], np.repeat(np.arange(len(test)), np.diff(wide.indptr))
    for precision in (0.5, 0.7, 0.9):
        cut = model.calibration.threshold_for_precision(precision)
        accepted = np.zeros(len(p), bool) if cut is None else p >= cut
        running = np.cumsum(right[np.argsort(-p, kind="stable")]) / np.arange(1, len(p) + 1)
        best = int(np.flatnonzero(running >= precision).max(initial=-1)) + 1
        reached = None if not accepted.any() else round(100 * float(right[accepted].mean()), 2)
        found[f"precision_{precision}"] = {"reached": reached, "accepted": int(accepted.sum()), "best_on_test": best}
    true = np.maximum(np.diff(test.Y.indptr), 1)
    for recall in (0.5, 0.7, 0.8):
        try:
            cut = model.calibration.threshold_for_recall(recall)
        except treetop.core.errors.ConfigError as refused:
            found[f"recall_{recall}"] = str(refused)[:60]
            continue
        some = p >= cut
        reached = np.bincount(rows[some], right[some], len(test)) / true
        fixed = np.flatnonzero((np.cumsum(hit, 1) / true[:, None]).mean(0) >= reached.mean())
        found[f"recall_{recall}"] = {
            "reached": round(100 * float(reached.mean()), 2), "labels": round(float(some.sum() / len(test)), 2),
            "fixed_k": int(fixed[0]) + 1 if len(fixed) else None,
        }  # fmt: skip
    return found


def allowed(ranking: Any, test: Dataset) -> Any:
    """A ranking without the pairs that the filter of the data names."""
    if test.filter_pairs is None:
        return ranking
    rows, width = np.repeat(np.arange(len(test)), np.diff(ranking.indptr)), np.int64(test.n_labels)
    barred = test.filter_pairs[:, 0] * width + test.filter_pairs[:, 1]
    return ranking.where(~np.isin(rows * width + ranking.ids, barred))


def told(model: Any, test: Dataset, held_out: Dataset) -> dict[str, Any]:
    """Scores; of a model with several sources also those of each, and how far it lies above the best."""
    wide = allowed(model.rank_dataset(test, DEPTH), test)
    made: dict[str, Any] = {**_scores(wide, model, test), **sureness(model, wide, test)}
    if model.fusion is None:
        return made
    scorer, drawn = model.fusion.scorer, np.random.default_rng(0).permutation(len(held_out))[:2000]
    held = held_out.take(np.sort(drawn))
    chosen = [per_document(r, model, held)["P@1"].mean() for r in source_rankings(model, model.fusion, held)]
    lists, best = source_rankings(model, model.fusion, test), int(np.argmax(chosen))
    each = [
        {"held-out P@1": round(100 * p, 2), **_scores(r, model, test, "P@1", "P@5", "PSP@5")}
        for p, r in zip(chosen, lists, strict=True)
    ]
    gap = above(per_document(wide, model, test), per_document(lists[best], model, test))
    return made | {"kind": scorer.kind, "lift": scorer.rarity.lift, "sources": each, "best": best, "above": gap}


def _scores(ranking: Any, model: Any, test: Dataset, *names: str) -> dict[str, float]:
    found = shown(score(ranking, test, model.counts, model.n_train, resamples=0))
    return {name: found[name] for name in names} if names else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500.0, help="start no training after this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--train", type=int, default=0, help="learn from so many texts; 0: all")
    parser.add_argument("--names", nargs="*", default=[*RECIPES, *BLENDS])
    parser.add_argument("--save", type=Path, help="keep the models of recipes in this folder")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    begun, encoder = time.perf_counter(), unpack(options.data)

    def say(**line: Any) -> None:
        print(json.dumps(line), flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")

    gpu = torch.cuda.get_device_name() if options.device != "cpu" else "none"
    say(section="machine", gpu=gpu, torch=torch.__version__, command=" ".join(sys.argv))
    for folder in options.folders:
        train, test = some(folder, options)
        split = HoldOut().split(train, options.seed)
        if split is None:
            say(section="error", data=folder, error="too few documents to hold some out")
            continue
        facts = {"data": Path(folder).name, "seed": options.seed, "texts": len(split.train)}
        facts |= {"held_out": len(split.held_out), "test": len(test)}
        try:
            one(options, split, test, facts, say, begun, encoder)
        except Exception:
            say(section="error", **facts, error=traceback.format_exc()[-1500:])
        gc.collect()
        if options.device != "cpu":
            torch.cuda.empty_cache()


def some(folder: str, options: Any) -> tuple[Dataset, Dataset]:
    """Rows to learn from, and rows of test."""
    train = Dataset.read(folder, "train")
    if options.train:
        train = train.take(np.sort(np.random.default_rng(0).permutation(len(train))[: options.train]))
    test = Dataset.read(folder, "test").align(train.labels)
    if len(test) > options.rows:
        test = test.take(np.sort(np.random.default_rng(0).permutation(len(test))[: options.rows]))
    return train, test


def one(options: Any, split: Any, test: Dataset, facts: Any, say: Any, begun: float, encoder: Path) -> None:
    models: dict[str, Any] = {}
    needed = {member for name in options.names for member in BLENDS.get(name, (name,))}
    for name in RECIPES:
        if name not in needed or time.perf_counter() - begun > options.seconds:
            continue
        started = time.perf_counter()
        models[name] = trained(name, split.train, split.held_out, options, encoder)
        seconds = time.perf_counter() - started
        if options.save:
            models[name].save(options.save / f"{facts['data']}-{name}-{options.seed}", overwrite=True)
        say(section="taught", **facts, name=name, fit_s=round(seconds, 1), **told(models[name], test, split.held_out))
    for name, members in BLENDS.items():
        if name not in options.names or not set(members) <= set(models):
            continue
        started = time.perf_counter()
        both = treetop.blend([models[member] for member in members], held_out=split.held_out)
        seconds = time.perf_counter() - started
        say(
            section="blend",
            **facts,
            name=name,
            of=members,
            learn_s=round(seconds, 1),
            **told(both, test, split.held_out),
        )


if __name__ == "__main__":
    main()
