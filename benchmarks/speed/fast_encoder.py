"""An encoder on the CPU as it comes, in ONNX Runtime, and there with int8 products (`--fast`): time and answers.

    python -m benchmarks.speed.fast_encoder DATA [--encoder FOLDER] [--model FOLDER] [--out FILE]

CPU milliseconds a text on one thread (median; the forms take turns, so that a change of the machine's load meets all of
them), for a text by itself and batches of 32 and 256, of DATA's test texts as they are and twelve of them joined; the
cosine with float32. With `--model`, also what `Model.fast` does to P@1, P@5 and PSP@5 on the test split.
"""

from __future__ import annotations

import argparse
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import treetop
from tools import records
from treetop.core.dataset import Dataset
from treetop.core.texts import Texts
from treetop.features.encoder.runtime_layers import RuntimeLayers
from treetop.features.encoder.sources import DEFAULT
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.kernels.runtime import threads

ROOT = Path(__file__).resolve().parents[2]
TEXTS, JOINED = 256, 12
TURNS = {1: 40, 32: 6, 256: 3}
METRICS = ("P@1", "P@5", "PSP@5")


def forms(encoder: str) -> dict[str, Transformer]:
    made = {name: Transformer.load(TransformerConfig(model=encoder)) for name in ("float32", "onnx", "int8")}
    for name in ("onnx", "int8"):
        made[name].encoder._quick, made[name]._packed = RuntimeLayers(made[name].encoder, int8=name == "int8"), True
    return made


def vectors(transformer: Transformer, texts: Texts) -> Any:
    return transformer.views(texts)[transformer.view_name(transformer.poolings[0])]


def cosines(one: Any, other: Any) -> Any:
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def measured(made: dict[str, Transformer], texts: Texts, size: int) -> list[dict[str, Any]]:
    spent: dict[str, list[float]] = {name: [] for name in made}
    found: dict[str, Any] = {}
    for turn in range(TURNS[size] + 1):  # the first turn warms up
        start = turn * size % (len(texts) - size + 1)
        for name, transformer in made.items():
            used = time.process_time()
            found[name] = vectors(transformer, texts.span(start, start + size))
            spent[name] += [time.process_time() - used] if turn else []
    return [
        {
            "form": name, "texts": size, "cpu_ms_per_text": round(1e3 * float(np.median(times)) / size, 2),
            "times": round(float(np.median(spent["float32"]) / np.median(times)), 2),
            "cosine": round(float(cosines(found["float32"], found[name]).mean()), 5),
        }
        for name, times in spent.items()
    ]  # fmt: skip


def spread(data: Dataset, n: int) -> Dataset:
    """At most `n` rows, evenly spread."""
    return data.take(np.unique(np.linspace(0, len(data) - 1, n).astype(np.int64)))


def answers(folder: Path, data: Dataset) -> list[dict[str, Any]]:
    """Scores of a model and of its fast form, and how many of the best five labels both return."""
    model = treetop.load(folder)
    lines, best = [], model.rank_dataset(data, 5).padded(5)
    for name, one in (("float32", model), ("int8", model.fast())):
        used = time.process_time()
        ids = one.rank_dataset(data, 5).padded(5)
        spent = time.process_time() - used
        scores = one.evaluate(data, resamples=0)
        same = np.mean([len(np.intersect1d(a, b)) for a, b in zip(ids, best, strict=True)]) / 5
        line = {"form": name, "rows": len(data), "cpu_s": round(spent, 2), "same_of_5": round(float(same), 4)}
        lines.append(line | {metric: round(scores[metric], 2) for metric in METRICS})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default=DEFAULT)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rows", type=int, default=4000, help="test rows, evenly spread, that the model answers")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = Dataset.read(options.data, "test")
    plain = data.texts.take(np.linspace(0, len(data.texts) - 1, TEXTS).astype(np.int64))
    joined = Texts.of([" ".join(plain[(7 * i + j) % TEXTS] for j in range(JOINED)) for i in range(TEXTS)])
    about = records.provenance(seed=0, root=ROOT) | {"data": options.data.name, "onnxruntime": version("onnxruntime")}
    lines = []
    with threads.limited(1):
        made = forms(options.encoder)
        for kind, texts in (("short", plain), ("long", joined)):
            for size in TURNS:
                lines += [
                    {"encoder": Path(options.encoder).name, "kind": kind} | line for line in measured(made, texts, size)
                ]
    if options.model:
        lines += [{"model": options.model.name} | line for line in answers(options.model, spread(data, options.rows))]
    for line in lines:
        name = " ".join(str(line[key]) for key in ("encoder", "model", "kind", "texts", "form") if key in line)
        line = about | {"name": name, "load": round(os.getloadavg()[0], 2)} | line
        print({key: value for key, value in line.items() if key not in about}, flush=True)
        if options.out:
            records.append(options.out, line)


if __name__ == "__main__":
    main()
