"""Where Gandalf costs P@1: on test texts that are label texts, whose rows it learned from, or on all?

python -m benchmarks.choices.gandalf_reason DATA --recipe inceptionxml --preset cpu --out FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from tools import records
from treetop.core.dataset import Dataset
from treetop.labels.text import label_words, plain
from treetop.training import fit

SCORES = ("P@1", "P@5", "PSP@1", "PSP@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--recipe", default="inceptionxml")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    train = Dataset.read(options.data, "train")
    test = Dataset.read(options.data, "test").align(train.labels)
    known = {plain(text) for text in label_words(train.labels)}
    is_label = np.array([plain(text) in known for text in test.texts])
    parts = {"label texts": np.flatnonzero(is_label), "other texts": np.flatnonzero(~is_label)}
    found: dict[str, Any] = {}
    for name in (options.recipe, f"gandalf+{options.recipe}"):
        model = fit(name, train, preset=options.preset, seed=0, device="cpu")
        found[name] = {}
        for part, rows in parts.items():
            scores = model.evaluate(test.take(rows), resamples=1000)
            found[name][part] = {key: [scores[key], *scores.intervals[key]] for key in SCORES}
        print(name, found[name], flush=True)
    sizes = {part: len(rows) for part, rows in parts.items()}
    records.write(
        options.out,
        {**records.provenance(seed=0, root=Path()), "texts": sizes, "score, low, high": found},
    )


if __name__ == "__main__":
    main()
