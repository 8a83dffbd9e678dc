"""What an encoder reads of long texts: the first tokens, or windows whose vectors are averaged or pooled as learned.

    python benchmarks/long_documents/measure.py test SETS --record benchmarks/results/long-documents.jsonl
    python benchmarks/long_documents/measure.py choose SETS --record benchmarks/results/long-documents.jsonl
    python benchmarks/long_documents/measure.py choose DATA --length 32 --rows 3000 --record ...

`test` trains on SETS/train (see build.py) and evaluates on SETS/test. `choose` takes training documents only: a quarter
of them, another for each seed, is held out; `--rows` takes so many of them, `--length` makes windows of moderately long
texts. What the frozen encoder makes of a window is computed once for all trainings, unless `--timed`: then the seconds
of `fit` stand beside its forecast.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance, versions
from treetop.features.encoder.tokens import Tokens
from treetop.features.encoder.transformer import Transformer
from treetop.features.encoder.windows import averaged
from treetop.training import fit, plan

ROOT = Path(__file__).parents[2]
KNOWN: dict[bytes, dict[str, np.ndarray]] = {}  # windows by their token ids
READS = {
    "first": ["encoder.long_texts=truncate"],
    "windows, mean": ["encoder.long_texts=windows", "encoder.window_pooling=mean"],
    "windows, learned": ["encoder.long_texts=windows", "encoder.window_pooling=learned"],
}


def remember() -> None:
    """Let encoders read no window twice; the pooling of windows is computed anew for each text."""
    compute = Transformer.vectors

    def vectors(self: Transformer, tokens: Tokens, *, say: str | None = None) -> dict[str, np.ndarray]:
        ends, names = tokens.offsets.tolist(), [p.name for p in self.poolings]
        keys = [f"{names}".encode() + tokens.ids[a:b].tobytes() for a, b in pairwise(ends)]
        new = {key: i for i, key in enumerate(keys) if key not in KNOWN}
        if new:
            plain = copy.copy(self)
            plain.l2 = False
            found = compute(plain, Tokens(tokens.ids, tokens.offsets).take(np.array(list(new.values()))), say=say)
            for i, key in enumerate(new):
                KNOWN[key] = {p.name: found[self.view_name(p)][i] for p in self.poolings}
        owner = np.arange(len(keys)) if tokens.rows is None else np.repeat(np.arange(len(tokens)), np.diff(tokens.rows))
        views = {}
        for p in self.poolings:
            pool = averaged if self.window_pools is None or tokens.rows is None else self.window_pools[p.name]
            windows = torch.from_numpy(np.stack([KNOWN[key][p.name] for key in keys]))
            with torch.inference_mode():
                view = pool(windows, torch.from_numpy(owner), len(tokens))
                views[self.view_name(p)] = (functional.normalize(view, dim=1) if self.l2 else view).numpy()
        return views

    Transformer.vectors = vectors  # type: ignore[method-assign]


def split(options: argparse.Namespace, seed: int) -> tuple[Dataset, Dataset]:
    if options.what == "test":
        return Dataset.read(options.data / "train"), Dataset.read(options.data / "test")
    folder = options.data / "train"
    data = Dataset.read(folder if folder.is_dir() else options.data)
    rows = np.random.default_rng(seed).permutation(len(data))[: options.rows or None]
    held = len(rows) // 4
    return data.take(np.sort(rows[held:])), data.take(np.sort(rows[:held]))


def measure(options: argparse.Namespace, recipe: str, reads: str, seed: int) -> dict:
    train, test = split(options, seed)
    settings = [f"encoder.max_length={options.length}", *READS[reads]]
    forecast = plan(recipe, preset="cpu", settings=settings).forecast(train)
    start, cpu = time.monotonic(), time.process_time()
    model = fit(recipe, train, preset="cpu", settings=settings, seed=seed, device="cpu", calibrate=False)
    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
    timed = {"fit_s": round(seconds, 1), "fit_cpu_s": round(cpu, 1), "forecast_s": round(forecast.time, 1)}
    timed = timed if options.timed else {}
    scores = model.evaluate(test)
    name = f"{options.data.name}: {recipe}:cpu, {reads}, {options.what}" + (", timed" if options.timed else "")
    return {
        **provenance(seed=seed, root=ROOT), "versions": versions(),
        "data": {"name": options.data.name, "train": len(train), "test": len(test), "labels": train.n_labels},
        "name": name, "rep": seed, "what": options.what, "recipe": f"{recipe}:cpu", "reads": reads,
        "settings": settings, **timed,
        **{metric: round(float(scores[metric]), 2) for metric in ("P@1", "P@5", "nDCG@5")},
        "P@5 interval": [round(float(value), 2) for value in scores.intervals["P@5"]],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["test", "choose"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--recipes", default="lightxml,unidec")
    parser.add_argument("--length", type=int, default=128, help="tokens of a window")
    parser.add_argument("--rows", type=int, default=0, help="documents to take; 0: all")
    parser.add_argument("--reads", default="first,windows, mean,windows, learned", help="which ways")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    if not options.timed:
        remember()
    for seed, reads, recipe in product(map(int, options.seeds.split(",")), READS, options.recipes.split(",")):
        if reads in options.reads:
            record = measure(options, recipe, reads, seed)
            shown = ("name", "rep", "P@1", "P@5", "P@5 interval", "fit_s", "forecast_s")
            print({key: record.get(key) for key in shown}, flush=True)
            if options.record:
                with options.record.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
