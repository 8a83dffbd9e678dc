"""What each source of a fusion says of held-out and of test documents, so that fusions can be compared on a CPU.

    python benchmarks/gpu/sources.py --data build/gpu --out FOLDER [--names unidec xr_linear] build/gpu/finna-...

`FOLDER/<data>.npz` has per part (`held`, `test`) the pairs that a source has among its best: `indptr`, `ids`, `score`
(pairs, sources), `found` and `hit`; with `counts` and `n_train`. Heads of one dual encoder are sources of their own;
what each says of the other's labels is `exact`. With `--unseen N`, for choices, the second part are so many documents
of train that no model has seen instead of test rows, and nothing is `exact`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from fuse import RECIPES, some, trained
from pack import unpack

from treetop.assemble.held_out.hold_out import HoldOut
from treetop.assemble.held_out.judged import Judged
from treetop.assemble.held_out.scores import source_rankings, unfitted_fusion
from treetop.core.dataset import Dataset
from treetop.core.types import DeviceView
from treetop.rank.dual import Dual


def lists_of(model: Any, rows: Dataset) -> list[Any]:
    fusion = model.fusion if model.fusion is not None else unfitted_fusion([(len(model.members), model.blend)])
    return source_rankings(model, fusion, rows)


def exact(model: Any, rows: Dataset, judged: Judged) -> list[np.ndarray]:
    """(pairs,) for each head of a dual encoder, what it says of all pairs; nothing for other models."""
    levels = [member[-1] for member in model.members]
    if len(levels) < 2 or not all(isinstance(level.rank, Dual) for level in levels):
        return []
    pairs, made = judged.pairs, []
    for level in levels:
        views = [views[level.view] for views in model.batches(rows.texts, rows.features)]
        parts = [np.asarray(view.tensor.float().cpu() if isinstance(view, DeviceView) else view) for view in views]
        vectors, weight = np.concatenate(parts), level.rank.weight[level.rank.rows]
        score = np.empty(len(pairs), np.float32)
        for start in range(0, len(pairs), 1 << 18):
            span = slice(start, start + (1 << 18))
            score[span] = np.einsum("ij,ij->i", vectors[pairs.rows[span]], weight[pairs.ids[span]])
        made.append(score + level.rank.bias[level.rank.rows][pairs.ids])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--train", type=int, default=0)
    parser.add_argument("--depth", type=int, default=60)
    parser.add_argument("--unseen", type=int, default=0)
    parser.add_argument("--names", nargs="*", default=["unidec"])
    parser.add_argument("--save", type=Path, help="keep the models here")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    encoder = unpack(options.data)
    for folder in options.folders:
        train, test = some(folder, options)
        if options.unseen:
            order = np.random.default_rng(1).permutation(np.flatnonzero(train.documents))
            test, train = (train.take(np.sort(part)) for part in np.split(order, [options.unseen]))
        split = HoldOut().split(train, options.seed)
        if split is None:
            raise SystemExit(f"{folder}: too few documents to hold some out")
        parts = {"held": split.held_out, "test": test}
        lists: dict[str, list[Any]] = {part: [] for part in parts}
        names: list[str] = []
        dual = None
        for name in RECIPES:
            if name not in options.names:
                continue
            started = time.perf_counter()
            model = trained(name, split.train, split.held_out, options, encoder)
            print(Path(folder).name, name, round(time.perf_counter() - started, 1), flush=True)
            if options.save:
                model.save(options.save / f"{Path(folder).name}-{name}", overwrite=True)
            for part, rows in parts.items():
                found = [ranking.top(options.depth) for ranking in lists_of(model, rows)]
                lists[part] += found
            names += [name] * len(found)
            dual = (len(names) - len(found), model) if name.startswith("unidec") else dual
        held: dict[str, Any] = {"names": names, "counts": model.counts, "n_train": model.n_train}
        for part, rows in parts.items():
            judged = Judged.of(lists[part], rows, model.counts, model.n_train)
            score = judged.pairs.score.copy()
            if dual is not None and not options.unseen:
                for s, values in enumerate(exact(dual[1], rows, judged)):
                    held[f"{part}.exact{s + dual[0]}"] = values
            held |= {
                f"{part}.indptr": judged.pairs.indptr, f"{part}.ids": judged.pairs.ids, f"{part}.score": score,
                f"{part}.found": np.packbits(judged.pairs.found), f"{part}.hit": np.packbits(judged.hit > 0),
                f"{part}.best": judged.pairs.best, f"{part}.positives": np.diff(rows.Y.indptr),
            }  # fmt: skip
        options.out.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(options.out / f"{Path(folder).name}.npz", **held)


if __name__ == "__main__":
    main()
