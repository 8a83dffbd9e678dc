"""Choose what `unidec` learns on a frozen encoder (preset `cpu`) with few texts, on rows of train; others beside it.

python benchmarks/choices/frozen_encoder.py DATA --out FILE
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import treetop
from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance
from treetop.features.encoder.transformer import Transformer

LEARNED, HELD = 10_000, 3_000
LAYERS = {"dual": {"projection_dim": 384}, "classifier": {"projection_dim": 384}}
ALL = {"dual": {"projection_dim": 384}, "classifier": {"projection_dim": 384, "labels": "all"}}
FROZEN = {"frozen": True, "train": {"epochs": 10.0}}
RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("linear functions of words", "xr_linear", {}),
    ("nearest texts", "neighbours", {}),
    ("no layers", "unidec", FROZEN),
    ("layers", "unidec", {**FROZEN, **LAYERS}),
    ("layers at 2e-3: the preset", "unidec", {**FROZEN, **LAYERS, "head_optimizer": {"lr": 2e-3}}),
    ("layers at 5e-3", "unidec", {**FROZEN, **LAYERS, "head_optimizer": {"lr": 5e-3}}),
    ("layers at 2e-3, a pool of 1,000", "unidec",
     {**FROZEN, **LAYERS, "head_optimizer": {"lr": 2e-3}, "pool": {"size": 1000}}),
    ("layers at 2e-3, all labels", "unidec", {**FROZEN, **ALL, "head_optimizer": {"lr": 2e-3}}),
]  # fmt: skip


def read_once() -> None:
    """Let the encoder read the same texts once for all runs."""
    real, kept = Transformer.vectors, {}

    def vectors(self: Transformer, tokens: Any, **more: Any) -> Any:
        key = (tokens.ids.tobytes(), self.l2, tuple(pooling.name for pooling in self.poolings))
        if key not in kept:
            kept[key] = real(self, tokens, **more)
        return dict(kept[key])

    Transformer.vectors = vectors  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data = Dataset.read(options.data, "train")
    order = np.random.default_rng(0).permutation(len(data))
    train, valid = (data.take(np.sort(part)) for part in (order[:LEARNED], order[LEARNED : LEARNED + HELD]))
    read_once()
    rows = []
    for name, recipe, settings in RUNS:
        started = time.process_time()
        model = treetop.fit(recipe, train, settings=settings)
        took = time.process_time() - started
        scores = model.evaluate(valid, resamples=0)
        figures = {key: round(scores[key], 2) for key in ("P@1", "P@5", "PSP@1", "PSP@5", "R@10")}
        rows.append({"name": name, "recipe": recipe, "settings": settings, "cpu_s": round(took), **figures})
        print(rows[-1], flush=True)
        about = {**provenance(seed=0, root=Path(__file__).parents[2]), "data": data.name, "rows": LEARNED, "held": HELD}
        options.out.write_text(json.dumps({**about, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
