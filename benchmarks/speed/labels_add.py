"""Seconds to add 1,000 labels by text to a model of a million labels with `treetop labels add`.

    python benchmarks/speed/labels_add.py [--labels N] [--new N] [--clusters N] [--encoder NAME] [--folder DIR]

The model is a made-up one of the form `lightxml` trains: an encoder and a head of vectors (below clusters with
--clusters), which are the texts' own vectors and noise. Texts are those of the bundled wordnet labels, each used for
many labels. Writes benchmarks/results/labels-add-speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import treetop
from treetop.core.card import Card
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Join, LabelTree, Level
from treetop.core.version import VERSION
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.model import Model
from treetop.rank.head import Head
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything

ROOT = Path(__file__).resolve().parents[2]
TEXTS = 4000  # different texts among the labels
QUERIES = 32


def unit(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def made_up(words: Texts, n: int, clusters: int, encoder: str) -> Model:
    transformer = Transformer.load(TransformerConfig(model=encoder, l2=True))
    name = transformer.view_name(transformer.poolings[0])
    T = transformer.views(words)[name]
    V, rng = 25 * unit(T - T.mean(0)), np.random.default_rng(0)
    weight = np.empty((n, T.shape[1]), np.float32)
    for start in range(0, n, 1 << 16):
        stop = min(n, start + (1 << 16))
        noise = rng.standard_normal((stop - start, T.shape[1]), np.float32)
        weight[start:stop] = V[np.arange(start, stop) % len(words)] + np.float32(0.3) * noise
    counts = rng.zipf(1.7, n).clip(max=10_000)
    bias = (np.log((counts + 0.5) / n) - weight @ T.mean(0)).astype(np.float32)
    levels = [Level(name, Everything(n), Head(weight, bias), Join("sigmoid"))]
    if clusters:
        node = (np.arange(n) % len(words) * clusters // len(words)).astype(np.int32)
        C = unit(np.stack([V[np.arange(len(words)) * clusters // len(words) == c].mean(0) for c in range(clusters)]))
        tree = LabelTree((np.zeros(clusters, np.int32), node))
        above = Head(np.float32(25) * C, (-2 - 25 * C @ T.mean(0)).astype(np.float32))
        levels = [
            Level(name, Everything(clusters), above, Join("sigmoid"), beam=75),
            Level(name, Descend.of(tree, 1), Head(weight, bias), Join("sigmoid", "path")),
        ]
    texts = words.take(np.arange(n) % len(words))
    labels = LabelSet(Texts.of(f"L{i}" for i in range(n)), texts, texts, np.zeros(n, np.uint8))
    return Model(labels, {"encoder": transformer}, [levels], counts.astype(np.int64), n, Card("lightxml"))


def stamp(folder: Path) -> dict[str, tuple[int, int]]:
    files = [p for p in folder.rglob("*") if p.is_file() and "edits" not in p.relative_to(folder).parts]
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in files}


def asked(folder: Path, queries: Texts, n: int):
    """(seconds to open, scores of trained labels, share of the queries whose own label comes first)."""
    started = time.perf_counter()
    model = treetop.load(folder)
    seconds = time.perf_counter() - started
    ranking = model.rank(queries, 50)
    rows = np.repeat(np.arange(len(queries)), np.diff(ranking.indptr))
    old = {
        (r, c): s for r, c, s in zip(rows.tolist(), ranking.ids.tolist(), ranking.score.tolist(), strict=True) if c < n
    }
    top = ranking.padded(5)
    return seconds, old, float(np.mean([(top[i] == n + i).any() for i in range(len(queries))]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=1000)
    parser.add_argument("--clusters", type=int, default=0)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--folder", type=Path, default=None, help="where the model is made, some GB")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/labels-add-speed.json")
    options = parser.parse_args()
    data = Dataset.read("wordnet")
    known, new = data.labels.texts.span(0, TEXTS), data.labels.texts.span(TEXTS, TEXTS + options.new)
    home = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        made_up(known, options.labels, options.clusters, options.encoder).save(home / "m")
        before = stamp(home / "m")
        opened, old, _ = asked(home / "m", new.span(0, QUERIES), options.labels)
        rows = [json.dumps({"id": f"N{i}", "text": text}) for i, text in enumerate(new)]
        (home / "new.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "treetop", "labels", "add", str(home / "m"), str(home / "new.jsonl")]
        runs = []
        for turn in range(2):
            if turn:
                (home / "new.jsonl").write_text("\n".join(rows).replace('"N', '"M') + "\n", encoding="utf-8")
            wall, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
            runs.append({"wall_s": round(time.perf_counter() - wall, 2), "cpu_s": round(cpu, 2)})
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        reopened, still, found = asked(home / "m", new.span(0, QUERIES), options.labels)
        written = sum(p.stat().st_size for p in (home / "m/edits").rglob("*") if p.is_file())
        held = stamp(home / "m") == before and all(old[pair] == score for pair, score in still.items())
    finally:
        shutil.rmtree(home)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    result = {
        "what": "treetop labels add: whole command, start of Python included; the second time the relation of texts "
        "and vectors is known already",
        "command": "python benchmarks/speed/labels_add.py " + " ".join(sys.argv[1:]),
        "labels": options.labels, "new": options.new, "clusters": options.clusters, "encoder": options.encoder,
        "runs": runs, "peak_gib": round(peak, 2), "written_mb": round(written / 1e6, 1),
        "open_s": {"before": round(opened, 2), "after": round(reopened, 2)},
        "old files and scores unchanged": held, "own text finds the new label among five": found,
        "versions": {"treetop": VERSION}, "python": platform.python_version(), "machine": platform.machine(),
        "cores": os.cpu_count(), "commit": commit.strip(),
    }  # fmt: skip
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
