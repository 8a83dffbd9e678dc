"""Golden answers that a refactoring must not change: a toy model of every recipe and augmentation, bit by bit.

python -m tools.golden record FILE        # before python -m tools.golden compare FILE       # after: names every model
whose answers differ, and by how much
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests/helpers"), str(ROOT / "tests")]

import test_battery as battery  # noqa: E402
import toy  # noqa: E402
import treetop  # noqa: E402
from treetop.core.errors import TreetopError  # noqa: E402

TREE = {"clusters": "tree", "tree": {"max_leaf": 5}, "beam": 4, "tfidf": {"min_df": 1}}
FUSED = {"min_df": 1}
# In addition to every recipe as in the battery: variants that take another path through training.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lightxml tree": ("lightxml", TREE),
    "lightxml bottleneck": ("lightxml", {**TREE, "projection_dim": 8, "loss": "squared_hinge", "ranker_weight": 0.5}),
    "lightxml static": ("lightxml", {**TREE, "negatives": "static"}),
    "lightxml static_extra": ("lightxml", {**TREE, "negatives": "static_extra"}),
    "lightxml frozen": ("lightxml", {"frozen": True}),
    "lightxml members": ("lightxml", {"members": 2}),
    "lightxml validation": ("lightxml", {"validation": 0.2, "train.patience": 2}),
    "lightxml parts": ("lightxml", {**TREE, "train.accumulate": 3, "train.average": "ema"}),
    "cascadexml tree": ("cascadexml", {"resolutions": [4, 8], "beam": [3, 5], "tfidf": FUSED}),
    "cascadexml both": ("cascadexml", {"resolutions": [8], "ranker": "both", "tfidf": FUSED, "score": "parent"}),
    "cascadexml linear": ("cascadexml", {"resolutions": [8], "ranker": "linear", "tfidf": FUSED}),
    "inceptionxml flat": ("inceptionxml", {"clusters": "none"}),
    "inceptionxml detached": ("inceptionxml", {"detach_fraction": 0.5}),
    "inceptionxml_lf phase 1": ("inceptionxml_lf", {"phases": 1}),
    "inceptionxml_lf recluster": ("inceptionxml_lf", {"recluster": True}),
    "astec surrogate": ("astec", {"surrogate_clusters": 10}),
    "astec lists": ("astec", {"index": "ivf", "list_size": 5, "nprobe": 3, "freeze_words": False}),
    "eclare attention": ("eclare", {"combine": "attention", "init": "graph", "bias": False}),
    "xr_transformer concat": ("xr_transformer", {"matcher": "concat", "bootstrap": "inherit"}),
    "xr_transformer last": ("xr_transformer", {"levels": "last", "loss": "bce", "negatives": "tfn", "members": 2}),
    "xr_transformer frozen": ("xr_transformer", {"frozen": True}),
    "depsl layer": ("depsl", {"dual.projection_dim": 16, "dual.loss.kind": "supcon", "dual.loss.symmetric": True}),
    "unidec layers": (
        "unidec", {"dual.projection_dim": 16, "classifier.projection_dim": 12, "classifier.projection_init": "xavier"}
    ),
    "unidec all": ("unidec", {"classifier.labels": "all", "search.logit_adjustment": 0.4}),
    "unidec low": ("unidec", {"classifier.labels": "all", "classifier.label_memory": "low"}),
    "unidec cosines": (
        "unidec", {"search.classifier_score": "cosine", "classifier.cosine": True, "classifier.bias": False}
    ),
    "unidec parts": ("unidec", {"train.accumulate": 3, "validation": 0.2}),
    "unidec frozen": ("unidec", {"frozen": True}),
    "unidec lists": ("unidec", {"search.index": "ivf", "search.nprobe": 2}),
    "dexml topk": ("dexml", {"dual.loss.kind": "soft_topk"}),
    "dexml pool": ("dexml", {"pool.size": 20, "pool.hard_negatives": 2, "pool.mine_from": 1}),
    "ngame fusion": (
        "ngame", {"fusion_weight": 1.0, "validation": 0.3, "search.dual_scale": 1.0, "search.index": "exact"}
    ),
    "siamesexml cosines": ("siamesexml", {"search.dual_scale": 1.0}),
    "renee low": ("renee", {"label_memory": "low"}),
    "renee bottleneck": ("renee", {"projection_dim": 8, "label_rows": False, "init": "zero"}),
}  # fmt: skip
WRAPPED = ("gandalf", "identity", "random_walk", "synonym", "mixup", "label_mixup", "glas")
BASES = ("lightxml", "inceptionxml", "decaf", "renee", "astec", "depsl", "cascadexml")


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> recipe and settings."""
    table = {name: (name, battery.brief(name)["settings"]) for name in battery.RECIPES}
    for name, (recipe, settings) in VARIANTS.items():
        table[name] = recipe, nested(battery.brief(recipe)["settings"], settings)
    for wrapper in WRAPPED:
        for base in BASES:
            table[f"{wrapper}+{base}"] = f"{wrapper}+{base}", battery.brief(base)["settings"]
    table["mixup+lightxml tree"] = "mixup+lightxml", nested(battery.brief("lightxml")["settings"], TREE)
    table["glas+lightxml tree"] = "glas+lightxml", nested(battery.brief("lightxml")["settings"], TREE)
    return table


def nested(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The settings with dotted changes."""
    settings = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    for name, value in changes.items():
        group, *inner = settings, *name.split(".")
        for key in inner[:-1]:
            group = group.setdefault(key, {})
        current = group.get(inner[-1])
        group[inner[-1]] = {**current, **value} if isinstance(current, dict) and isinstance(value, dict) else value
    return settings


def answers(recipe: str, settings: dict[str, Any]) -> tuple[np.ndarray, np.ndarray] | str:
    """(ids, scores) of the best ten labels of toy texts; or the error message where this combination is refused."""
    data = toy.barred()
    try:
        ranking = treetop.fit(recipe, data, settings=settings).rank(toy.dataset(seed=1).texts, 10)
    except TreetopError as error:
        return str(error)
    return ranking.ids, ranking.score


def run(file: Path, compare: bool, only: str) -> int:
    """Record or compare; returns the number of differences."""
    before = dict(np.load(file)) if compare else {}
    arrays: dict[str, Any] = {}
    differing = 0
    for name, (recipe, settings) in cases().items():
        if only not in name:
            continue
        start = time.process_time()
        answer = answers(recipe, settings)
        pair = (np.array(answer), np.zeros(0)) if isinstance(answer, str) else answer
        arrays |= {f"{name}|ids": pair[0], f"{name}|scores": pair[1]}
        verdict = ""
        if compare:
            old = before.get(f"{name}|ids"), before.get(f"{name}|scores")
            verdict = "new" if old[0] is None else difference(old, pair)
            differing += verdict not in ("same", "new")
        note = answer if isinstance(answer, str) else ""
        sys.stdout.write(f"{name:34} {time.process_time() - start:6.1f} s  {verdict:40} {note[:90]}\n")
        sys.stdout.flush()
    if not compare:
        np.savez(file, **arrays)
    sys.stdout.write(f"{len(arrays) // 2} models, {differing} differ\n")
    return differing


def difference(old: tuple[Any, Any], new: tuple[Any, Any]) -> str:
    """How much two answers differ."""
    if all(a.shape == b.shape and (a == b).all() for a, b in zip(old, new, strict=True)):
        return "same"
    if old[0].shape != new[0].shape or old[1].shape != new[1].shape or not len(old[1]):
        return f"other answers ({old[0] if not len(old[1]) else ''})"
    return f"{(old[0] != new[0]).mean():.1%} of ids, scores by {np.abs(old[1] - new[1]).max():.1e}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this")
    options = parser.parse_args()
    sys.exit(min(1, run(options.file, options.action == "compare", options.only)))


if __name__ == "__main__":
    main()
