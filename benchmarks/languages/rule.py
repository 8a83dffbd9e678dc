"""When character n-grams beside words help: P@1 and P@5 of `xr_linear` on many small sets and parts of larger ones.

    python benchmarks/languages/rule.py choose SETS --record benchmarks/results/char-ngrams.jsonl
    python benchmarks/languages/rule.py choose DATA --rows 300,1000,5000,20000 --record ...
    python benchmarks/languages/rule.py test DATA --rows 300,1000,5000,20000 --record ...

A folder of SETS (see build.py) is split as in measure.py: `choose` never sees the quarter that is test. DATA is a data
set with train and test; of `choose`, 2,000 training documents are held out. Every row says what the rule of
`treetop/assemble/char_ngrams.py` makes of these texts (`default`), and the facts it reads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from measure import quarter

from treetop.assemble.char_ngrams import facts
from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance, versions
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.model import Model
from treetop.training import fit

ROOT = Path(__file__).parents[2]
BESIDE = "tfidf.char_ngrams=[2, 4]"
SETTINGS = {
    "words": ["tfidf.char_ngrams=null"],
    "default": [],
    "characters 2-4": [BESIDE],
    "characters 2-4, weight 0.8": [BESIDE, "tfidf.char_weight=0.8"],
    "characters 3-5": ["tfidf.char_ngrams=[3, 5]"],
    "characters 2-4 alone": ["tfidf.ngrams=null", BESIDE],
}
HELD_OUT, TESTED, SEEDS = 2_000, 5_000, range(3)

Split = tuple[str, int, Dataset, Dataset]  # name, seed, train and documents to score


def sets(folder: Path, what: str, only: str) -> Iterator[Split]:
    """Small sets: the quarter that is test, or three splits of the rest."""
    for one in sorted(folder.iterdir()):
        if only in one.name:
            rest, test = quarter(Dataset.read(one), "test")
            for seed in SEEDS:
                yield (one.name, seed, *(quarter(rest, seed) if what == "choose" else (rest, test)))


def parts(folder: Path, what: str, sizes: list[int]) -> Iterator[Split]:
    """Parts of a data set's training documents; several seeds where they are small."""
    data, test = Dataset.read(folder), Dataset.read(folder, "test")
    documents = np.flatnonzero(data.documents)
    for size in [size for size in sizes if size <= len(documents) - HELD_OUT]:
        for seed in SEEDS if size <= 1000 else SEEDS[:1]:
            order = np.random.default_rng(seed).permutation(documents)
            scored = data.take(np.sort(order[:HELD_OUT]))
            if what == "test":
                rows = np.random.default_rng(seed).permutation(len(test))[:TESTED]
                scored = test.take(np.sort(rows))
            yield f"{folder.name}, {size:,} rows", seed, data.take(np.sort(order[HELD_OUT:][:size])), scored


def chosen(model: Model) -> str:
    """What the model was trained with."""
    tfidf = model.card.config["tfidf"]
    return "words" if tfidf["char_ngrams"] is None else f"characters {tfidf['char_ngrams']}, {tfidf['char_weight']}"


def measure(split: Split, name: str, what: str) -> dict:
    title, seed, train, scored = split
    started = time.process_time()
    model = fit("xr_linear", train, settings=SETTINGS[name], seed=seed, calibrate=False)
    seconds = time.process_time() - started
    scores = model.evaluate(scored)
    known = facts(train.texts.take(np.flatnonzero(train.documents)), replace(TfidfConfig(), ngrams=(1, 2)))
    return {
        **provenance(seed=seed, root=ROOT), "versions": versions(),
        "data": {"name": title, "train": len(train), "test": len(scored), "labels": train.n_labels},
        "name": f"{title}: {name}, {what}", "rep": seed, "what": what, "features": name, "settings": SETTINGS[name],
        "facts": {key: round(float(value), 4) for key, value in known._asdict().items()}, "chosen": chosen(model),
        "P@1": round(float(scores["P@1"]), 2), "P@5": round(float(scores["P@5"]), 2),
        "P@5 interval": [round(float(value), 2) for value in scores.intervals["P@5"]],
        "fit_cpu_s": round(seconds, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "test"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", default="", help="sizes of parts; empty: a folder of sets")
    parser.add_argument("--only", default="", help="sets whose names contain this")
    parser.add_argument("--settings", default=";".join(SETTINGS), help="names, separated by ;")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    sizes = [int(size) for size in options.rows.split(",") if size]
    splits = parts(options.data, options.what, sizes) if sizes else sets(options.data, options.what, options.only)
    for split in splits:
        for name in options.settings.split(";"):
            record = measure(split, name, options.what)
            print({key: record[key] for key in ("name", "rep", "P@1", "P@5", "chosen", "fit_cpu_s")}, flush=True)
            if options.record:
                with options.record.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
