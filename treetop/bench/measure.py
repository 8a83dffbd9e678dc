"""One recipe on one data set: training cost, size and speed of the model, and its scores on test."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core import provenance
from treetop.core.dataset import Dataset
from treetop.core.leftovers import temporary
from treetop.core.types import Scores
from treetop.model import Model
from treetop.training import fit, plan

WARM, SINGLES = 20, 400  # texts by themselves: before the clock runs, and while it does
MADE_OF_OTHERS = ("auto", "blend")
METRICS = ("P@1", "P@3", "P@5", "nDCG@10", "R@10", "PSP@1", "PSP@3", "PSP@5", "C@5")


def measure(
    name: str,
    train: Dataset,
    test: Dataset,
    *,
    preset: str = "default",
    settings: Iterable[str] = (),
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    budget: str = "",
) -> dict[str, Any]:
    """A record: settings, forecast, seconds, memory, model size, scores on test with intervals.

    Nothing is held out of training: heads are joined at fixed weights, and scores have no probabilities. Recipes that
    are made of others (`auto`, `blend`) hold out what they need to choose or to fuse.
    """
    chosen = list(settings)
    needs = plan(name, preset=preset, settings=chosen).forecast(train, device=device)
    with tempfile.TemporaryDirectory(prefix="treetop-bench-") as work, temporary(Path(work)):
        folder = Path(work)
        wall, cpu = time.monotonic(), time.process_time()
        options: dict[str, Any] = {"seed": seed, "threads": threads, "device": device, "budget": budget}
        options["calibrate"] = name.rpartition("+")[2] in MADE_OF_OTHERS
        model = fit(name, train, preset=preset, settings=chosen, out=folder / "model", **options)
        cost = {"wall_s": time.monotonic() - wall, "cpu_s": time.process_time() - cpu, "peak_mb": _peak_mb()}
        cost |= {"gpu_s": cost["wall_s"]} if _took_gpu() else {}
        size = sum(file.stat().st_size for file in (folder / "model").rglob("*") if file.is_file()) / 1e6
    scores, batch = _tested(model, test)
    single = _one_by_one(model, test)
    values = {
        **provenance.provenance(seed=seed),
        "versions": provenance.versions(),
        "name": name,
        "recipe": name,
        "preset": preset,
        "settings": dict(model.card.config),
        "cell": cell(name, preset, chosen, seed, device, budget),
        "data": {
            "name": train.name,
            "train": len(train),
            "test": len(test),
            "labels": train.n_labels,
            "fingerprint": train.fingerprint,
        },
        "forecast": {"memory_mb": needs.memory / 1e6, "model_mb": needs.model / 1e6, "time_s": needs.time},
        "train": cost,
        "model_mb": size,
        "batch": batch,
        "single": single,
        "scores": {metric: scores[metric] for metric in METRICS},
        "intervals": {metric: scores.intervals[metric] for metric in METRICS if metric in scores.intervals},
        "bins": scores.bins,
    }
    return values


def cell(name: str, preset: str, settings: Iterable[str], seed: int, device: str, budget: str) -> dict[str, Any]:
    """What was asked for: two records of one cell and one data set answer the same question."""
    return {
        "recipe": name, "preset": preset, "set": list(settings), "seed": seed, "device": device, "budget": budget,
    }  # fmt: skip


def _tested(model: Model, test: Dataset) -> tuple[Scores, dict[str, float]]:
    wall, cpu = time.monotonic(), time.process_time()
    model.rank_dataset(test, 10)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return model.evaluate(test), {
        "wall_s": wall,
        "cpu_s": cpu,
        "docs_per_cpu_s": len(test) / max(cpu, 1e-9),
        "docs_per_s": len(test) / max(wall, 1e-9),
    }


def _one_by_one(model: Model, test: Dataset) -> dict[str, float]:
    """Milliseconds per single text, from the string to the ranking."""
    spent: list[float] = []
    cpu = 0.0
    for i in range(min(SINGLES, len(test)) + WARM):
        wall, before = time.perf_counter(), time.process_time()
        model.rank(test.texts.take(np.array([i % len(test)])), 5)
        if i >= WARM:
            spent.append(1e3 * (time.perf_counter() - wall))
            cpu += 1e3 * (time.process_time() - before)
    p50, p99 = np.percentile(spent, [50, 99])
    return {"texts": len(spent), "p50_ms": float(p50), "p99_ms": float(p99), "cpu_ms": cpu / len(spent)}


def _took_gpu() -> bool:
    """Whether this process has used a GPU; its seconds are then those of the whole training."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def _peak_mb() -> float:
    """The highest resident memory of this process so far; rusage may report that of the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        found = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(found[0]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
