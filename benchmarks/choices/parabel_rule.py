"""When should a split of Parabel's tree stop? One tree per rule and seed on nine tenths of train, scored on the rest.

python -m benchmarks.choices.parabel_rule ../shared/data build/bench benchmarks/results/parabel-rule-choice.json
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import treetop
from tools import records
from tools.peers import matrices
from tools.peers.methods import BIG
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts


def precision(X, Y, rule: str, seed: int) -> list[float]:
    """P@1, P@3 and P@5 on a tenth of the rows."""
    order = np.random.default_rng(5).permutation(X.shape[0])
    out, kept = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    labels = LabelSet.of([str(i) for i in range(Y.shape[1])])
    train, test = (
        Dataset(Texts.of([""] * len(rows)), Y[rows], labels, features={"given": X[rows]}) for rows in (kept, out)
    )
    settings = {"trees": 1, "tree": {"stop_when": rule}}
    best = treetop.fit("parabel", train, settings=settings, seed=seed).rank_dataset(test, 5).padded(5)
    rows = np.arange(len(out))[:, None]
    hit = (np.asarray(test.Y[rows, np.maximum(best, 0)].todense()) > 0) & (best >= 0)
    return [round(100 * float(hit[:, :k].mean()), 2) for k in (1, 3, 5)]


def main() -> None:
    """Measure both rules with two seeds on the three large sets."""
    data, build, out = map(Path, sys.argv[1:])
    made = {}
    for name in BIG:
        found = matrices.prepare(name, data=data, build=build)
        X, Y = found.load("X_train"), found.load("Y_train")
        made[name] = {rule: [precision(X, Y, rule, seed) for seed in (0, 1)] for rule in ("gain", "same")}
    records.write(out, {**records.provenance(seed=0, root=Path()), "metrics": ["P@1", "P@3", "P@5"], "scores": made})


if __name__ == "__main__":
    main()
