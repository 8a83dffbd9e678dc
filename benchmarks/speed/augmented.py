"""What label texts as training rows cost: memory of a training, and milliseconds of an answer, with and without them.

    python benchmarks/speed/augmented.py [--recipe inceptionxml] [--augmentation gandalf] [--data wordnet] [--epochs E]

Each training is a process of its own, so that its peak is its own; then the models answer the same texts in turn, one
text at a time and in batches, so that what else the machine does meets both alike. Epochs are few: neither depends on
what was learned. Writes benchmarks/results/augmented-speed.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance
from treetop.core.texts import Texts
from treetop.model import Model, load
from treetop.training import fit

ROOT = Path(__file__).resolve().parents[2]
WARM, TEXTS, TURNS = 50, 600, 6  # texts before the clock runs, texts one by one, batches


def train(options: argparse.Namespace) -> None:
    """The child's work: one training, and what it held at most."""
    settings = [f"train.epochs={options.epochs}"]
    fit(options.recipe, Dataset.read(options.data), preset=options.preset, settings=settings, out=options.child)
    print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def peak(name: str, out: Path, options: argparse.Namespace) -> int:
    """Bytes a training of this recipe held at most."""
    words = [sys.executable, __file__, "--recipe", name, "--child", str(out), "--data", options.data]
    words += ["--preset", options.preset, "--epochs", str(options.epochs)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def answers(models: dict[str, Model], test: Dataset) -> dict[str, dict[str, float]]:
    """Milliseconds at the median, one text after the other and per text of a batch, the models in turn."""
    spent: dict[str, list[float]] = {name: [] for name in models}
    batches: dict[str, list[float]] = {name: [] for name in models}
    for i in range(WARM + TEXTS):
        text = test.texts[i % len(test)]
        for name, model in models.items():
            spent[name].append(timed(model, Texts.of([text])))
    for _ in range(TURNS):
        for name, model in models.items():
            batches[name].append(timed(model, test.texts) / len(test))
    return {
        name: {"one_text_ms": float(np.median(spent[name][WARM:])), "batch_ms": float(np.median(batches[name]))}
        for name in models
    }


def timed(model: Model, texts: Texts) -> float:
    started = time.perf_counter()
    model.rank(texts, 5)
    return 1e3 * (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="inceptionxml")
    parser.add_argument("--augmentation", default="gandalf")
    parser.add_argument("--data", default="wordnet")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--epochs", type=float, default=0.3)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/augmented-speed.json")
    options = parser.parse_args()
    if options.child is not None:
        train(options)
        return
    names = [options.recipe, f"{options.augmentation}+{options.recipe}"]
    with tempfile.TemporaryDirectory() as folder:
        peaks = {name: peak(name, Path(folder) / name, options) for name in names}
        models = {name: load(Path(folder) / name) for name in names}
        test = Dataset.read(options.data, "test")
        found = answers(models, test)
    made: dict[str, Any] = {
        **provenance(seed=0, root=ROOT), "data": options.data, "preset": options.preset,
        "epochs": options.epochs, "runs": {name: {"peak_bytes": peaks[name], **found[name]} for name in names},
    }  # fmt: skip
    print(json.dumps(made["runs"], indent=1))
    options.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
