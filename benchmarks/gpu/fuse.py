"""Models trained without a tenth of train, and blends of them learnt on that tenth; one JSON line each.

    python benchmarks/gpu/fuse.py --data gpu_carry --out results.jsonl wordnet-taxonomy reuters21578-modapte

Scores are those of test (at most 10,000 rows of it). A blend's line also says how well its probabilities hold: expected
calibration error over the best five labels with a probability of 0.01 or more (15 bins of equal mass), overall and by
label frequency, and what `--precision` reached.
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
from treetop.core.dataset import Dataset
from treetop.data.split import holdout
from treetop.evaluate.match import hits
from treetop.predict.calibrate import frequency_bin

SOURCES: dict[str, tuple[str, str]] = {
    "xr_linear": ("xr_linear", "default"),
    "neighbours": ("neighbours", "default"),
    "unidec-cpu": ("unidec", "cpu"),
    "lightxml": ("lightxml", "default"),
    "renee": ("renee", "default"),
    "unidec": ("unidec", "default"),
}
BLENDS = {
    "cpu": ("xr_linear", "neighbours", "unidec-cpu"),
    "four": ("xr_linear", "lightxml", "renee", "unidec"),
    "unidec and xr_linear": ("unidec", "xr_linear"),
}
MOST = 10_000


def trained(name: str, rows: Dataset, encoder: Path, seed: int) -> Any:
    recipe, preset = SOURCES[name]
    settings = {} if recipe in {"xr_linear", "neighbours"} else {"encoder": {"model": str(encoder)}}
    torch.backends.cuda.matmul.allow_tf32 = True
    return treetop.fit(recipe, rows, preset=preset, settings=settings, seed=seed, device="cuda").to("cuda")


def error(p: Any, right: Any, bins: int = 15) -> float | None:
    """Expected calibration error over bins of equal mass."""
    parts = [part for part in np.array_split(np.argsort(p, kind="stable"), bins) if len(part)]
    gaps = [len(part) * abs(float(p[part].mean()) - float(right[part].mean())) for part in parts]
    return round(sum(gaps) / len(p), 4) if len(p) >= 100 else None


def sureness(model: Any, test: Dataset) -> dict[str, Any]:
    """How well the probabilities of a model hold on test."""
    if model.calibration is None:  # too few held-out documents
        return {}
    ranking = model.rank_dataset(test, 5)
    p, kept = model.probabilities(ranking), ranking.padded(5)
    right = hits(kept, test.Y)[kept >= 0]
    listed, bins = p >= 0.01, frequency_bin(model.counts[ranking.ids])
    found: dict[str, Any] = {"ece": error(p[listed], right[listed])}
    for b, name in enumerate(("tail", "torso", "head")):
        found[f"ece_{name}"] = error(p[listed & (bins == b)], right[listed & (bins == b)])
    wide = model.rank_dataset(test, 100)
    p, kept = model.probabilities(wide), wide.padded(100)
    right = hits(kept, test.Y)[kept >= 0]
    for precision in (0.5, 0.7, 0.9):
        cut = model.calibration.threshold_for_precision(precision)
        accepted = np.zeros(len(p), bool) if cut is None else p >= cut
        running = np.cumsum(right[np.argsort(-p, kind="stable")]) / np.arange(1, len(p) + 1)
        best = int(np.flatnonzero(running >= precision).max(initial=-1)) + 1
        reached = None if not accepted.any() else round(100 * float(right[accepted].mean()), 2)
        found[f"precision_{precision}"] = {"reached": reached, "accepted": int(accepted.sum()), "best_on_test": best}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500.0, help="start no training after this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    begun, encoder = time.perf_counter(), unpack(options.data)

    def say(**line: Any) -> None:
        print(json.dumps(line), flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")

    say(section="machine", gpu=torch.cuda.get_device_name(), torch=torch.__version__, command=" ".join(sys.argv))
    for folder in options.folders:
        train = Dataset.read(folder, "train")
        test = Dataset.read(folder, "test").align(train.labels)
        if len(test) > MOST:
            test = test.take(np.sort(np.random.default_rng(0).permutation(len(test))[:MOST]))
        kept, out = holdout(train, min(0.1, 10_000 / len(train)), options.seed)
        facts = {
            "data": Path(folder).name,
            "seed": options.seed,
            "texts": len(kept),
            "held_out": len(out),
            "test": len(test),
        }
        models: dict[str, Any] = {}
        try:
            for name in SOURCES:
                if time.perf_counter() - begun > options.seconds:
                    break
                started = time.perf_counter()
                models[name] = trained(name, train.take(kept), encoder, options.seed)
                seconds = time.perf_counter() - started
                scores = shown(models[name].evaluate(test, resamples=0))
                say(section="source", **facts, name=name, fit_s=round(seconds, 1), **scores)
            for name, members in BLENDS.items():
                if not set(members) <= set(models):
                    continue
                started = time.perf_counter()
                both = treetop.blend([models[member] for member in members], held_out=train.take(out))
                seconds, scorer = time.perf_counter() - started, both.fusion.scorer
                kind = {"kind": scorer.kind, "lift": scorer.rarity.lift}
                scores = shown(both.evaluate(test, resamples=0))
                say(section="blend", **facts, name=name, of=members, learn_s=round(seconds, 1), **kind, **scores,
                    **sureness(both, test))  # fmt: skip
        except Exception:
            say(section="error", **facts, error=traceback.format_exc()[-1500:])
        models.clear()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
