"""Is it the tree or the solver? Our solver on trees of PECOS and on ours, synthetic-670k, several seeds.

    python -m benchmarks.choices.large_tree peers/libpecos/bin/python benchmarks/results/large-tree.json

Half of these labels have no training text. PECOS halves a node by label number when both first rows are empty. So
everything is done twice: labels of a topic have neighbouring numbers, and numbers are shuffled; `by number` is a tree
that saw no features at all.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tools import records
from tools.peers import synthetic
from treetop.assemble.linear.tree import LinearConfig, Task, train_member
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.labels.pifa import pifa
from treetop.partition.balanced import BalancedConfig, balanced
from treetop.partition.tree import chain
from treetop.predict.beam import descend

PEER = """
import sys, numpy as np
from scipy import sparse
from pecos.xmc import Indexer, LabelEmbeddingFactory
folder, seed, out = sys.argv[1:]
X, Y = (sparse.load_npz(f"{folder}/{name}.npz").tocsr().astype(np.float32) for name in ("X_train", "Y_train"))
for matrix in (X, Y):
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
Z = LabelEmbeddingFactory.create(Y, X, method="pifa")
chain = Indexer.gen(Z, indexer_type="hierarchicalkmeans", nr_splits=16, max_leaf_size=100, seed=int(seed), threads=2)
np.savez(out, **{f"p{t}": level.tocsr().indices.astype(np.int32) for t, level in enumerate(chain)})
"""


def peer_tree(python: str, folder: Path, seed: int) -> LabelTree:
    """The tree PECOS makes of the same labels."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "tree.npz"
        subprocess.run([python, "-c", PEER, str(folder), str(seed), str(out)], check=True)
        with np.load(out) as levels:
            return LabelTree(tuple(levels[f"p{t}"] for t in range(len(levels.files))))


def closeness(Z: Any, tree: LabelTree) -> float:
    """Mean cosine of a described label with the mean of its leaf."""
    leaf = tree.parents[-1]
    inside = sparse.csr_matrix((np.ones(len(leaf), np.float32), (leaf, np.arange(len(leaf)))))
    total = inside @ Z
    return float(np.sqrt(total.multiply(total).sum(1)).sum() / (np.diff(Z.indptr) > 0).sum())


def precision(matrices: dict[str, Any], tree: LabelTree) -> list[float]:
    levels = train_member(
        Task(matrices["X_train"], matrices["Y_train"]), tree, "given", LinearConfig(), job=Job(0), name="tree"
    )
    best = descend(levels, {"given": matrices["X_test"]}, 5).padded(5)
    Y = matrices["Y_test"]
    hit = (np.asarray(Y[np.arange(len(best))[:, None], np.maximum(best, 0)].todense()) > 0) & (best >= 0)
    return [round(100 * float(hit[:, :k].mean()), 2) for k in (1, 3, 5)]


def by_number(n: int) -> LabelTree:
    """Labels in the order of their numbers, as many leaves as the other trees have."""
    n_leaves = 2 ** int(np.ceil(np.log2(n / 100)))
    return chain((np.arange(n) * n_leaves // n).astype(np.int32), n_leaves, width=16, top=16)


def compare(held: dict[str, Any], python: str, numbers: str) -> list[dict[str, Any]]:
    """PECOS' trees and ours by two rules, three seeds each, and the tree by number."""
    Z = pifa(held["X_train"], held["Y_train"])
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("X_train", "Y_train"):
            sparse.save_npz(Path(folder) / f"{name}.npz", held[name], compressed=False)
        for seed in range(3):
            made = {
                f"ours, rule {rule}": balanced(Z, BalancedConfig(stop_when=rule), seed=seed)
                for rule in ("same", "gain")
            }
            made["PECOS"] = peer_tree(python, Path(folder), seed)
            if seed == 0:
                made["by number"] = by_number(Z.shape[0])
            for name, tree in made.items():
                about = {"tree": name, "numbers": numbers, "seed": seed}
                found.append({**about, "closeness": closeness(Z, tree), "P": precision(held, tree)})
                print(found[-1], flush=True)
    return found


def main() -> None:
    """Trees on labels numbered by topic, and on the same labels in another order."""
    python, out = sys.argv[1], Path(sys.argv[2])
    found = []
    for numbers, shuffled in (("by topic", False), ("shuffled", True)):
        found += compare(synthetic.make(synthetic.Shape(), shuffled=shuffled), python, numbers)
    note = "P@1, P@3, P@5 on test rows of a made-up set; nothing was chosen by them"
    records.write(out, {**records.provenance(seed=0, root=Path()), "note": note, "trees": found})


if __name__ == "__main__":
    main()
