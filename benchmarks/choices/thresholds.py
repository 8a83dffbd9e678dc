"""Whether a threshold for each label pays: F1 on held-out rows of pooled thresholds, thresholds by frequency, by label.

    python benchmarks/choices/thresholds.py wordnet ../shared/data/finna-yso-en-25k --rows 60000 --record

Of each data set's train rows a model learns from most, half of the others teach probabilities and thresholds, and the
other half judges them (micro-F1, and macro-F1 over labels with positives there, both over the best 100 labels).
A label's threshold is where its F1 was best, drawn towards the pooled one in log odds as if `shrink` positives had said
that; labels with fewer than `LEAST` positives among the teaching rows keep the pooled one.
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

RECORD = Path(__file__).parents[1] / "results/thresholds-choice.jsonl"
GRID = np.linspace(0.02, 0.98, 97)
SHRINK = (0, 5, 20, 50)
LEAST = 5


def scores(ids, p, right, positives, cut):
    """Micro- and macro-F1 in percent of the pairs at or above their label's threshold."""
    kept, n = p >= cut[ids], len(positives)
    made, found = np.bincount(ids[kept], minlength=n), np.bincount(ids[kept & right], minlength=n)
    here = positives > 0
    macro = (2 * found[here] / (made + positives)[here]).mean()
    return 200 * found.sum() / (made.sum() + positives.sum()), 100 * macro


def best(ids, p, right, positives, chosen, which):
    """The threshold of the grid at which micro- (0) or macro-F1 (1) of the chosen labels is highest."""
    of = chosen[ids]
    alone = np.where(chosen, positives, 0)
    n = len(positives)
    values = [scores(ids[of], p[of], right[of], alone, np.full(n, t))[which] for t in GRID]
    return float(GRID[int(np.argmax(values))])


def by_label(ids, p, right, positives, pooled, shrink):
    cut = np.full(len(positives), pooled)
    order = np.lexsort((-p, ids))
    ids, p, right = ids[order], p[order], right[order]
    starts = np.searchsorted(ids, np.arange(len(positives) + 1))
    base = np.log(pooled / (1 - pooled))
    for label in np.flatnonzero(positives >= LEAST):
        a, b = starts[label], starts[label + 1]
        if a == b:
            continue
        found = np.cumsum(right[a:b])
        f1 = 2 * found / (np.arange(1, b - a + 1) + positives[label])
        best_p = np.clip(float(p[a + int(np.argmax(f1))]), 0.01, 0.99)
        m = positives[label]
        odds = (m * np.log(best_p / (1 - best_p)) + shrink * base) / (m + shrink)
        cut[label] = 1 / (1 + np.exp(-odds))
    return cut


def pairs(model, sure, data):
    wide = model.rank_dataset(data, 100)
    p, kept = sure.probabilities(wide.score, model.counts[wide.ids]), wide.padded(100)
    return (
        wide.ids,
        p.astype(np.float64),
        hits(kept, data.Y)[kept >= 0],
        np.bincount(data.Y.indices, minlength=data.n_labels),
    )


def compared(model, teaching, judging):
    judged = Judged.of([model.rank_dataset(teaching, 100)], teaching, model.counts, model.n_train)
    sure = calibration.learn_calibration(judged, model.counts, np.diff(teaching.Y.indptr))
    taught, judges = pairs(model, sure, teaching), pairs(model, sure, judging)
    n, everything = len(model.counts), np.ones(len(model.counts), bool)
    micro, macro = (best(*taught, everything, which) for which in (0, 1))
    bins = frequency_bin(model.counts)
    by_bin = np.full(n, micro)
    for b in range(3):
        by_bin[bins == b] = best(*taught, bins == b, 0)
    cuts = {"pooled, as now": np.full(n, sure.threshold_for_f1()), "pooled, micro": np.full(n, micro)}
    cuts |= {"pooled, macro": np.full(n, macro), "by frequency": by_bin}
    cuts |= {f"by label, shrink {s}": by_label(*taught, micro, s) for s in SHRINK}
    cuts |= {f"by label from macro, shrink {s}": by_label(*taught, macro, s) for s in SHRINK}
    own = int((taught[3] >= LEAST).sum())
    for name, cut in cuts.items():
        a, b = scores(*judges, cut)
        yield {"form": name, "microF1": round(a, 2), "macroF1": round(b, 2), "cut": round(float(np.median(cut)), 3),
               "labels": int((judges[3] > 0).sum()), "own": own}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--recipes", nargs="*", default=["xr_linear", "neighbours"])
    parser.add_argument("--rows", type=int, default=10**9, help="rows of train to use")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for name in options.data:
        train = Dataset.read(name)
        some = np.sort(np.random.default_rng(1).permutation(len(train))[: options.rows])
        train = train.take(some)
        kept, out = holdout(train, min(0.2, 10_000 / len(train)), 77)
        half = np.random.default_rng(0).permutation(out)
        teaching, judging = (train.take(np.sort(rows)) for rows in np.array_split(half, 2))
        for recipe in options.recipes:
            model = treetop.fit(recipe, train.take(kept), calibrate=False)
            for found in compared(model, teaching, judging):
                line = {"data": train.name, "rows": len(train), "recipe": recipe, "documents": len(teaching), **found}
                print(json.dumps(line), flush=True)
                if options.record:
                    with RECORD.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line | provenance.provenance(seed=0)) + "\n")


if __name__ == "__main__":
    main()
