"""How many nearest texts vote in `sentence_neighbours`, and by which power of the cosine; on held-out parts of train.

    python benchmarks/choices/sentence_neighbours.py DATA... --rows 10000 --record

Texts are read once by the default encoder; every k and power is then evaluated on the same 1,500 documents, beside
`neighbours` (tf-idf, as it comes) trained on the same rows.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import treetop
from treetop.core.dataset import Dataset
from treetop.core.provenance import append, provenance
from treetop.rank.dense_neighbours import DenseNeighbours

OUT = Path(__file__).parents[1] / "results" / "sentence-neighbours-choice.jsonl"
K, POWER = (10, 30, 100, 300), (1.0, 3.0, 10.0, 20.0, 40.0)
VALIDATION = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for name in options.data:
        data = Dataset.read(name)
        order = np.random.default_rng(0).permutation(np.flatnonzero(data.documents))
        held_out = data.take(np.sort(order[-VALIDATION:]))
        train = data.take(np.sort(order[: min(options.rows, len(order) - VALIDATION)]))
        cells = {"neighbours": treetop.fit("neighbours", train, calibrate=False)}
        model = treetop.fit("sentence_neighbours", train, settings={"k": max(K)}, calibrate=False)
        level = model.members[0][0]  # its rank holds all vectors
        for k in K:
            for power in POWER:
                rank = DenseNeighbours(level.rank.vectors, level.rank.targets, n=level.rank.n, k=k, power=power)
                cells[f"k={k} power={power:g}"] = replace(model, members=[[replace(level, rank=rank)]])
        for cell, each in cells.items():
            scores = each.evaluate(held_out, resamples=0)
            line = {"name": f"{data.name} {cell}", "data": data.name, "rows": len(train), "cell": cell}
            line |= {metric: round(scores[metric], 2) for metric in ("P@1", "P@5", "PSP@5", "R@10")}
            print(line, flush=True)
            if options.record:
                append(OUT, provenance(seed=0) | line)


if __name__ == "__main__":
    main()
