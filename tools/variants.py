"""Ablation of XR-Linear: the same recipe with one setting changed, on the same texts.

python -m tools.variants [DATASET...] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools import records
from tools.peers.methods import BIG
from treetop.bench import measure
from treetop.core import log
from treetop.core.dataset import Dataset
from treetop.core.log import logger

MAN = "linear.negatives=tfn+man"
COST = "linear.relevance=induce"  # each positive is weighted by its share of the text's labels, on every level
VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "man": (MAN,),
    "man-c4": (MAN, "linear.cost_positive=4.0"),
    "text": ("label_features=text",),
    "pifa+text": ("label_features=pifa+text",),
    "cost": (COST,),
    "cost-c4": (COST, "linear.cost_positive=4.0"),
    "man-cost-c4": (MAN, COST, "linear.cost_positive=4.0"),
    "trees-3": ("trees=3",),
    "man-c4-trees-3": (MAN, "linear.cost_positive=4.0", "trees=3"),
}


def run(datasets: Sequence[str], *, data: Path, root: Path, seed: int = 0) -> Iterator[str]:
    """Measure every variant on every data set without a record of it; yields their names."""
    for dataset in datasets:
        file = root / "benchmarks" / "results" / "variants" / f"{dataset}.jsonl"
        for name, settings in VARIANTS.items():
            if (name, 1) not in records.usable(file):
                logger.info("%s, %s", dataset, name)
                train, test = (Dataset.read(data / dataset, split) for split in ("train", "test"))
                values = measure("xr_linear", train, test, settings=settings, seed=seed)
                records.append(file, {**values, "name": name})
            yield f"{dataset}, {name}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.variants", description=__doc__)
    parser.add_argument("datasets", nargs="*", default=BIG)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the data sets")
    parser.add_argument("--seed", type=int, default=0, help="seed of every training")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    options = parser.parse_args()
    for name in run(options.datasets, data=options.data, root=options.root, seed=options.seed):
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    log.show(bars=False)
    main()
