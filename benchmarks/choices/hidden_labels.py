"""Labels hidden from training and added by their texts afterwards: are they found?

    python benchmarks/choices/hidden_labels.py [--rows N] [--share 0.1] [--clusters none|tree] [--out FILE]

`lightxml`, preset `cpu`, on some rows of the bundled wordnet (dual encoders: `benchmarks/gpu/hidden_labels.py`). A
share of the labels is taken out of the training rows and of the label set, and then added with `Model.add_labels`.
Recall@10 on the hidden labels over test rows that have one, every label competing: added by text; BM25 and the
encoder's cosine between text and label text. Also what adding costs the other labels. Writes
benchmarks/results/hidden-labels.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import treetop
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def cut(data: Dataset, columns) -> Dataset:
    """The same rows with these labels only."""
    labels = data.labels
    kept = LabelSet(
        *(texts.take(columns) for texts in (labels.ids, labels.names, labels.texts)), labels.status[columns]
    )
    return dataclasses.replace(data, Y=data.Y[:, columns], labels=kept)


def recall(top, Y, columns) -> float:
    """Share of the assignments of these labels that are among the labels found for their row, in percent."""
    wanted = np.zeros(Y.shape[1], bool)
    wanted[columns] = True
    hit = total = 0
    for row in range(Y.shape[0]):
        true = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        true = true[wanted[true]]
        hit, total = hit + np.isin(true, top[row]).sum(), total + len(true)
    return round(100 * float(hit) / max(total, 1), 2)


def bm25(texts, labels: LabelSet, k: int = 10, k1: float = 1.2, b: float = 0.75):
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(dtype=np.float32)
    L = words.fit_transform(list(labels.texts)).tocsr()
    length = np.asarray(L.sum(1)).ravel()
    df = np.bincount(L.indices, minlength=L.shape[1])
    idf = np.log(1 + (L.shape[0] - df + 0.5) / (df + 0.5))
    rows = np.repeat(np.arange(L.shape[0]), np.diff(L.indptr))
    norm = k1 * (1 - b + b * length[rows] / length.mean())
    W = sparse.csr_matrix((idf[L.indices] * L.data * (k1 + 1) / (L.data + norm), L.indices, L.indptr), L.shape)
    S = (words.transform(list(texts)) @ W.T).tocsr()
    made = np.full((S.shape[0], k), -1)
    for row in range(S.shape[0]):
        part = slice(S.indptr[row], S.indptr[row + 1])
        best = S.indices[part][np.lexsort((S.indices[part], -S.data[part]))[:k]]
        made[row, : len(best)] = best
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--test", type=int, default=1500)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--clusters", default="none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/hidden-labels.json")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    train = Dataset.read("wordnet")
    test = Dataset.read("wordnet", "test").align(train.labels)
    train = train.take(np.sort(rng.permutation(len(train))[: options.rows]))
    test = test.take(np.sort(rng.permutation(len(test))[: options.test]))
    seen = np.flatnonzero(train.label_counts > 0)
    rng.shuffle(seen)
    hidden, kept = np.sort(seen[: int(options.share * len(seen))]), np.sort(seen[int(options.share * len(seen)) :])
    order = np.concatenate([kept, hidden])  # the columns of the edited model
    settings = {"clusters": options.clusters}
    started = time.perf_counter()
    model = treetop.fit("lightxml", cut(train, kept), preset="cpu", settings=settings, seed=options.seed)
    seconds = time.perf_counter() - started
    whole = cut(test, order)
    columns = np.arange(len(kept), len(order))
    before = model.evaluate(cut(test, kept), resamples=0)
    started = time.perf_counter()
    model = model.add_labels(cut(train, hidden).labels)
    adding = time.perf_counter() - started
    after = model.evaluate(cut(test, kept), resamples=0)
    encoder = model.features["encoder"]  # frozen
    name = encoder.view_name(encoder.poolings[0])
    H, T = (encoder.views(texts)[name] for texts in (whole.texts, whole.labels.texts))
    found = {
        "added by text": recall(model.rank_dataset(whole, 10).padded(10), whole.Y, columns),
        "BM25 on label texts": recall(bm25(whole.texts, whole.labels), whole.Y, columns),
        "by chance": round(1000 / len(order), 2),
        "cosine, untrained encoder": recall(np.argsort(-(H @ T.T), axis=1)[:, :10], whole.Y, columns),
    }
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    result = {
        "what": "recall@10 in percent on labels hidden from training, all labels competing",
        "command": "python benchmarks/choices/hidden_labels.py " + " ".join(sys.argv[1:]),
        "recipe": "lightxml", "data": "wordnet",
        "rows": len(train), "test": len(test), "labels": len(kept), "hidden": len(hidden), "seed": options.seed,
        "R@10 of hidden labels": found,
        "other labels": {m: [round(s[m], 2) for s in (before, after)] for m in ("P@1", "P@5", "R@10")},
        "seconds": {"train": round(seconds, 1), "add": round(adding, 1)},
        "versions": {"treetop": VERSION}, "python": platform.python_version(), "commit": commit.strip(),
    }  # fmt: skip
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
