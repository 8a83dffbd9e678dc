"""Seconds and memory of the label graph at the size of LF-AmazonTitles-1.3M, beside what was forecast.

    python benchmarks/speed/graph.py [--labels N] [--texts N] [--delta D] [--threads N] [--out FILE]

Targets are made up: 20 labels of a text lie near each other, two are drawn from all by a power law. Kernels are
compiled before the clock starts. Writes benchmarks/results/graph-speed.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from treetop.kernels.runtime import threads
from treetop.labels.graph import ShareConfig, share_graph, share_needs

ROOT = Path(__file__).resolve().parents[2]


def targets(n_texts: int, n_labels: int) -> Any:
    """Made-up targets of 22 labels a text."""
    rng = np.random.default_rng(0)
    centre = rng.integers(0, n_labels, (n_texts, 1))
    near = (centre + rng.integers(0, 80, (n_texts, 20))) % n_labels
    far = (n_labels * rng.random((n_texts, 2)) ** 4).astype(np.int64)
    columns = np.concatenate([near, far], 1).astype(np.int32)
    columns.sort(axis=1)
    fresh = np.ones(columns.shape, bool)
    fresh[:, 1:] = columns[:, 1:] != columns[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(fresh.sum(1))])
    indices = columns[fresh]
    return sparse.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (n_texts, n_labels))


def held(kind: str) -> int:
    """Bytes this process holds now (VmRSS), or held at most since the mark was set back (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(kind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=1_305_265)
    parser.add_argument("--texts", type=int, default=2_248_619)
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/graph-speed.json")
    options = parser.parse_args()
    config = ShareConfig(delta=options.delta)
    share_graph(targets(100, 50), config)
    Y = targets(options.texts, options.labels)
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins at what is held now
    before = held("VmRSS")
    with threads.limited(options.threads):
        started, used = time.perf_counter(), time.process_time()
        needs = share_needs(Y, config)
        forecast_s = time.perf_counter() - started
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        started, used = time.perf_counter(), time.process_time()
        G = share_graph(Y, config)
        wall, cpu = time.perf_counter() - started, time.process_time() - used
    found = {
        "labels": options.labels, "texts": options.texts, "assignments": int(Y.nnz), "delta": options.delta,
        "pairs": float((np.diff(Y.indptr).astype(np.float64) ** 2).sum()), "threads": options.threads,
        "wall_s": wall, "cpu_s": cpu, "entries": int(G.nnz), "peak_bytes": held("VmHWM") - before,
        "forecast_s": forecast_s, "forecast": needs._asdict(), "max_labels_of_a_text": int(np.diff(Y.indptr).max()),
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
