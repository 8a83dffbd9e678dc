"""Random kills of nodes, worker processes and the command itself: the model must be that of one process, each time.

    python benchmarks/cluster/kills.py DATA [--kills 20] [--nodes 4] [--seed 0] [--minutes 60]

A command that is killed starts again with --resume, also while there are fewer nodes. Adds a record to
benchmarks/results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from local import RESULTS, ROOT, children_of, cluster, hash_of, run, treetop

from treetop.core.provenance import append, provenance, versions

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--kills", type=int, default=20)
parser.add_argument("--nodes", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--minutes", type=float, default=60.0)
options = parser.parse_args()
random.seed(options.seed)


def workers(node: Any) -> list[int]:
    """Processes of a node that run a shard now."""
    raylet = node.all_processes["raylet"][0].process.pid
    return [pid for pid in children_of(raylet) if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::_call")]


def kill(made: Any, command: subprocess.Popen[bytes], what: str) -> str:
    """Kill one of these; returns what was hit."""
    nodes = sorted(made.worker_nodes, key=lambda node: node.unique_id)
    if what == "node" and len(nodes) > 1:
        made.remove_node(random.choice(nodes), allow_graceful=False)
        return "node"
    busy = [pid for node in nodes for pid in workers(node)]
    if what != "command" and busy:
        os.kill(random.choice(busy), signal.SIGKILL)
        return "worker"
    command.kill()
    command.wait()
    return "command"


def main() -> None:
    hits: Counter[str] = Counter()
    same, trainings, starts, ends = 0, 0, 0, time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as work, cluster(options.nodes, 1) as (made, address):
        wanted = Path(work) / "wanted"
        usual = run("fit", "xr_linear", options.data, "--out", wanted)
        out = Path(work) / "model"
        words = treetop("fit", "xr_linear", options.data, "--out", out, "--resume", "--cluster", address)
        while sum(hits.values()) < options.kills and time.monotonic() < ends:
            command, starts = subprocess.Popen(words, cwd=ROOT), starts + 1
            while command.poll() is None and time.monotonic() < ends:
                wait = random.uniform(0.1, 0.5) * max(20.0, usual)
                try:
                    command.wait(wait)
                except subprocess.TimeoutExpired:
                    if sum(hits.values()) < options.kills:
                        hits[kill(made, command, random.choice(("node", "worker", "command")))] += 1
                        print(dict(hits), f"{len(made.worker_nodes)} nodes", flush=True)
                        while len(made.worker_nodes) < options.nodes and random.random() < 0.7:
                            made.add_node(num_cpus=1, object_store_memory=1_000_000_000)
            if command.poll() is None:
                command.kill()
            elif command.returncode == 0:
                trainings += 1
                same += hash_of(out) == hash_of(wanted)
                shutil.rmtree(out)
                print(f"{same} of {trainings} models are the same", flush=True)
            elif command.returncode != -signal.SIGKILL:
                raise SystemExit(f"the command ended with {command.returncode}")
        if trainings == 0 or out.with_name("model.work").exists():  # the last one goes on to its end, without a cluster
            run("fit", "xr_linear", options.data, "--out", out, "--resume")
            trainings += 1
            same += hash_of(out) == hash_of(wanted)
    append(
        RESULTS,
        {
            **provenance(seed=options.seed),
            "versions": versions(),
            "name": f"kills {options.data.name}",
            "data": options.data.name,
            "nodes": options.nodes,
            "kills": dict(hits),
            "commands": starts,
            "trainings": trainings,
            "same": same,
            "seconds_threads": usual,
        },
    )
    print(dict(hits), f"{same} of {trainings} models are the same")


main()
