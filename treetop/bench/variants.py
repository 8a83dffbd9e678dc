"""What each choice inside XR-Linear is worth: the same recipe with one setting changed, on the same texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from treetop.bench import record
from treetop.bench.recipe import measure
from treetop.core.log import logger

MAN = "linear.negatives=tfn+man"
COST = "linear.relevance=induce"  # each positive weighs its share of the text's labels, on every level
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


def run(datasets: Sequence[str], *, data: Path, root: Path, seed: int = 0) -> Iterator[Path]:
    """Measure every variant on every data set that has no record of it yet; yields the records."""
    for dataset in datasets:
        for tag, settings in VARIANTS.items():
            file = root / "benchmarks" / "results" / "variants" / dataset / f"{tag}.json"
            if not file.exists():
                logger.info("%s, %s", dataset, tag)
                values = measure("xr_linear", str(data / dataset), settings=settings, seed=seed, root=root)
                record.write(file, {**values, "variant": tag})
            yield file
