"""Whether a cluster of four nodes trains the model of one process, byte by byte.

    python benchmarks/cluster/bytes.py DATA... [--recipe xr_linear] [--nodes 4] [--set trees=3]

Adds a record per data set to benchmarks/results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from local import RESULTS, cluster, hash_of, run

from treetop.core.provenance import append, provenance, versions

parser = argparse.ArgumentParser()
parser.add_argument("data", nargs="+", type=Path)
parser.add_argument("--recipe", default="xr_linear")
parser.add_argument("--nodes", type=int, default=4)
parser.add_argument("--set", action="append", default=[])
options = parser.parse_args()
more = [word for item in options.set for word in ("--set", item)]
for data in options.data:
    with tempfile.TemporaryDirectory() as work, cluster(options.nodes, 1) as (_, address):
        one, many = Path(work) / "one", Path(work) / "many"
        seconds = run("fit", options.recipe, data, "--out", one, *more)
        on_cluster = run("fit", options.recipe, data, "--out", many, "--cluster", address, *more)
        record = {
            **provenance(seed=0), "versions": versions(), "name": f"bytes {options.recipe} {data.name}",
            "data": data.name, "recipe": options.recipe, "settings": options.set, "nodes": options.nodes,
            "seconds_threads": seconds, "seconds_cluster": on_cluster, "hash": hash_of(one),
            "hash_cluster": hash_of(many), "same": hash_of(one) == hash_of(many),
        }  # fmt: skip
        append(RESULTS, record)
        print(data.name, record["same"], f"{seconds:.0f} s, on the cluster {on_cluster:.0f} s")
