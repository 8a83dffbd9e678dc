"""Choose the defaults of `neighbours` on a split of train.

python benchmarks/choices/neighbours.py DATA... --out FILE
"""

import argparse
import json
from pathlib import Path

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance
from treetop.core.types import Ranking
from treetop.data.split import holdout
from treetop.evaluate.score import score
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.search.neighbours import vote
from treetop.rank.neighbours import Neighbours

GRAMS, KS, POWERS = ((1, 1), (1, 2)), (20, 50, 100, 200), (1.0, 2.0, 3.0, 4.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [row for path in options.data for row in choices(path)]
    root = Path(__file__).parents[2]
    options.out.write_text(json.dumps({**provenance(seed=0, root=root), "rows": rows}, indent=1) + "\n")


def choices(path: str) -> list[dict]:
    data = Dataset.read(path)
    kept, held = holdout(data, 0.1, 0)
    train, valid = data.take(kept), data.take(held)
    counts = np.bincount(train.Y.indices, minlength=train.n_labels)
    made = []
    for grams in GRAMS:
        tfidf, X = Tfidf.fit_transform(train.texts, TfidfConfig(ngrams=grams))
        rank = Neighbours.fit(X, train.Y, k=max(KS), power=1.0)
        best, sims = rank.nearest(tfidf.views(valid.texts)["tfidf"])
        for k in KS:
            for power in POWERS:
                indptr, ids, votes = vote(best[:, :k].copy(), sims[:, :k].copy(), power, rank.targets, rank.n, 10)
                scores = score(Ranking(indptr, ids, votes, votes), valid, counts, len(train), resamples=0)
                figures = {name: round(scores[name], 2) for name in ("P@1", "P@5", "nDCG@10", "PSP@5")}
                made.append({"data": data.name, "ngrams": grams, "k": k, "power": power, **figures})
                print(made[-1], flush=True)
    return made


if __name__ == "__main__":
    main()
