"""Ray nodes on this machine for the measurements beside this file: started, killed and always ended again.

A node is a raylet with its own object store and worker processes, as on a machine of its own; the head of the cluster
is a node without cores, so that any other may be killed. Commands run as processes with `PYTHONPATH` set to the
repository, and see the cluster by its address.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", OMP_NUM_THREADS="1", GOMP_SPINCOUNT="0", RAY_AUTH_MODE="token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "cluster.jsonl"
os.environ["PYTHONPATH"] = str(ROOT)  # for nodes too
STORE = 2_000_000_000  # bytes of an object store


@contextlib.contextmanager
def cluster(nodes: int, cores: int, store: int = STORE) -> Iterator[tuple[Any, str]]:
    """(the cluster, its address) with so many nodes of so many cores each."""
    from ray.cluster_utils import Cluster

    quiet = {"include_dashboard": False, "object_store_memory": store}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **quiet})
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=cores, **quiet)
        made.wait_for_nodes()
        yield made, made.address
    finally:
        made.shutdown()


def treetop(*words: str) -> list[str]:
    """A command of treetop as words for `subprocess`."""
    return [sys.executable, "-m", "treetop", "-q", *map(str, words)]


def run(*words: str) -> float:
    """Run a command to its end; seconds."""
    started = time.monotonic()
    subprocess.run(treetop(*words), check=True, cwd=ROOT)
    return time.monotonic() - started


def hash_of(folder: Path) -> str:
    """A hash of all files of a model, but for run.json, which tells of times."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "run.json"):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def children_of(pid: int) -> list[int]:
    """Processes that a process started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found
