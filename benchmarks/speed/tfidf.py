"""CPU seconds of tf-idf fit + transform against scikit-learn's TfidfVectorizer, in one run on one core each.

    python benchmarks/speed/tfidf.py [DATA] [--rounds N] [--out FILE]

DATA is a folder with train.jsonl.gz. Both start from the same list of strings and take turns; the figure of each is its
median. Kernels are compiled before the clock starts. Writes benchmarks/results/tfidf-speed.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from treetop.core.version import VERSION
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.runtime import threads

ROOT = Path(__file__).resolve().parents[2]
SHARED = {"min_df": 2, "dtype": np.float32, "sublinear_tf": True}
CASES = {
    "words 1-2": (TfidfConfig(tokenizer="sklearn", ngrams=(1, 2), min_df=2), {"ngram_range": (1, 2), **SHARED}),
    "words 1": (TfidfConfig(tokenizer="sklearn", min_df=2), SHARED),
    "chars 3-5 in words, first 30,000 texts": (
        TfidfConfig(tokenizer="sklearn", ngrams=None, char_ngrams=(3, 5), min_df=2),
        {"analyzer": "char_wb", "ngram_range": (3, 5), **SHARED},
    ),
}


def cpu(work):
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def compare(texts: list[str], config: TfidfConfig, options: dict, rounds: int) -> dict:
    """One case: seconds of both, taking turns, and how far the matrices differ."""
    seconds = {"sklearn_cpu_s": [], "treetop_cpu_s": [], "sklearn_transform_cpu_s": [], "treetop_transform_cpu_s": []}
    for _ in range(rounds):
        vectorizer = TfidfVectorizer(**options)
        took, theirs = cpu(lambda v=vectorizer: v.fit_transform(texts))
        seconds["sklearn_cpu_s"].append(took)
        seconds["sklearn_transform_cpu_s"].append(cpu(lambda v=vectorizer: v.transform(texts))[0])
        took, (tfidf, ours) = cpu(lambda: Tfidf.fit_transform(texts, config))
        seconds["treetop_cpu_s"].append(took)
        seconds["treetop_transform_cpu_s"].append(cpu(lambda f=tfidf: f.transform(texts))[0])
    theirs.sort_indices()
    same = np.array_equal(ours.indptr, theirs.indptr) and np.array_equal(ours.indices, theirs.indices)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "texts": len(texts),
        "features": ours.shape[1],
        "stored values": ours.nnz,
        **{name: round(value, 3) for name, value in median.items()},
        "ratio": round(median["sklearn_cpu_s"] / median["treetop_cpu_s"], 2),
        "transform_ratio": round(median["sklearn_transform_cpu_s"] / median["treetop_transform_cpu_s"], 2),
        "all": {name: [round(value, 3) for value in values] for name, values in seconds.items()},
        "same_vocabulary": tfidf.terms() == vectorizer.get_feature_names_out().tolist(),
        "same_columns": same,
        "largest_difference": float(np.abs(ours.data - theirs.data).max()) if same else None,
        "one_text_us": {"sklearn": one_text(vectorizer, texts), "treetop": one_text(tfidf, texts)},
    }


def one_text(model, texts: list[str]) -> float:
    """CPU microseconds of `transform` on one text, over 1,000 texts."""
    return round(cpu(lambda: [model.transform([text]) for text in texts[:1000]])[0] * 1000, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=ROOT / "../shared/data/finna-yso-en-25k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/tfidf-speed.json")
    options = parser.parse_args()
    with gzip.open(options.data / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    found = {}
    with threads.limited(1):
        Tfidf.fit_transform(texts[:100], TfidfConfig(char_ngrams=(1, 2)))[0].transform(texts[:1])  # compile
        for name, (config, theirs) in CASES.items():
            chosen = texts[:30_000] if name.startswith("chars") else texts
            found[name] = compare(chosen, config, theirs, options.rounds)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    result = {
        "what": "tf-idf fit + transform, CPU seconds, one core each, medians; data: " + options.data.resolve().name,
        "command": "python benchmarks/speed/tfidf.py " + " ".join(sys.argv[1:]),
        "seed": None,
        "rounds": options.rounds,
        "cases": found,
        "versions": {
            "treetop": VERSION,
            **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
        },
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "commit": commit.strip(),
    }
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
