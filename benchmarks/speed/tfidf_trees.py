"""tf-idf of an earlier tree and of this one in turn, CPU seconds on one thread.

    git worktree add /tmp/before COMMIT
    python benchmarks/speed/tfidf_trees.py /tmp/before DATA/train.jsonl.gz --record benchmarks/results/tfidf-trees.jsonl

Every run is a process of its own, whose programs are compiled before the clock starts. A run is the shortest of five
calls: what another process of the machine takes away can only make a call longer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from treetop.core.provenance import provenance, versions

ROOT = Path(__file__).parents[2]
RUN = """
import gzip, json, sys, time
from treetop.core.texts import Texts
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.runtime import threads
opened = gzip.open(sys.argv[1], "rt", encoding="utf-8")
texts, config = Texts.of([json.loads(line)["text"] for line in opened]), TfidfConfig(ngrams=(1, int(sys.argv[2])))
Tfidf.fit_transform(texts.span(0, 2000), config)[0].transform(texts.span(0, 2000))
fits, transforms = [], []
with threads.limited(1):
    for _ in range(5):
        start = time.process_time()
        tfidf, X = Tfidf.fit_transform(texts, config)
        fits.append(time.process_time() - start)
        start = time.process_time()
        tfidf.transform(texts)
        transforms.append(time.process_time() - start)
print(json.dumps({"fit": min(fits), "transform": min(transforms), "values": int(X.nnz)}))
"""


def run(tree: Path, data: Path, words: int) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, data, str(words)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--words", type=int, choices=(1, 2), default=2, help="longest n-gram of words")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    trees = {"before": options.before.resolve(), "now": ROOT}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for tree in trees.values():
        run(tree, options.data, options.words)  # compiles
    for _ in range(options.rounds):
        for name, tree in trees.items():
            found[name].append(run(tree, options.data, options.words))
            print(name, found[name][-1], flush=True)
    what = "words 1-2" if options.words == 2 else "words 1"
    record = {**provenance(seed=0, root=ROOT), "versions": versions(), "what": f"tf-idf {what}, one thread"}
    commit = subprocess.run(["git", "-C", options.before, "rev-parse", "--short=12", "HEAD"], capture_output=True)
    record |= {
        "name": f"tfidf-trees, {what}",
        "rep": 0,
        "before": commit.stdout.decode().strip(),
        "data": options.data.parent.name,
    }
    for part in ("fit", "transform"):
        all_ = {name: [round(one[part], 4) for one in runs] for name, runs in found.items()}
        medians = {name: median(values) for name, values in all_.items()}
        record[part] = {
            "all_cpu_s": all_,
            "median_cpu_s": medians,
            "ratio": round(medians["now"] / medians["before"], 4),
        }
    print(json.dumps(record["fit"]), json.dumps(record["transform"]), sep="\n")
    if options.record:
        with options.record.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
