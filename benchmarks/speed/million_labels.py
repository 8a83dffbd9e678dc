"""A million labels on two CPU cores: milliseconds a text and recall@10 against the exact search, one text and 256.

    python -m benchmarks.speed.million_labels DATA [--labels 1000000] [--encoded 50000] [--out FILE]

DATA has label texts (msdocs-seealso). `--encoded` of them become vectors of the encoder, repeated with noise up to
`--labels`; queries are vectors of test texts. Searches take turns, so that a change of the machine's load meets all of
them: `exact` is the search of models up to a million labels, `codes` reads labels as int8 first (`--fast`), `lists` are
inverted lists with as few probed as hold 99 % of the exact search's best 10. Vectors are kept in build/.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tools import records
from treetop.assemble.dual.index import recall_by_lists
from treetop.core.dataset import Dataset
from treetop.core.texts import Texts
from treetop.core.types import Candidates, Join, Ranking
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.kernels.runtime import threads
from treetop.labels.text import label_words
from treetop.rank.dual import Dual
from treetop.shortlist.ivf import Ivf

ROOT = Path(__file__).resolve().parents[2]
K, BATCH, QUERIES, NOISE, BLOCK = 10, 256, 512, 0.3, 5000


def encoded(texts: Texts, file: Path) -> Any:
    """(texts, width) of length 1, out of the file if it is there."""
    if not file.exists():
        transformer = Transformer.load(TransformerConfig(l2=True))
        name, parts = transformer.view_name(transformer.poolings[0]), []
        for start, stop in threads.blocks(len(texts), BLOCK):
            parts.append(transformer.views(texts.span(start, stop))[name])
            print(f"{stop:,} of {len(texts):,} texts encoded", flush=True)
        file.parent.mkdir(exist_ok=True)
        np.save(file, np.concatenate(parts))
    return np.load(file)


def sampled(texts: Texts, n: int, seed: int) -> Texts:
    return texts.take(np.random.default_rng(seed).permutation(len(texts))[:n])


def noisy(base: Any, n: int) -> Any:
    """(n, width) of length 1: the vectors again and again, each time moved by noise of length NOISE."""
    rng, width = np.random.default_rng(2), base.shape[1]
    made = np.empty((n, width), np.float32)
    for start, stop in threads.blocks(n, len(base)):
        noise = rng.standard_normal((stop - start, width), np.float32) * np.float32(NOISE / width**0.5)
        moved = base[: stop - start] + noise
        made[start:stop] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return made


def recall(found: Ranking, truth: Any) -> float:
    ids = found.padded(K)
    return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(ids, truth, strict=True)]))


def timed(search: Callable[[Any], Ranking], queries: Any) -> tuple[float, float, Ranking]:
    used, started = time.process_time(), time.perf_counter()
    found = search(queries)
    return time.perf_counter() - started, time.process_time() - used, found


def measured(
    searches: dict[str, Callable[[Any], Ranking]], queries: Any, truth: Any, rounds: int
) -> list[dict[str, Any]]:
    """Wall and CPU milliseconds a text of every search, by itself and in batches."""
    spent: dict[tuple[str, int], list[tuple[float, float]]] = {}
    right: dict[tuple[str, int], list[float]] = {}
    for size, turns in ((1, 20 * rounds), (BATCH, rounds)):
        for turn in range(turns + 1):  # the first turn warms up
            start = turn * size % (len(queries) - size + 1)
            for name, search in searches.items():
                wall, cpu, found = timed(search, queries[start : start + size])
                if turn:
                    spent.setdefault((name, size), []).append((wall, cpu))
                    right.setdefault((name, size), []).append(recall(found, truth[start : start + size]))
    lines = []
    for (name, size), times in spent.items():
        wall, cpu = 1e3 * np.median(times, axis=0) / size
        line = {
            "search": name,
            "texts": size,
            "ms_per_text": round(float(wall), 2),
            "cpu_ms_per_text": round(float(cpu), 2),
        }
        lines.append(line | {"recall@10": round(float(np.mean(right[name, size])), 4)})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--encoded", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lists", action="store_true", help="measure inverted lists, too")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = Dataset.read(options.data, "test")
    with threads.limited(2):
        base = encoded(
            sampled(label_words(data.labels), options.encoded, 0), ROOT / f"build/labels-{options.encoded}.npy"
        )
        queries = encoded(sampled(data.texts, QUERIES, 1), ROOT / f"build/queries-{QUERIES}.npy")
        rank = Dual(noisy(base, options.labels), np.zeros(options.labels, np.float32), widths={"dual": base.shape[1]})

        def exact(view: Any) -> Ranking:
            return rank.rank(view, Candidates.all(len(view), rank.n), Join(), K)

        quick = rank.fast()

        def codes(view: Any) -> Ranking:
            return quick.rank(view, Candidates.all(len(view), rank.n), Join(), K)

        searches, facts = {"exact": exact, "codes": codes}, {}
        if options.lists:
            lists = Ivf.of(rank.weight, rank.bias, probe=1)
            held = recall_by_lists(lists, rank, queries[:BATCH])
            probe = int(np.searchsorted(held, 0.99)) + 1
            lists = Ivf(lists.centres, lists.offset, lists.indptr, lists.members, probe)
            ordered = rank.ordered(lists.members)
            searches["lists"] = lambda view: ordered.rank(view, lists.candidates(view, None), Join(), K)
            facts = {"lists": len(held), "probed": probe}
        truth = exact(queries).padded(K)
        lines = measured(searches, queries, truth, options.rounds)
    about = records.provenance(seed=0, root=ROOT)
    about |= {"data": options.data.name, "labels": rank.n, "width": base.shape[1], "encoded": len(base), "noise": NOISE}
    for line in lines:
        line = (
            about
            | facts
            | {"name": f"{line['search']} {rank.n} {line['texts']}", "load": round(os.getloadavg()[0], 2)}
            | line
        )
        print(line, flush=True)
        if options.out:
            records.append(options.out, line)


if __name__ == "__main__":
    main()
