"""What an encoder reads of long texts: the first tokens, or windows whose vectors are averaged or pooled as learned.

    python benchmarks/long_documents/measure.py test SETS --record benchmarks/results/long-documents.jsonl
    python benchmarks/long_documents/measure.py choose SETS --record benchmarks/results/long-documents.jsonl
    python benchmarks/long_documents/measure.py choose DATA --length 32 --rows 3000 --record ...

`test` trains on SETS/train (see build.py) and evaluates on SETS/test, with the seconds of `fit` beside its forecast.
`choose` takes training documents only: a quarter of them, another for each seed, is held out. `--rows` takes so many of
them, `--length` makes windows of moderately long texts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance, versions
from treetop.training import fit, plan

ROOT = Path(__file__).parents[2]
READS = {
    "first": ["encoder.long_texts=truncate"],
    "windows, mean": ["encoder.long_texts=windows", "encoder.window_pooling=mean"],
    "windows, learned": ["encoder.long_texts=windows", "encoder.window_pooling=learned"],
}


def split(options: argparse.Namespace, seed: int) -> tuple[Dataset, Dataset]:
    if options.what == "test":
        return Dataset.read(options.data / "train"), Dataset.read(options.data / "test")
    folder = options.data / "train"
    data = Dataset.read(folder if folder.is_dir() else options.data)
    rows = np.random.default_rng(seed).permutation(len(data))[: options.rows or None]
    held = len(rows) // 4
    return data.take(np.sort(rows[held:])), data.take(np.sort(rows[:held]))


def measure(options: argparse.Namespace, reads: str, seed: int) -> dict:
    train, test = split(options, seed)
    settings = [f"encoder.max_length={options.length}", *READS[reads]]
    forecast = plan(options.recipe, preset="cpu", settings=settings).forecast(train)
    start, cpu = time.monotonic(), time.process_time()
    model = fit(options.recipe, train, preset="cpu", settings=settings, seed=seed, device="cpu", calibrate=False)
    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
    scores = model.evaluate(test)
    name = f"{options.data.name}: {options.recipe}:cpu, {reads}, {options.what}"
    return {
        **provenance(seed=seed, root=ROOT), "versions": versions(),
        "data": {"name": options.data.name, "train": len(train), "test": len(test), "labels": train.n_labels},
        "name": name, "rep": seed, "what": options.what, "recipe": f"{options.recipe}:cpu", "reads": reads,
        "settings": settings, "fit_s": round(seconds, 1), "fit_cpu_s": round(cpu, 1),
        "forecast_s": round(forecast.time, 1),
        **{metric: round(float(scores[metric]), 2) for metric in ("P@1", "P@5", "nDCG@5")},
        "P@5 interval": [round(float(value), 2) for value in scores.intervals["P@5"]],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["test", "choose"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--recipe", default="lightxml")
    parser.add_argument("--length", type=int, default=128, help="tokens of a window")
    parser.add_argument("--rows", type=int, default=0, help="documents to take; 0: all")
    parser.add_argument("--reads", default="first,windows, mean,windows, learned", help="which ways")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    for seed in map(int, options.seeds.split(",")):
        for reads in READS:
            if reads not in options.reads:
                continue
            record = measure(options, reads, seed)
            shown = ("name", "rep", "P@1", "P@5", "P@5 interval", "fit_s", "forecast_s")
            print({key: record[key] for key in shown}, flush=True)
            if options.record:
                with options.record.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
