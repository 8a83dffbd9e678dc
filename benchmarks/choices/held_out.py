"""Settings of a recipe on rows held out of train: how defaults of `pfastrexml` and `annexml` were chosen.

    python benchmarks/choices/held_out.py pfastrexml ../shared/data/finna-yso-en-25k --set trees=10 --set tree.cost=3 \
        --record forest-choice

One row of twenty (at most 4,000) is held out by a hash of its text. `name` says what was changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import treetop
from treetop.assemble.probe import model_bytes
from treetop.core import provenance
from treetop.data.split import holdout
from treetop.evaluate.score import score

METRICS = ("P@1", "P@5", "nDCG@10", "PSP@1", "PSP@5", "C@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("data")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, help="train on so many rows, drawn at random")
    parser.add_argument("--record", help="name of a file of benchmarks/results")
    options = parser.parse_args()
    data = treetop.Dataset.read(options.data)
    kept, out = holdout(data, min(0.05, 4000 / len(data)), 0)
    if options.rows:
        kept = np.sort(np.random.default_rng(0).permutation(kept)[: options.rows])
    train, test = data.take(kept), data.take(out)
    wall, cpu = time.monotonic(), time.process_time()
    how = {"preset": options.preset, "settings": options.set, "seed": options.seed}
    model = treetop.fit(options.recipe, train, calibrate=False, **how)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    model.rank_dataset(test, 10)
    answer, began = time.process_time(), time.monotonic()
    ranking = model.rank_dataset(test, 10)
    answer, seconds = time.process_time() - answer, time.monotonic() - began
    found = score(ranking, test, train.label_counts, len(train), resamples=0)
    changed = ([] if options.preset == "default" else [options.preset]) + options.set
    record = {
        **provenance.provenance(seed=options.seed),
        "name": " ".join([options.recipe, *changed]),
        "recipe": options.recipe,
        "data": train.name,
        "rows": len(train),
        "held_out": len(test),
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "model_mb": round(model_bytes(model) / 1e6, 1),
        "docs_per_cpu_s": round(len(test) / max(answer, 1e-9)),
        "docs_per_s": round(len(test) / max(seconds, 1e-9)),
        **{metric: round(found[metric], 2) for metric in METRICS},
    }
    if options.record:
        provenance.append(Path(__file__).parents[1] / f"results/{options.record}.jsonl", record)
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
