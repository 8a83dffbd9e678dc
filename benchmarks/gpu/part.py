"""A smaller data set of the same kind: some training rows, their labels, some test rows and the filter pairs left.

    python benchmarks/gpu/part.py ../shared/data/msdocs-seealso build/gpu/msdocs-60k --train 60000 --test 14000

Unlike `treetop data split`, labels without a training document are left out of the test rows too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path
from typing import Any


def read(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, required=True)
    parser.add_argument("--test", type=int, required=True)
    options = parser.parse_args()
    train, test, labels = (read(options.data / f"{name}.jsonl.gz") for name in ("train", "test", "labels"))
    draw = random.Random(0)
    kept = {"train": sorted(draw.sample(range(len(train)), options.train))}
    used = {label for row in kept["train"] for label in train[row]["labels"]}
    drawn = sorted(draw.sample(range(len(test)), options.test))
    kept["test"] = [row for row in drawn if used & set(test[row]["labels"])]
    options.out.mkdir(parents=True)
    write(options.out / "train.jsonl", [train[row] for row in kept["train"]])
    known = [{**test[row], "labels": [label for label in test[row]["labels"] if label in used]} for row in kept["test"]]
    write(options.out / "test.jsonl", known)
    write(options.out / "labels.jsonl", [label for label in labels if label["id"] in used])
    if (options.data / "filter.jsonl.gz").exists():
        place = {(split, row): new for split, rows in kept.items() for new, row in enumerate(rows)}
        pairs = [pair for pair in read(options.data / "filter.jsonl.gz") if pair["label"] in used]
        pairs = [pair | {"row": place.get((pair["split"], pair["row"]), -1)} for pair in pairs]
        write(options.out / "filter.jsonl", [pair for pair in pairs if pair["row"] >= 0])


if __name__ == "__main__":
    main()
