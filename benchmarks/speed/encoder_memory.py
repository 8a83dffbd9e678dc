"""Peak memory of training an encoder on a CPU, on made-up data of several shapes, beside the forecast.

    python benchmarks/speed/encoder_memory.py [--out FILE]

Each case is a process of its own that trains a few steps. Writes benchmarks/results/encoder-memory.json, which a test
of the forecast reads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from treetop.core.provenance import provenance

ROOT = Path(__file__).resolve().parents[2]
# Recipe, texts, words of each, labels (of two words), share of an epoch.
CASES = [
    ("unidec", 200, 12, 20, 0.4),
    ("unidec", 200, 202, 20, 0.4),
    ("unidec", 200, 12, 500, 0.4),
    ("unidec", 1200, 202, 20, 0.12),
    ("renee", 1200, 202, 20, 0.12),
]
CHILD = """
import resource, sys, treetop
from treetop.training import plan
sys.path.insert(0, sys.argv[1])
import encoder_memory
recipe, texts, words, labels, epochs = sys.argv[2:]
data = encoder_memory.made_up(int(texts), int(words), int(labels))
needs = plan(recipe).forecast(data).memory
treetop.fit(recipe, data, settings=[f"train.epochs={epochs}"], device="cpu")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, needs)
"""


def made_up(texts: int, words: int, labels: int):
    """Texts of numbered words, one label each."""
    import numpy as np
    from scipy import sparse

    from treetop.core.dataset import Dataset, LabelSet
    from treetop.core.texts import Texts

    rows = [" ".join(f"word{(7 * i + j * j) % 200}" for j in range(words)) for i in range(texts)]
    known = [f"word{i % 200} word{7 * i % 200}" for i in range(labels)]
    Y = sparse.csr_matrix(
        (np.ones(texts, np.float32), np.arange(texts) % labels, np.arange(texts + 1)), (texts, labels)
    )
    return Dataset(Texts.of(rows), Y, LabelSet.of([f"L{i}" for i in range(labels)], texts=known))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/encoder-memory.json")
    out = parser.parse_args().out
    made = []
    for case in CASES:
        words = [sys.executable, "-c", CHILD, str(Path(__file__).parent), *map(str, case)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        peak, needs = map(float, done.stdout.split()[-2:])
        names = ("recipe", "texts", "words", "labels", "epochs")
        made.append({**dict(zip(names, case, strict=True)), "peak": peak, "forecast": needs})
        print(made[-1], flush=True)
    facts = provenance(seed=0, root=ROOT)
    out.write_text(json.dumps({**facts, "cases": made}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
