"""How much labels beyond the first five count when probabilities are learnt: calibration error on held-out rows.

    python benchmarks/choices/calibration.py wordnet ../shared/data/finna-yso-en-25k --record

Of each data set's train rows a model learns from most, half of the others teach the probabilities, and the other half
judges them: error over the best five labels with a probability of 0.01 or more (15 bins of equal mass), overall and by
label frequency, and the precision that thresholds for 0.5, 0.7 and 0.9 reach over the best 100.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import treetop
from treetop.assemble.held_out import calibration
from treetop.assemble.held_out.judged import Judged
from treetop.core import provenance
from treetop.core.dataset import Dataset
from treetop.data.split import holdout
from treetop.evaluate.match import hits
from treetop.predict.calibrate import frequency_bin

RECORD = Path(__file__).parents[1] / "results/calibration-choice.jsonl"
COUNTS = (1.0, 0.3, 0.1, 0.03)


def error(p, right, bins=15):
    parts = [part for part in np.array_split(np.argsort(p, kind="stable"), bins) if len(part)]
    return round(sum(len(x) * abs(float(p[x].mean() - right[x].mean())) for x in parts) / max(len(p), 1), 4)


def judged(model, sure, data, wide):
    ranking = wide.top(5)
    p, kept = sure.probabilities(ranking.score, model.counts[ranking.ids]), ranking.padded(5)
    right, bins = hits(kept, data.Y)[kept >= 0].astype(float), frequency_bin(model.counts[ranking.ids])
    found = {"ece": error(p[p >= 0.01], right[p >= 0.01])}
    for b, name in enumerate(("tail", "torso", "head")):
        chosen = (p >= 0.01) & (bins == b)
        found |= {f"ece_{name}": error(p[chosen], right[chosen]), f"pairs_{name}": int(chosen.sum())}
    p, kept = sure.probabilities(wide.score, model.counts[wide.ids]), wide.padded(100)
    right = hits(kept, data.Y)[kept >= 0]
    for precision in (0.5, 0.7, 0.9):
        cut = sure.threshold_for_precision(precision)
        found[f"precision_{precision}"] = None if cut is None else round(100 * float(right[p >= cut].mean()), 2)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--recipes", nargs="*", default=["xr_linear", "neighbours", "extremetext"])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for name in options.data:
        train = Dataset.read(name)
        kept, out = holdout(train, min(0.2, 10_000 / len(train)), 77)
        half = np.random.default_rng(0).permutation(out)
        teaching, judging = (train.take(np.sort(rows)) for rows in np.array_split(half, 2))
        for recipe in options.recipes:
            model = treetop.fit(recipe, train.take(kept), calibrate=False)
            pairs = Judged.of([model.rank_dataset(teaching, 100)], teaching, model.counts, model.n_train)
            wide = model.rank_dataset(judging, 100)
            for further in COUNTS:
                calibration.FURTHER = further
                sure = calibration.learn_calibration(pairs, model.counts, np.diff(teaching.Y.indptr))
                line = {"data": train.name, "recipe": recipe, "further": further, "documents": len(teaching)}
                line |= judged(model, sure, judging, wide) | provenance.provenance(seed=0)
                print(json.dumps(line), flush=True)
                if options.record:
                    with RECORD.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
