"""Ways to make features of texts in many languages: P@5 of `xr_linear` on sets that `build.py` writes.

    python benchmarks/languages/measure.py SETS --record benchmarks/results/languages.jsonl

A quarter of the documents, by their ids and the same in every language, is test: figures come from it, choices do not.
Choices are made on the rest, of which three seeds each hold out another quarter (valid).
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from zlib import crc32

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.provenance import provenance, versions
from treetop.training import fit

ROOT = Path(__file__).parents[2]
NULL = "tfidf.char_ngrams=null"
SETTINGS = {
    "default": [],
    "words": [NULL],
    "as words": [NULL, "tfidf.unspaced=null"],
    "unspaced 2": [NULL, "tfidf.unspaced=[2, 2]"],
    "unspaced 1-3": [NULL, "tfidf.unspaced=[1, 3]"],
    "characters 1-3 of the text": ["tfidf.ngrams=null", "tfidf.char_ngrams=[1, 3]", "tfidf.char_ngrams_within=text"],
    "characters 3-5 of words": ["tfidf.ngrams=null", "tfidf.char_ngrams=[3, 5]"],
    "words and characters 2-4": ["tfidf.char_ngrams=[2, 4]"],
    "words and characters 3-5": ["tfidf.char_ngrams=[3, 5]"],
    "words and characters 2-4, weight 0.8": ["tfidf.char_ngrams=[2, 4]", "tfidf.char_weight=0.8"],
    "characters 2-4 of words": ["tfidf.ngrams=null", "tfidf.char_ngrams=[2, 4]"],
}
STEM = {
    "ar": "arabic", "en": "english", "en-us": "english", "fi": "finnish", "hi": "hindi",
    "ru": "russian", "tr": "turkish",
}  # fmt: skip
SEEDS = range(3)


def quarter(data: Dataset, key: object) -> tuple[Dataset, Dataset]:
    """(the rest, about a quarter of the documents by a hash of their ids)"""
    held = np.array([crc32(f"{key} {id_}".encode()) % 4 == 0 for id_ in data.ids or ()])
    return data.take(np.flatnonzero(~held)), data.take(np.flatnonzero(held))


def p5(train: Dataset, test: Dataset, settings: list[str], seed: int) -> tuple[float, tuple[float, float]]:
    """P@5 with its interval."""
    model = fit("xr_linear", train, settings=settings, seed=seed, calibrate=False)
    scores = model.evaluate(test)
    return float(scores["P@5"]), scores.intervals["P@5"]


def measure(folder: Path, name: str, settings: list[str]) -> dict:
    data, start = Dataset.read(folder), time.process_time()
    train, test = quarter(data, "test")
    valid = [p5(*quarter(train, seed), settings, seed)[0] for seed in SEEDS]
    figure, interval = p5(train, test, settings, 0)
    return {
        **provenance(seed=0, root=ROOT),
        "versions": versions() | {"PyStemmer": version("PyStemmer")},
        "data": {"name": folder.name, "train": len(train), "test": len(test), "labels": data.n_labels},
        "name": f"{folder.name}: {name}",
        "rep": 0,
        "features": name,
        "settings": settings,
        "seeds": list(SEEDS),
        "valid": [round(value, 2) for value in valid],
        "valid_mean": round(float(np.mean(valid)), 2),
        "P@5": round(figure, 2),
        "interval": [round(float(value), 2) for value in interval],
        "cpu_s": round(time.process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--only", default="", help="sets whose names contain this")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    for folder in sorted(options.sets.iterdir()):
        if options.only not in folder.name:
            continue
        language = folder.name.partition("-")[2]
        stems = {"stems": [NULL, f"tfidf.stem={STEM[language]}"]} if language in STEM else {}
        for name, settings in (SETTINGS | stems).items():
            record = measure(folder, name, settings)
            print(
                folder.name,
                name,
                record["valid_mean"],
                record["P@5"],
                record["interval"],
                f"{record['cpu_s']} s",
                flush=True,
            )
            if options.record:
                with options.record.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
