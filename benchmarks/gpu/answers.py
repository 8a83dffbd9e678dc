"""How fast a model answers on a device and on the CPU, and whether both say the same; one JSON line.

    python benchmarks/gpu/answers.py MODEL DATA --device cuda --out results.jsonl
    python benchmarks/gpu/answers.py lightxml DATA --set encoder.model=build/gpu/encoder --device cuda

MODEL is a folder, or a recipe that is trained on the train split first. `--labels N` puts N random vectors in the place
of a dual encoder's labels: how the search grows. Seconds are those of the second run over all texts; the CPU answers
`--compared` of them. `--device cpu` is for small runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import treetop
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.types import Ranking
from treetop.features.encoder.towers import Towers
from treetop.kernels.runtime import threads
from treetop.rank.dual import Dual
from treetop.shortlist.everything import Everything


def settled(device: str) -> None:
    """Wait for what the GPU still does."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def timed(device: str, work: Callable[[], Any]) -> tuple[float, Any]:
    settled(device)
    started = time.perf_counter()
    made = work()
    settled(device)
    return time.perf_counter() - started, made


def opened(options: argparse.Namespace) -> Any:
    if Path(options.model).is_dir():
        return treetop.load(options.model)
    return treetop.fit(
        options.model, Dataset.read(options.data, "train"), preset=options.preset, settings=options.set,
        device=options.device,
    )  # fmt: skip


def widened(model: Any, n: int) -> Any:
    """The model with `n` random label vectors of the lengths its own have."""
    level = model.members[0][0]
    rank = level.rank
    if type(rank) is not Dual:
        raise SystemExit("--labels: needs a dual encoder, such as unidec.")
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((n, rank.weight.shape[1]), np.float32) * np.float32(rank.weight.std())
    many = Dual(weight, rng.choice(rank.bias, n).astype(np.float32), widths=rank.widths)
    levels = [dataclasses.replace(level, shortlist=Everything(n), rank=many)]
    labels = LabelSet.of([str(i) for i in range(n)])
    return dataclasses.replace(model, labels=labels, members=[levels], counts=np.zeros(n, np.int64), golden=())


def parts(model: Any, texts: Any, k: int, device: str) -> dict[str, float]:
    """Seconds of a run's three parts, one after the other."""
    spent = {"tokenise_s": 0.0, "encode_s": 0.0, "rank_s": 0.0}
    features = next(iter(model.features.values()))
    learned = features.transformer if isinstance(features, Towers) else features
    for views in model.batches(texts, {}):
        name = model.members[0][0].view
        spent["encode_s"] += timed(device, lambda views=views, name=name: views[name])[0]  # with its tokens
        spent["rank_s"] += timed(device, lambda views=views: model._rank_batch(views, k))[0]
    if hasattr(learned, "tokenizer"):
        spent["tokenise_s"] = timed(device, lambda: learned.tokenizer.encode(texts))[0]
        spent["encode_s"] -= spent["tokenise_s"]
    return {name: round(seconds, 3) for name, seconds in spent.items()}


def differences(one: Ranking, two: Ranking, k: int) -> dict[str, float]:
    """How far scores of the same places and of the same labels are apart, and how often labels differ."""
    a, b = (np.diff(ranking.indptr) for ranking in (one, two))
    if not np.array_equal(a, b):
        return {"max_score_difference": float("nan")}
    gap = float(np.abs(one.score - two.score).max(initial=0.0))
    return {
        "max_score_difference": gap,
        "same_label": round(float(np.mean(one.ids == two.ids)), 6),
        "same_first": round(float(np.mean(one.padded(k)[:, 0] == two.padded(k)[:, 0])), 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--split", default="test")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--rows", type=int, default=0, help="texts; 0: all; more than there are: some again")
    parser.add_argument("--compared", type=int, default=2000)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    model = opened(options)
    model = widened(model, options.labels) if options.labels else model
    texts = Dataset.read(options.data, options.split).texts
    texts = texts.take(np.arange(options.rows or len(texts)) % len(texts))
    few = texts.take(np.arange(min(options.compared, len(texts))))
    move_s, moved = timed(options.device, lambda: model.to(options.device))
    first_s, _ = timed(options.device, lambda: moved.rank(texts, options.k))
    seconds, _ = timed(options.device, lambda: moved.rank(texts, options.k))
    cpu_s, expected = timed("cpu", lambda: model.rank(few, options.k))
    gpu = options.device.startswith("cuda")
    line = {
        "section": "answers", "model": Path(options.model).name, "data": Path(options.data).name,
        "labels": len(model.labels), "texts": len(texts), "k": options.k, "device": options.device,
        "machine": torch.cuda.get_device_name() if gpu else "", "threads": threads.count(),
        "torch": torch.__version__, "move_s": round(move_s, 3), "first_s": round(first_s, 3),
        "seconds": round(seconds, 3), "texts_per_s": round(len(texts) / seconds, 1),
        **parts(moved, texts, options.k, options.device), "cpu_texts": len(few), "cpu_s": round(cpu_s, 3),
        "cpu_texts_per_s": round(len(few) / cpu_s, 1), **differences(expected, moved.rank(few, options.k), options.k),
        "gpu_memory": int(torch.cuda.max_memory_allocated()) if gpu else 0,
    }  # fmt: skip
    print(json.dumps(line), flush=True)
    if options.out:
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
