"""Runs cells (data set, method, repetition): interleaved, each phase in a process of its own, each cell one record.

A cell that is there already, for the same matrices and settings, is not run again: a killed run goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools import records
from tools.peers import environments, scores, synthetic
from tools.peers.matrices import Matrices, prepare
from tools.peers.methods import ADAPTERS, Method
from treetop.core.errors import ResourceError
from treetop.core.log import logger

TINY = synthetic.Shape(n_train=400, n_test=100, n_features=900, n_labels=300, labels_per_topic=30, topic_pool=40)


@dataclass(frozen=True)
class Bench:
    """Where things lie and how a run is made."""

    root: Path  # the repository: peers/, build/ and benchmarks/ lie here
    data: Path
    threads: int = 2
    seed: int = 0
    limit_s: float = 7200.0  # longest time one phase of a cell may take
    run: str = "peers"  # name of the folder of records; a second run gets another one

    @property
    def results(self) -> Path:
        return self.root / "benchmarks" / "results" / self.run

    @property
    def build(self) -> Path:
        return self.root / "build" / "bench"

    def file(self, dataset: str) -> Path:
        """The records of a data set."""
        return self.results / f"{dataset}.jsonl"

    def record(self, dataset: str, method: Method, rep: int) -> records.Record | None:
        """The record of a cell, if it was run."""
        return records.usable(self.file(dataset)).get((method.name, rep))


def plan(methods: Sequence[Method], datasets: Sequence[str], reps: int) -> Iterator[tuple[str, Method, int]]:
    """Cells in running order: the first repetition of everything, then the second, so that drift hits all alike."""
    for rep in range(1, reps + 1):
        for dataset in datasets:
            for method in methods:
                if dataset in method.datasets and (rep == 1 or not method.once):
                    yield dataset, method, rep


def run(
    bench: Bench, methods: Sequence[Method], datasets: Sequence[str], *, reps: int = 3, fresh: bool = False
) -> list[records.Record]:
    """Run every cell that is missing (all with `fresh`) and return the records; failures are named at the end.

    Each repetition has a seed of its own, so that the mean of the scores does not hang on one tree.
    """
    for name in dict.fromkeys(method.environment for method in methods):
        if name is not None:
            environments.set_up(name, bench.root / "peers")
    made, failed, warmed = list[records.Record](), list[str](), set[str]()
    for dataset, method, rep in plan(methods, datasets, reps):
        known = bench.record(dataset, method, rep)
        matrices = prepare(dataset, data=bench.data, build=bench.build, seed=bench.seed)
        if not fresh and known and is_current(known, method, matrices):
            made.append(known)
            continue
        if method.environment is None and method.name not in warmed:
            _warm(bench, method)
            warmed.add(method.name)
        logger.info("%s, %s, repetition %d", dataset, method.name, rep)
        try:
            found = measure(dataclasses.replace(bench, seed=bench.seed + rep - 1), method, matrices, rep)
            records.append(bench.file(dataset), found)
            made.append(found)
        except ResourceError as error:
            logger.warning("%s", error)
            failed.append(f"{dataset}/{method.name}-{rep}")
    if failed:
        raise ResourceError(f"bench: {len(failed)} cells failed: {', '.join(failed)}. Their logs say why; run again.")
    return made


def is_current(found: records.Record, method: Method, matrices: Matrices) -> bool:
    """True when a record belongs to these matrices and settings."""
    same = found["data"]["fingerprint"] == matrices.facts["fingerprint"]
    return bool(same and found["settings"] == json.loads(json.dumps(method.settings)))


def _warm(bench: Bench, method: Method) -> None:
    """One run on a tiny set, so that compiled kernels are in the cache on disk, as they are for every later user."""
    from scipy import sparse

    folder = bench.build / "tiny"
    if not (folder / "X_train.npz").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for part, matrix in synthetic.make(TINY, seed=bench.seed).items():
            sparse.save_npz(folder / f"{part}.npz", matrix)
    measure_phases(bench, method, folder)


def measure(bench: Bench, method: Method, matrices: Matrices, rep: int) -> dict[str, Any]:
    """The record of one cell."""
    phases = measure_phases(bench, method, matrices.folder, tag=f"-{rep}")
    ids = np.load(_predictions(matrices.folder, method, f"-{rep}"))["ids"]
    return {
        **records.provenance(seed=bench.seed, root=bench.root),
        "dataset": matrices.name,
        "name": method.name,
        "rep": rep,
        "threads": bench.threads,
        "settings": dict(method.settings),
        "data": matrices.facts,
        **phases,
        **scores.score_ids(matrices, ids),
    }


def _predictions(folder: Path, method: Method, tag: str) -> Path:
    return folder / "predictions" / f"{method.name}{tag}.npz"


def measure_phases(bench: Bench, method: Method, folder: Path, *, tag: str = "") -> dict[str, Any]:
    """Versions, training, model size and all ways of predicting of a method on the matrices in `folder`."""
    work, predictions = folder / "work" / f"{method.name}{tag}", _predictions(folder, method, tag)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    predictions.parent.mkdir(exist_ok=True)
    job = {
        "adapter": str(method.adapter.resolve()),
        "data": str(folder.resolve()),
        "model": str((work / "model").resolve()),
        "predictions": str(predictions.resolve()),
        "settings": dict(method.settings),
        "threads": bench.threads,
        "seed": bench.seed,
    }
    versions = _phase(bench, method, {**job, "phase": "prepare"}, work)["versions"]
    train = _phase(bench, method, {**job, "phase": "train"}, work)
    size = sum(file.stat().st_size for file in (work / "model").rglob("*") if file.is_file())
    batch = _phase(bench, method, {**job, "phase": "batch"}, work)
    single = _phase(bench, method, {**job, "phase": "single"}, work)
    first = _phase(bench, method, {**job, "phase": "first"}, work)
    shutil.rmtree(work)
    measured = {"train": train, "model_mb": size / 1e6, "batch": batch, "single": single, "first": first}
    return {"versions": versions, **measured}


def _phase(bench: Bench, method: Method, job: dict[str, Any], work: Path) -> dict[str, Any]:
    """Run one phase in the environment of the method and return what it measured."""
    name = job["phase"]
    job_file, out, log = work / f"{name}.job.json", work / f"{name}.json", work / f"{name}.log"
    job_file.write_text(json.dumps({**job, "out": str(out.resolve())}))
    python = environments.python_of(method.environment, bench.root / "peers")
    # A spinning OpenMP thread would count as CPU time of the peer: with none, all look as good as they can.
    threads = str(bench.threads)
    env = {**os.environ, "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
    env |= {"MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": threads, "PYTHONDONTWRITEBYTECODE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("w") as sink:
        child = subprocess.Popen(
            [str(python), str(ADAPTERS / "child.py"), str(job_file)],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        try:
            code = child.wait(bench.limit_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if code or not out.exists():
        tail = " ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise ResourceError(f"{method.name}: phase '{name}' ended with {code}, see {log}: {tail[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    measured: dict[str, Any] = json.loads(out.read_text())
    return {**measured, "process_cpu_s": whole}
