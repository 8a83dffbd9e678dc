"""Batch prediction of many texts under a memory limit, killed twice: complete, and equal to one machine's answers.

    python benchmarks/cluster/predict.py MODEL DATA [--texts 10000000] [--memory 1000000000] [--nodes 2] [--minutes 240]

The input repeats the training texts of DATA. Every process of a node may have `--memory` bytes of its own (RLIMIT_DATA;
stacks of threads are cut to 1 MB, as they count in full); memory that the system maps from files is shared. The command
is killed once and a node once. One process answers the texts once without a cluster, and each repetition is compared
with that. Adds a record to benchmarks/results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as parquet
from local import RESULTS, ROOT, cluster, run, treetop

from treetop.core.dataset import Dataset
from treetop.core.provenance import append, provenance, versions

parser = argparse.ArgumentParser()
parser.add_argument("model", type=Path)
parser.add_argument("data", type=Path)
parser.add_argument("--texts", type=int, default=10_000_000)
parser.add_argument("--memory", type=int, default=1_000_000_000)
parser.add_argument("--nodes", type=int, default=2)
parser.add_argument("--minutes", type=float, default=240.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--folder", type=Path, default=None, help="where the files go (some GB); default: a temporary one")
options = parser.parse_args()
random.seed(options.seed)


def write_input(once: Path, many: Path) -> int:
    """The texts once, and again and again until there are enough; returns how many there are once."""
    texts = list(Dataset.read(options.data).texts)[: options.texts]
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    once.write_text("".join(lines), encoding="utf-8")
    whole = "".join(lines)
    with many.open("w", encoding="utf-8") as out:
        for _ in range(options.texts // len(lines)):
            out.write(whole)
        out.write("".join(lines[: options.texts % len(lines)]))
    return len(lines)


def limited_cluster():
    """Nodes whose processes inherit the limits."""
    before = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_DATA, resource.RLIMIT_STACK)}
    resource.setrlimit(resource.RLIMIT_DATA, (options.memory, before[resource.RLIMIT_DATA][1]))
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, before[resource.RLIMIT_STACK][1]))
    return cluster(options.nodes, max(1, len(os.sched_getaffinity(0)) // options.nodes), 500_000_000), before


def equal(folder: Path, once: Path) -> tuple[int, int]:
    """(rows, rows that differ from the answers given once)"""
    known = parquet.read_table(once)
    rows, differing = 0, 0
    for file in sorted(folder.glob("part-*.parquet")):
        shard = parquet.read_table(file)
        done = 0
        while done < len(shard):
            at = (rows + done) % len(known)
            length = min(len(shard) - done, len(known) - at)
            if not shard.slice(done, length).equals(known.slice(at, length)):
                differing += length
            done += length
        rows += len(shard)
    return rows, differing


def main() -> None:
    ends = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(dir=options.folder) as work:
        once, many, out = Path(work) / "once.jsonl", Path(work) / "many.jsonl", Path(work) / "answers"
        n = write_input(once, many)
        seconds_once = run("predict", options.model, once, "--out", Path(work) / "once.parquet")
        managed, before = limited_cluster()
        with managed as (made, address):
            for kind, limit in before.items():
                resource.setrlimit(kind, limit)
            words = ["predict", options.model, many, "--out", out, "--cluster", address]
            shards, kills, spent, runs = -(-options.texts // 50_000), [0.3, 0.6], 0.0, 0
            said = ""
            while time.monotonic() < ends:
                resume = ["--resume"] if out.exists() else []
                started, runs = time.monotonic(), runs + 1
                command = subprocess.Popen(treetop(*words, *resume), cwd=ROOT, stderr=subprocess.PIPE, text=True)
                while command.poll() is None and time.monotonic() < ends:
                    time.sleep(0.2)
                    if kills and len(list(out.glob("part-*.parquet"))) >= kills[0] * shards:
                        kills.pop(0)
                        if kills:
                            command.kill()
                        else:
                            made.remove_node(random.choice(sorted(made.worker_nodes, key=str)), allow_graceful=False)
                spent += time.monotonic() - started
                if command.poll() is None:
                    command.kill()
                said = (command.stderr.read() if command.stderr else "").strip()
                print(command.wait(), said, flush=True)
                if command.returncode == 0:
                    break
                if command.returncode > 0:
                    raise SystemExit(said)
        rows, differing = equal(out, Path(work) / "once.parquet")
        noted = [json.loads(line) for line in (out / "_shards.jsonl").read_text().splitlines()]
        record = {
            **provenance(seed=options.seed), "versions": versions(), "data": options.data.name,
            "name": f"predict {options.texts} {options.data.name}", "texts": options.texts, "texts_once": n,
            "nodes": options.nodes, "memory_limit": options.memory, "shards": shards,
            "memory_peak": max(line["memory"] for line in noted),
            "kills": 2 - len(kills), "commands": runs, "seconds": spent, "rows": rows,
            "rows_differing": differing, "bytes": sum(file.stat().st_size for file in out.glob("part-*")),
            "seconds_once": seconds_once, "said": said.replace(str(out), "FOLDER"),
        }  # fmt: skip
        append(RESULTS, record)
        print({name: record[name] for name in ("rows", "rows_differing", "seconds", "kills", "memory_peak")})


main()
