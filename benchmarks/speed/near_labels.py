"""One query over a million encoder vectors on two threads: milliseconds and recall@10 against looking at all of them.

    python -m benchmarks.speed.near_labels [--vectors FILE] [--labels N]

Vectors are the encoder's own of stretches of three to seven words out of the bundled wordnet definitions; queries are
definitions no stretch was taken from. FILE keeps the vectors (they take an hour) and is filled on where a run was
stopped; the graph lies beside it. Writes benchmarks/results/near-labels-speed.json.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tools import records
from treetop.core.dataset import Dataset
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.data.catalog import bundled_folder
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.kernels.runtime import threads
from treetop.shortlist.hnsw import Hnsw

ROOT = Path(__file__).resolve().parents[2]
QUERIES, K, BLOCK = 1000, 10, 1 << 12


def stretches(texts: Texts, count: int) -> list[str]:
    """Different stretches of three to seven words, in an order of their own."""
    rng, found = np.random.default_rng(0), {}
    for turn in range(8):  # lengths are drawn anew in every turn
        for i in rng.permutation(len(texts)):
            words = texts[int(i)].replace(":", "").split()
            for start in range(turn % 2, len(words) - 2, 2):
                found.setdefault(" ".join(words[start : start + int(rng.integers(3, 8))]), None)
        if len(found) >= count:
            break
    made = list(found)[:count]
    if len(made) < count:
        raise SystemExit(f"only {len(made):,} different stretches; ask for fewer with --labels")
    return made


def encoded(transformer: Transformer, texts: list[str], file: Path) -> Any:
    """(texts, width) in a file; rows of zeros are made now."""
    name, width = transformer.view_name(transformer.poolings[0]), transformer.encoder.width
    fresh = not file.exists()
    held = np.lib.format.open_memmap(file, "w+" if fresh else "r+", np.float32, (len(texts), width))
    for start in range(0, len(texts), BLOCK):
        stop = min(len(texts), start + BLOCK)
        if not held[stop - 1].any():
            held[start:stop] = transformer.views(Texts.of(texts[start:stop]))[name]
            print(f"{stop:,} of {len(texts):,}", flush=True)
    held.flush()
    return held


def exact(vectors: Any, queries: Any) -> Any:
    """(queries, K) the best of all."""
    best, ids = np.full((len(queries), K), -np.inf, np.float32), np.zeros((len(queries), K), np.int64)
    for start in range(0, len(vectors), 1 << 16):
        z = np.hstack([best, queries @ vectors[start : start + (1 << 16)].T])
        top = np.argpartition(-z, K - 1, axis=1)[:, :K]
        ids = np.where(top < K, np.take_along_axis(ids, top.clip(max=K - 1), 1), top - K + start)
        best = np.take_along_axis(z, top, 1)
    return ids


def kept(vectors: Any, file: Path) -> tuple[Hnsw, dict[str, float]]:
    """The graph of these vectors and what it took to build, out of the file if it is there."""
    if not file.exists():
        started, used = time.perf_counter(), time.process_time()
        made = Hnsw.of(np.array(vectors), np.zeros(len(vectors), np.float32), keep=100)
        built = [time.perf_counter() - started, time.process_time() - used]
        part = made.to_part()
        np.savez(file, built=built, config=json.dumps(part.config), **part.arrays)
    with np.load(file) as held:
        arrays = {name: held[name] for name in held.files if name not in ("built", "config")}
        part = Part(Hnsw.kind, json.loads(str(held["config"])), arrays)
        return Hnsw.from_part(part), dict(zip(("build_s", "build_cpu_s"), held["built"].tolist(), strict=True))


def asked(graph: Hnsw, queries: Any, truth: Any) -> dict[str, Any]:
    """One query at a time: candidates of the graph, as a model asks for them, and how many of the best they hold."""
    for row in queries[:50]:
        graph.candidates(row[None], None)
    spent, right = [], 0
    for row, best in zip(queries, truth, strict=True):
        started = time.perf_counter()
        found = graph.candidates(row[None], None)
        spent.append(1e3 * (time.perf_counter() - started))
        right += int(np.isin(best, found.ids).sum())
    p50, p99 = np.percentile(spent, [50, 99])
    return {"p50_ms": round(float(p50), 3), "p99_ms": round(float(p99), 3), "recall@10": right / truth.size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path, default=ROOT / "build/near-labels.npy")
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--efforts", type=int, nargs="*", default=[64, 128, 256])
    parser.add_argument("--only-encode", action="store_true")
    options = parser.parse_args()
    facts = records.provenance(seed=0, root=ROOT, command=["python", "-m", "benchmarks.speed.near_labels"])
    folder = bundled_folder("wordnet")
    train, test = Dataset.read(folder, "train"), Dataset.read(folder, "test")
    transformer = Transformer.load(TransformerConfig(l2=True))
    with threads.limited(2):
        vectors = encoded(transformer, stretches(train.texts, options.labels), options.vectors)
        if options.only_encode:
            return
        queries = transformer.views(test.texts.take(np.arange(QUERIES)))[transformer.view_name(transformer.poolings[0])]
        queries = np.ascontiguousarray(queries, np.float32)
        truth = exact(vectors, queries)
        graph, built = kept(vectors, options.vectors.with_suffix(".graph.npz"))
        runs = []
        for effort in options.efforts:
            tried = Hnsw(graph.links, keep=100, effort=effort, weight=graph.weight)
            runs.append({"effort": effort, "keep": 100} | asked(tried, queries, truth))
            print(json.dumps(runs[-1]), flush=True)
    found = {
        "what": "candidates of one query out of a graph, one query at a time, two threads", "labels": len(vectors),
        "width": vectors.shape[1], "encoder": "all-MiniLM-L6-v2", "queries": len(queries), **built, "runs": runs,
        "bytes": sum(array.nbytes for array in graph.to_part().arrays.values()), "faiss-cpu": version("faiss-cpu"),
    }  # fmt: skip
    records.write(ROOT / "benchmarks/results/near-labels-speed.json", facts | found)


if __name__ == "__main__":
    main()
