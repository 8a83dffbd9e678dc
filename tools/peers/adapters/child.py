"""Runs one phase of one cell inside a peer's environment and measures it: `python child.py job.json`.

Phases: prepare, train, batch, single, first. The result is written as JSON to the path the job names.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

REPEATS = 3  # batch predictions per setting; the one with the least CPU time counts
PATIENCE = 20.0  # seconds after which a slow peer is not asked to repeat a batch
SINGLES = 1_000  # documents of the one-at-a-time measure
WARM = 20


def cpu() -> float:
    """User and system seconds of this process, its threads and its finished children."""
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def memory_mb(kind: str = "VmHWM") -> float:
    """Resident memory of this process in MB: the highest so far (VmHWM) or what it is now (VmRSS)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def load_matrix(job: dict[str, Any], name: str) -> Any:
    """A matrix of the job's data folder, csr float32 with 32-bit indices: the form every peer takes as it is."""
    matrix = sparse.csr_matrix(sparse.load_npz(Path(job["data"]) / f"{name}.npz"), dtype=np.float32)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def load_adapter(path: str) -> Any:
    """The adapter at `path` as a module, without its folder on the import path (names there could hide a peer)."""
    spec = importlib.util.spec_from_file_location("adapter", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(adapter: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Write the files a peer wants to read, off every clock."""
    if hasattr(adapter, "prepare"):
        adapter.prepare(job, load_matrix)
    return {"versions": adapter.versions()}


def train(adapter: Any, job: dict[str, Any]) -> dict[str, Any]:
    """CPU, wall and memory from matrices in memory to a model that is ready to predict; saving is not counted."""
    adapter.versions()  # imports the peer
    if hasattr(adapter, "load_data"):
        started = cpu()
        data = adapter.load_data(job)
        read = {"read_cpu_s": cpu() - started}
    else:
        data, read = (load_matrix(job, "X_train"), load_matrix(job, "Y_train")), {}
    before = memory_mb()
    cpu_start, wall_start = cpu(), time.perf_counter()
    model = adapter.train(job, *data)
    measured = {"cpu_s": cpu() - cpu_start, "wall_s": time.perf_counter() - wall_start, "peak_mb": memory_mb()}
    adapter.save(model, job["model"])
    below = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    return {**measured, **read, "peak_before_mb": before, "peak_after_save_mb": memory_mb(), "children_peak_mb": below}


def batch(adapter: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Documents per CPU second of the whole test side, for every setting; predictions of the first one are saved."""
    adapter.versions()
    X, tried = load_matrix(job, "X_test"), dict[str, Any]()
    rows = adapter.pack(X) if hasattr(adapter, "pack") else X
    for name, setting in adapter.settings(job).items():
        cpu_start, wall_start = cpu(), time.perf_counter()
        predictor = adapter.load(job, setting)
        load = {"load_cpu_s": cpu() - cpu_start, "load_wall_s": time.perf_counter() - wall_start}
        runs: list[tuple[float, float]] = []
        least = min((X.shape[0] / found["docs_per_cpu_s"] for found in tried.values()), default=np.inf)
        while len(runs) < REPEATS and sum(wall for _, wall in runs) < PATIENCE:
            if runs and runs[0][0] > 2 * least:
                break  # a setting far behind another one is not the best one
            cpu_start, wall_start = cpu(), time.perf_counter()
            raw = adapter.predict(predictor, rows, job)
            runs.append((cpu() - cpu_start, time.perf_counter() - wall_start))
        if not tried:
            ids, scores = adapter.unpack(raw, job)
            np.savez(job["predictions"], ids=ids.astype(np.int32), scores=scores.astype(np.float32))
        best, wall = min(runs)
        tried[name] = {"docs_per_cpu_s": X.shape[0] / best, "docs_per_wall_s": X.shape[0] / wall, **load}
        del predictor
    best_name = max(tried, key=lambda name: tried[name]["docs_per_cpu_s"])
    return {**tried[best_name], "best": best_name, "settings": tried, "documents": X.shape[0], "peak_mb": memory_mb()}


def single(adapter: Any, job: dict[str, Any]) -> dict[str, Any]:
    """CPU and latency of documents asked one at a time, for every setting."""
    adapter.versions()
    X, tried = load_matrix(job, "X_test"), dict[str, Any]()
    picked = np.random.default_rng(0).choice(X.shape[0], min(SINGLES, X.shape[0]), replace=False)
    rows = [X[int(i)] for i in picked]
    if hasattr(adapter, "pack"):
        rows = [adapter.pack(row)[0] for row in rows]
    for name, setting in adapter.settings(job).items():
        predictor = adapter.load(job, setting)
        for row in rows[:WARM]:
            adapter.predict_one(predictor, row, job)
        waits, cpu_start, began = list[float](), cpu(), time.perf_counter()
        for row in rows:
            start = time.perf_counter()
            adapter.predict_one(predictor, row, job)
            waits.append(time.perf_counter() - start)
            if time.perf_counter() - began > PATIENCE:
                break
        spent = (cpu() - cpu_start) / len(waits)
        cuts = statistics.quantiles(waits, n=100) if len(waits) > 1 else [waits[0]] * 99
        tried[name] = {"cpu_us": spent * 1e6, "p50_ms": cuts[49] * 1e3, "p99_ms": cuts[98] * 1e3, "n": len(waits)}
        del predictor
    best_name = min(tried, key=lambda name: tried[name]["cpu_us"])
    return {**tried[best_name], "best": best_name, "settings": tried, "peak_mb": memory_mb()}


def first(adapter: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds to open the model and to answer one document, and the memory it takes in a process that does no more."""
    adapter.versions()
    row = load_matrix(job, "X_test")[:1]
    row = adapter.pack(row)[0] if hasattr(adapter, "pack") else row
    before, start = memory_mb("VmRSS"), time.perf_counter()
    predictor = adapter.load(job, next(iter(adapter.settings(job).values())))
    opened = time.perf_counter()
    adapter.predict_one(predictor, row, job)
    answered = time.perf_counter()
    return {
        "open_s": opened - start,
        "answer_ms": (answered - opened) * 1e3,
        "before_mb": before,
        "resident_mb": memory_mb("VmRSS"),
        "anonymous_mb": memory_mb("RssAnon"),  # without pages of files
        "peak_mb": memory_mb("VmHWM"),
    }


PHASES = {"prepare": prepare, "train": train, "batch": batch, "single": single, "first": first}


def main() -> None:
    """Run the phase the job file names."""
    job = json.loads(Path(sys.argv[1]).read_text())
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    result = PHASES[job["phase"]](load_adapter(job["adapter"]), job)
    Path(job["out"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
