"""Seconds to add 1,000 labels from examples to a linear tree of a million labels with `treetop labels add --examples`.

    python benchmarks/speed/labels_examples.py [--labels N] [--new N] [--folder DIR] [--record]

The model is `xr_linear`, trained here on made-up texts: every label belongs to a topic of about a hundred and has two
words of its own, a text has two labels of a topic, their words, some of the topic's and common ones. New labels have
four texts each; their words are one each of two old labels, as words that no training text had are not known. `same`
says whether old labels have the scores they had, bit by bit, in 500 texts; `new_P@1` is the share of 500 other texts of
new labels whose best label is the new one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import treetop
from treetop.core import provenance
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts

RECORD = Path(__file__).parents[1] / "results/labels-examples-speed.jsonl"
TOPIC, OWN, CHECKED, EXAMPLES = 100, 2, 500, 4  # labels of a topic; words of a label; texts that are checked
PEAK = "import json,resource,sys,runpy;sys.argv=sys.argv[1:];\ntry: runpy.run_module('treetop',run_name='__main__')\n"
PEAK += "finally: print(json.dumps({'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))"


def texts_of(labels, rng, n_all):
    """One text for each row of two labels (a label twice: it stands alone)."""
    common = rng.zipf(1.5, (len(labels), 3)).clip(max=5000)
    theme = rng.integers(0, 20, (len(labels), 3))
    made = []
    for row, (a, b) in enumerate(labels.tolist()):
        own = [f"n{(label + i * (label >= n_all)) % n_all}x{i}" for label in {a, b} for i in range(OWN)]
        topic = a % (n_all // TOPIC)
        words = [*own, *(f"t{topic}x{i}" for i in theme[row].tolist()), *(f"c{i}" for i in common[row].tolist())]
        made.append(" ".join(words))
    return Texts.of(made)


def data(pairs, ids, rng, n_all):
    rows = np.repeat(np.arange(len(pairs)), 2)
    Y = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, pairs.reshape(-1))), (len(pairs), len(ids)))
    Y.data[:] = 1.0
    return Dataset(texts_of(pairs, rng, n_all), Y, LabelSet.of(ids), name="made")


def trained(n, folder, rng):
    """Every label once as the first and once as the second of a text; the second is of the same topic."""
    topics = n // TOPIC
    first = rng.permutation(n)
    pairs = np.stack([first, (first + topics * rng.integers(1, TOPIC, n)) % n], 1)
    settings = {"tfidf": {"ngrams": [1, 1], "min_df": 1}, "linear": {"max_nonzeros": 100}}
    started = time.monotonic()
    treetop.fit("xr_linear", data(pairs, [str(i) for i in range(n)], rng, n), settings=settings, out=folder / "m",
                calibrate=False, keep_texts=False)  # fmt: skip
    return time.monotonic() - started


def new_rows(n, count, rng):
    """Examples of labels `n` and up, each with an old label of its topic; and other texts of theirs."""
    fresh = np.arange(n, n + count)

    def rows(times):
        a = np.repeat(fresh, times)
        old = (a + (n // TOPIC) * rng.integers(1, TOPIC, len(a))) % n
        return np.stack([a, old], 1)

    ids = [str(i) for i in range(n + count)]
    return data(rows(EXAMPLES), ids, rng, n), data(rows(1)[:CHECKED], ids, rng, n)


def measured(n, count, folder, rng):
    examples, asked = new_rows(n, count, rng)
    with (folder / "rows.jsonl").open("w") as file:
        for text, row in zip(examples.texts, np.split(examples.Y.indices, examples.Y.indptr[1:-1]), strict=True):
            file.write(json.dumps({"text": text, "labels": [str(c) for c in row.tolist()]}) + "\n")
    before = treetop.load(folder / "m").rank(asked.texts, 10)
    command = [sys.executable, "-c", PEAK, "treetop", "labels", "add", str(folder / "m"), "--examples"]
    started = time.monotonic()
    done = subprocess.run([*command, str(folder / "rows.jsonl")], check=True, text=True, stdout=subprocess.PIPE)
    seconds = time.monotonic() - started
    after = treetop.load(folder / "m").rank(asked.texts, 40)
    old = after.where(after.ids < n).top(10)
    same = all(np.array_equal(getattr(old, name), getattr(before, name)) for name in ("indptr", "ids", "score"))
    column = {id_: c for c, id_ in enumerate(treetop.load(folder / "m").labels.ids)}
    best = after.padded(1)[:, 0]
    wanted = [column[str(n + i)] for i in range(len(best))]
    return {
        "seconds": round(seconds, 1),
        **json.loads(done.stdout.splitlines()[-1]),
        "same": same,
        "new_P@1": round(100 * float((best == wanted).mean()), 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        folder.mkdir(exist_ok=True)
        fit = 0.0 if (folder / "m/manifest.json").exists() else trained(given.labels, folder, rng)
        line = {"labels": given.labels, "new": given.new, "fit_s": round(fit, 1)}
        line |= measured(given.labels, given.new, folder, rng)
        print(json.dumps(line), flush=True)
        if given.record:
            provenance.append(RECORD, line | provenance.provenance(seed=0))


if __name__ == "__main__":
    main()
