"""What models of five parts of few documents teach: fusion and probabilities without held-out documents; on test rows.

    PYTHONPATH=benchmarks/gpu python benchmarks/choices/few_documents.py bibtex-bow wordnet-taxonomy:3000 --record

NAME:ROWS takes so many training rows, drawn with a seed; test has 10,000 rows at most. Each recipe is trained as
`treetop fit` trains it and with `--no-calibrate`, which is what such data got before; `blend` then averages ranks.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from fuse import sureness

import treetop
from treetop.core.dataset import Dataset
from treetop.core.provenance import append, provenance

OUT = Path(__file__).parents[1] / "results/few-documents.jsonl"
RECIPES = {
    "xr_linear": ("xr_linear", {}),
    "lexical": ("lexical", {}),
    "blend": ("blend", {"sources": ["xr_linear", "neighbours"]}),
    "blend with lexical": ("blend", {"sources": ["xr_linear", "neighbours", "lexical"]}),
}
ROWS = 10_000


def drawn(data: Dataset, rows: int, seed: int) -> Dataset:
    return data.take(np.sort(np.random.default_rng(seed).permutation(len(data))[:rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--folder", type=Path, default=Path("../shared/data"))
    parser.add_argument("--recipes", nargs="*", default=[*RECIPES], choices=[*RECIPES])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for shape in options.data:
        name, _, rows = shape.partition(":")
        for seed in options.seeds:
            train = Dataset.read(str(options.folder / name), "train")
            train = drawn(train, int(rows), seed) if rows else train
            test = drawn(Dataset.read(str(options.folder / name), "test"), ROWS, 0).align(train.labels)
            for cell in options.recipes:
                recipe, settings = RECIPES[cell]
                for calibrate in (True, False):
                    started = time.perf_counter()
                    try:
                        model = treetop.fit(recipe, train, settings=settings, seed=seed, calibrate=calibrate)
                    except treetop.TreetopError as refused:  # rows without texts
                        print(f"{shape} {cell}: {refused}", flush=True)
                        break
                    seconds = time.perf_counter() - started
                    scores = model.evaluate(test, resamples=0)
                    line = {
                        "name": f"{shape} {cell} {'by folds' if calibrate else 'as it is'}",
                        "data": shape,
                        "what": cell,
                        "folds": calibrate,
                    }
                    line |= {"documents": len(train), "labels": int((model.counts > 0).sum())}
                    line |= {metric: round(scores[metric], 2) for metric in ("P@1", "P@5", "PSP@5")}
                    line |= {"seconds": round(seconds, 2)} | sureness(model, model.rank_dataset(test, 100), test)
                    print(json.dumps(line), flush=True)
                    if options.record:
                        append(OUT, provenance(seed=seed) | line)


if __name__ == "__main__":
    main()
