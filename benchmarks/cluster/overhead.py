"""What a cluster costs on the cores that threads would use: one node, and two nodes.

    python benchmarks/cluster/overhead.py DATA [--set trees=8] [--part threads] [--part 1] [--part 2]

The time is that of training alone (run.json), with the cluster up and kernels compiled; what it takes to start is given
apart. Adds a record for each part to benchmarks/results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from pathlib import Path

from local import RESULTS, cluster, hash_of, run

from treetop.core.provenance import append, provenance, versions

CORES = len(os.sched_getaffinity(0))
parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--set", action="append", default=[])
parser.add_argument("--part", action="append", choices=["threads", "1", "2"])
options = parser.parse_args()
more = [word for item in options.set for word in ("--set", item)]
for part in options.part or ["threads", "1", "2"]:
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        place, started = [], time.monotonic()
        if part != "threads":
            _, address = stack.enter_context(cluster(int(part), CORES // int(part)))
            place = ["--cluster", address]
        start = time.monotonic() - started
        out = Path(work) / "model"
        whole = run("fit", "xr_linear", options.data, "--out", out, "--no-calibrate", *more, *place)
        spent = json.loads((out / "run.json").read_text())
        record = {
            **provenance(seed=0), "versions": versions(), "name": f"overhead {part} {options.data.name}",
            "data": options.data.name, "settings": options.set, "nodes": 0 if part == "threads" else int(part),
            "cores": CORES, "seconds": spent["seconds"], "cpu_seconds": spent["cpu_seconds"], "seconds_command": whole,
            "seconds_start": start, "hash": hash_of(out),
        }  # fmt: skip
        append(RESULTS, record)
        print(
            part,
            {name: record[name] for name in ("seconds", "cpu_seconds", "seconds_command", "seconds_start", "hash")},
        )
