"""Made-up data of any size, written as JSON lines: documents speak of their labels in the labels' own words.

    python benchmarks/larger/data.py FOLDER --documents 20e6 --labels 3e6

A label has six words of a vocabulary whose words are as frequent as in texts (Zipf); some labels are frequent, most are
not. A document has one to five labels, three words of each, and four words of no meaning. One document in a hundred is
in test, and no more than 20,000.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TextIO

import numpy as np

BLOCK = 200_000
OWN, SAID, NOISE, MOST = (
    6,
    3,
    4,
    5,
)  # words of a label, of them in a document, words of no meaning, labels of a document


def zipf(random: np.random.Generator, n: int, size: int | tuple[int, ...], power: float) -> np.ndarray:
    """Numbers below n, the first ones most often: a density that falls as 1 / x ** power."""
    u, end = random.random(size), float(n + 1)
    drawn = end**u if power == 1.0 else (1.0 + u * (end ** (1.0 - power) - 1.0)) ** (1.0 / (1.0 - power))
    return np.minimum(drawn.astype(np.int64) - 1, n - 1)


def write(out: TextIO, n: int, words_of: np.ndarray, vocabulary: int, random: np.random.Generator) -> None:
    """So many rows."""
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        labels = zipf(random, len(words_of), (m, MOST), 0.6)
        counts = random.integers(1, MOST + 1, m)
        said = np.take_along_axis(words_of[labels], random.integers(0, OWN, (m, MOST, SAID)), 2)
        noise = zipf(random, vocabulary, (m, NOISE), 1.0)
        for count, own, spoken, rest in zip(
            counts.tolist(), labels.tolist(), said.tolist(), noise.tolist(), strict=True
        ):
            own = list(dict.fromkeys(own[:count]))
            text = " ".join(f"w{word}" for word in [*(w for words in spoken[:count] for w in words), *rest])
            out.write(json.dumps({"text": text, "labels": [f"L{label}" for label in own]}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=float, default=1e6)
    parser.add_argument("--labels", type=float, default=150e3)
    parser.add_argument("--vocabulary", type=float, default=500e3)
    options = parser.parse_args()
    random, vocabulary = np.random.default_rng(0), int(options.vocabulary)
    words_of = zipf(random, vocabulary, (int(options.labels), OWN), 0.7)
    options.folder.mkdir(parents=True, exist_ok=True)
    for split, n in (("train", int(options.documents)), ("test", min(20_000, int(options.documents) // 100))):
        with (options.folder / f"{split}.jsonl").open("w", encoding="utf-8") as out:
            write(out, n, words_of, vocabulary, random)


if __name__ == "__main__":
    main()
