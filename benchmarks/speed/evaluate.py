"""CPU seconds and memory of one evaluation as large as Amazon-3M: 750,000 rankings of 100 labels out of 2.8 million.

    python benchmarks/speed/evaluate.py [--rows N] [--depth K] [--labels L] [--resamples R] [--out FILE]

One thread; kernels are compiled before the clock starts. Writes benchmarks/results/evaluate-speed.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.core.version import VERSION
from treetop.evaluate.score import score
from treetop.kernels.runtime import threads

ROOT = Path(__file__).resolve().parents[2]


def made_up(rows: int, depth: int, n_labels: int, seed: int):
    """Random rankings that hit now and then; five true labels a row, two filter pairs on every tenth row."""
    rng = np.random.default_rng(seed)
    counts = np.minimum(rng.zipf(1.6, n_labels), 10_000).astype(np.int64)
    true = np.sort(rng.integers(0, n_labels, (rows, 5), dtype=np.int32), axis=1)
    ids = rng.integers(0, n_labels, (rows, depth), dtype=np.int32)
    hit = rng.random((rows, 5)) < 0.4
    ids[:, :5][hit] = true[hit]
    score_ = np.broadcast_to(np.linspace(1, 0, depth, dtype=np.float32), (rows, depth)).ravel()
    ranking = Ranking(np.arange(0, rows * depth + 1, depth, dtype=np.int64), ids.ravel(), score_, score_)
    Y = sparse.csr_matrix(
        (np.ones(rows * 5, np.float32), true.ravel(), np.arange(0, rows * 5 + 1, 5)), (rows, n_labels)
    )
    texts = Texts(np.zeros(0, np.uint8), np.zeros(rows + 1, np.int64))
    names = Texts.of(str(i) for i in range(n_labels))
    labels = LabelSet(names, names, names, np.zeros(n_labels, np.uint8))
    pairs = np.column_stack(
        [np.repeat(np.arange(0, rows, 10), 2), rng.integers(0, n_labels, 2 * len(range(0, rows, 10)))]
    )
    return ranking, Dataset(texts, Y, labels, filter_pairs=pairs), counts, 1_700_000


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(case, resamples: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    with threads.limited(1):
        found = score(*case, resamples=resamples)
    return {
        "resamples": resamples,
        "cpu_s": round(time.process_time() - cpu, 3),
        "wall_s": round(time.perf_counter() - wall, 3),
        "P@1": round(found["P@1"], 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=750_000)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--labels", type=int, default=2_800_000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/evaluate-speed.json")
    options = parser.parse_args()
    timed(made_up(100, options.depth, 1000, 1), 10)  # compile
    case = made_up(options.rows, options.depth, options.labels, options.seed)
    before = memory()
    runs = [timed(case, 0)]
    plain = memory()
    runs.append(timed(case, options.resamples))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    result = {
        "what": "all metrics, bins and counts of one ranking; one thread, kernels compiled before",
        "command": "python benchmarks/speed/evaluate.py " + " ".join(sys.argv[1:]),
        "rows": options.rows,
        "depth": options.depth,
        "labels": options.labels,
        "seed": options.seed,
        "runs": runs,
        "peak_gib": {"data alone": round(before, 2), "without intervals": round(plain, 2), "all": round(memory(), 2)},
        "versions": {"treetop": VERSION, **{name: version(name) for name in ("numpy", "scipy", "numba")}},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "commit": commit.strip(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
