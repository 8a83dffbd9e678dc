"""Labels added to a linear tree by examples: are they found as well as after training on everything?

    python benchmarks/choices/labels_added.py wordnet --seeds 0 1 2 --record

Of the labels with at least two training texts, 100 are taken out of the label set and of the training rows; `xr_linear`
learns without them, and they are added with their rows (`treetop labels add --examples`). One record for each way:
`left out`, `added` (examples: the rows that have one of the labels; stand-ins drawn from the functions of siblings are
further negatives), `added, no stand-ins`, `added, texts kept` (the model keeps its training texts, so siblings' texts
are negatives), `added, all rows` (examples: all training rows) and `trained` (on everything). With `--held-out` a sixth
of train is tested on instead, for choices.
`new_P@5` counts added labels only, over test rows that have one, all labels competing; `old_P@5` counts added labels as
misses, over all test rows; `shown` is the share of added labels among the best five. `same` says whether the scores of
old labels have the same bits as before.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np

import treetop
from treetop.core import provenance
from treetop.core.dataset import Dataset, LabelSet
from treetop.edit import stand_ins
from treetop.evaluate.match import hits

RECORD = Path(__file__).parents[1] / "results/labels-added.jsonl"
HIDDEN, K, CHECKED = 100, 10, 1000  # labels taken out; labels of an answer; test rows whose bits are compared


def cut(data, columns):
    """The same rows with these labels only."""
    held = data.labels
    kept = LabelSet(*(texts.take(columns) for texts in (held.ids, held.names, held.texts)), held.status[columns])
    return dataclasses.replace(data, Y=data.Y[:, columns], labels=kept)


def measured(model, test, n_old):
    """What the best labels are worth; columns from `n_old` on were added."""
    top = model.rank_dataset(test, K).padded(K)
    hit, new = hits(top, test.Y), top >= n_old
    rows = np.flatnonzero(np.diff(test.Y[:, n_old:].indptr))
    return {
        "new_P@5": round(100 * float((hit & new)[rows, :5].mean()), 2),
        "new_R@10": round(100 * float((hit & new).sum()) / test.Y[:, n_old:].nnz, 2),
        "old_P@1": round(100 * float((hit & ~new)[:, 0].mean()), 2),
        "old_P@5": round(100 * float((hit & ~new)[:, :5].mean()), 2),
        "all_P@5": round(100 * float(hit[:, :5].mean()), 2),
        "shown": round(100 * float(new[:, :5].mean()), 2),
        "test_rows": len(rows),
    }


def same_bits(model, before, test, n_old):
    """Whether old labels have the scores they had."""
    texts = test.texts.span(0, CHECKED)
    now, then = model.rank(texts, K + HIDDEN), before.rank(texts, K)
    now = now.where(now.ids < n_old).top(K)
    return all(np.array_equal(getattr(now, name), getattr(then, name)) for name in ("indptr", "ids", "score"))


def read(data, held_out):
    """(training rows, rows to test on)"""
    train = Dataset.read(data)
    if not held_out:
        return train, Dataset.read(data, "test")
    documents = np.flatnonzero(train.documents)
    out = np.sort(np.random.default_rng(7).permutation(documents)[: len(documents) // 6])
    return train.take(np.setdiff1d(np.arange(len(train)), out)), train.take(out)


def runs(data, seed, held_out):
    """(way, seconds, model, model before or None, test rows, number of old labels) of each way."""
    train, test = read(data, held_out)
    often = np.flatnonzero(train.label_counts >= 2)
    hidden = np.sort(np.random.default_rng(seed).permutation(often)[:HIDDEN])
    old = np.setdiff1d(np.arange(train.n_labels), hidden)
    order = np.concatenate([old, hidden])
    test = cut(test.align(train.labels), order)
    few = train.take(np.flatnonzero(np.diff(train.Y[:, hidden].tocsr().indptr)))
    new = cut(train, hidden).labels
    base = treetop.fit("xr_linear", cut(train, old), calibrate=False, keep_texts=True, seed=seed)
    bare = dataclasses.replace(base, documents=None)
    yield "left out", 0.0, bare, None, test, len(old)
    most = stand_ins.MOST
    for way, model, rows in (
        ("added", bare, few), ("added, no stand-ins", bare, few), ("added, texts kept", base, few),
        ("added, all rows", bare, train),
    ):  # fmt: skip
        stand_ins.MOST = 0 if way == "added, no stand-ins" else most
        started = time.monotonic()
        made = model.add_labels(new, examples=rows)
        yield way, time.monotonic() - started, made, model, test, len(old)
    started = time.monotonic()
    full = treetop.fit("xr_linear", cut(train, order), calibrate=False, seed=seed)
    yield "trained", time.monotonic() - started, full, None, test, len(old)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    for seed in given.seeds:
        for way, seconds, model, before, test, n_old in runs(given.data, seed, given.held_out):
            line = {
                "data": Path(given.data).name,
                "held_out": given.held_out,
                "recipe": "xr_linear",
                "way": way,
                "added": HIDDEN,
            }
            line |= measured(model, test, n_old) | {"seconds": round(seconds, 2)}
            line |= {} if before is None else {"same": same_bits(model, before, test, n_old)}
            print(json.dumps(line), flush=True)
            if given.record:
                provenance.append(RECORD, line | provenance.provenance(seed=seed))


if __name__ == "__main__":
    main()
