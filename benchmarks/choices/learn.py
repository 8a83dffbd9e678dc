"""A linear tree that learns new rows (`treetop learn`), beside one trained again on everything.

    python benchmarks/choices/learn.py ../shared/data/wordnet-taxonomy --shares 0.02 0.2 --record

`before` is trained without a random share of the training rows, `learned` has learned them since, `trained` was trained
on all. `same` says whether labels without new rows have the scores they had, bit by bit. Tested on test, or with
`--held-out` on a sixth of train.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from labels_added import read

import treetop
from treetop.core import provenance
from treetop.evaluate.score import score

RECORD = Path(__file__).parents[1] / "results/learn.jsonl"
CHECKED = 1000


def same_bits(before, after, test):
    """Whether labels without new rows have the scores they had."""
    moved = {c for edit in after.edits.log for c in edit.part.arrays.get("columns", np.zeros(0, int)).tolist()}
    untouched = np.array([c not in moved and c < before.n_trained for c in range(len(after.labels))])
    texts = test.texts.span(0, CHECKED)
    old, new = before.rank(texts, len(before.labels)), after.rank(texts, len(after.labels))
    old, new = (found.where(untouched[found.ids]) for found in (old, new))
    return all(np.array_equal(getattr(old, name), getattr(new, name)) for name in ("indptr", "ids", "score"))


def ways(train, test, share, seed):
    """(way, seconds, model, more to record)"""
    order = np.random.default_rng(seed).permutation(len(train))
    n = int(share * len(train))
    new, old = train.take(np.sort(order[:n])), train.take(np.sort(order[n:]))
    before = treetop.fit("xr_linear", old, calibrate=False, seed=seed)
    yield "before", 0.0, before, {}
    started = time.monotonic()
    after = before.learn(new)
    seconds = time.monotonic() - started
    counts = {edit.action: edit.entry["labels"] for edit in after.edits.log}
    yield "learned", seconds, after, {"labels": counts, "same": same_bits(before, after, test)}
    started = time.monotonic()
    full = treetop.fit("xr_linear", train, calibrate=False, seed=seed)
    yield "trained", time.monotonic() - started, full, {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    train, test = read(given.data, given.held_out)
    test = test.align(train.labels)
    for share in given.shares:
        for way, seconds, model, more in ways(train, test, share, given.seed):
            found = score(model.rank_dataset(test, 10), test, train.label_counts, len(train), resamples=0)
            line = {"data": Path(given.data).name, "held_out": given.held_out, "recipe": "xr_linear", "share": share}
            line |= {"way": way, **{name: round(found[name], 2) for name in ("P@1", "P@5", "PSP@5")}}
            line |= {"seconds": round(seconds, 2), **more}
            print(json.dumps(line), flush=True)
            if given.record:
                provenance.append(RECORD, line | provenance.provenance(seed=given.seed))


if __name__ == "__main__":
    main()
