"""Labels hidden from training and added by their texts afterwards: are they found, and what do the others lose?

    python benchmarks/gpu/hidden_labels.py --data build/gpu --plan benchmarks/gpu/plans/hidden.json --out results.jsonl

A plan is a list of runs: {"recipe", "data", "seed", "share": 0.1, "on": "held-out" or "test", "preset", "settings",
"full": true, "rows", "look"}. A share of the labels is taken out of the training rows and of the label set; the model
learns without them, and they are added with `Model.add_labels`, the way of `treetop labels add`. Then the added labels
are placed in other ways and joined with the same answers of the trained labels. One JSON line for each placement:
`hidden_R@10` (all labels competing) and the same by training texts, `apart_R@10` (hidden labels alone competing: what a
placement knows, without its level), `old_P@1`... (an added label counts as a miss), `all_P@1`... (all labels are true).
`full` trains a model with all labels too. Data lie as `pack.py` writes them. Dual encoders of one level only.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import re
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import recipe
import torch
from pack import unpack
from recipe import say
from scipy import sparse

from treetop.assemble.dual.search import sampled
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.edit.vectors import fit_map
from treetop.evaluate.match import hits
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.labels.text import label_words
from treetop.rank.text_map import unit
from treetop.training import fit

K = 10
SAMPLE = 4096  # trained labels that stand for labels known by text
LIFTS = (-1.0, 1.0, 2.0)  # beside the fair one
NEAR = ((1, 30.0), (4, 30.0), (4, 60.0), (8, 30.0), (32, 30.0))  # labels a new one takes from; how steeply
BINS = {"1-5": (1, 5), "6-20": (6, 20), "21-": (21, 1 << 40)}


def cut(data: Dataset, columns: Any) -> Dataset:
    """The same rows with these labels only."""
    held = data.labels
    kept = LabelSet(*(texts.take(columns) for texts in (held.ids, held.names, held.texts)), held.status[columns])
    return dataclasses.replace(data, Y=data.Y[:, columns], labels=kept)


# --- what is found ----------------------------------------------------------------------------------------------------


def measures(top: Any, Y: Any, counts: Any, n_old: int) -> dict[str, Any]:
    """What the best labels are worth; columns from `n_old` on were hidden, `counts` are their training texts."""
    hit, new = hits(top, Y), top >= n_old
    true = np.bincount(Y.indices, minlength=Y.shape[1])
    found = np.bincount(top[hit], minlength=Y.shape[1])
    made: dict[str, Any] = {"hidden_R@10": share(found[n_old:], true[n_old:]), "shown": share(new, np.ones_like(new))}
    for name, (low, high) in BINS.items():
        some = n_old + np.flatnonzero((counts >= low) & (counts <= high))
        made[f"hidden_R@10 {name}"] = share(found[some], true[some])
    for name, right in (("old", hit & ~new), ("all", hit)):
        made |= {f"{name}_P@{k}": share(right[:, :k], np.ones_like(right[:, :k])) for k in (1, 5)}
    return made | {"old_R@10": share(found[:n_old], true[:n_old]), "all_R@10": share(found, true)}


def share(part: Any, whole: Any) -> float:
    return round(100 * float(np.sum(part)) / max(float(np.sum(whole)), 1.0), 2)


def best(margins: Any, k: int = K) -> tuple[Any, Any]:
    """(columns, margins) of the best of each row, best first."""
    found = torch.from_numpy(np.ascontiguousarray(margins)).topk(min(k, margins.shape[1]), dim=1)
    return found.indices.numpy(), found.values.numpy()


def products(Q: Any, W: Any, bias: Any, device: str, keep: int = 0) -> Any:
    """Margins of all rows and labels, or (columns, margins) of the best `keep`."""
    made = []
    table, more = torch.from_numpy(np.ascontiguousarray(W)).to(device), torch.from_numpy(np.asarray(bias)).to(device)
    for start in range(0, len(Q), 2048):
        z = torch.from_numpy(np.ascontiguousarray(Q[start : start + 2048])).to(device) @ table.T + more
        made.append((z.cpu(),) if not keep else tuple(part.cpu() for part in z.topk(min(keep, z.shape[1]), dim=1)))
    parts = [torch.cat(part).numpy() for part in zip(*made, strict=True)]
    return (parts[1], parts[0]) if keep else parts[0]


def joined(old: tuple[Any, Any], margins: Any, n_old: int) -> Any:
    """The best labels out of the trained ones' best and the added ones."""
    columns, values = best(margins)
    ids, scores = np.hstack([old[0], columns + n_old]), np.hstack([old[1], values])
    return np.take_along_axis(ids, np.argsort(-scores, axis=1, kind="stable")[:, :K], 1)


def bm25(texts: Texts, labels: Texts, k1: float = 1.2, b: float = 0.75) -> Any:
    """(texts, labels) scores of the words of labels, as a sparse matrix."""
    words = re.compile(r"\w\w+")
    table: dict[str, int] = {}
    rows = [[table.setdefault(w, len(table)) for w in words.findall(text.lower())] for text in labels]
    asked = [[table[w] for w in words.findall(text.lower()) if w in table] for text in texts]
    L, A = (counted(lists, len(table)) for lists in (rows, asked))
    df, length = np.bincount(L.indices, minlength=len(table)), np.asarray(L.sum(1)).ravel()
    norm = k1 * (1 - b + b * length[np.repeat(np.arange(L.shape[0]), np.diff(L.indptr))] / length.mean())
    idf = np.log(1 + (L.shape[0] - df + 0.5) / (df + 0.5))
    W = sparse.csr_matrix((idf[L.indices] * L.data * (k1 + 1) / (L.data + norm), L.indices, L.indptr), L.shape)
    return (A @ W.T).tocsr()


def counted(lists: list[list[int]], width: int) -> Any:
    ends = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    made = sparse.csr_matrix(
        (np.ones(ends[-1]), np.array([i for row in lists for i in row], np.int64), ends), (len(lists), width)
    )
    made.sum_duplicates()
    return made


def best_sparse(S: Any) -> Any:
    made = np.full((S.shape[0], K), -1)
    for row in range(S.shape[0]):
        part = slice(S.indptr[row], S.indptr[row + 1])
        ids = S.indices[part][np.lexsort((S.indices[part], -S.data[part]))[:K]]
        made[row, : len(ids)] = ids
    return made


# --- where an added label is placed -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """What placements are made from."""

    rank: Any  # of the trained labels
    queries: Any  # (texts, width) of the test texts
    shown: Any  # the same of some training texts
    old: Any  # (labels, dual) text vectors of the sampled trained labels
    rows: Any  # those labels
    every: Any  # (labels, dual) text vectors of all trained labels
    new: Any  # (hidden, dual) text vectors of the hidden ones
    odds: Any  # (labels + 1,) log odds of the sampled labels, and of a mean one


def placements(s: Scene) -> Iterator[tuple[str, Any, Any]]:
    """(name, [vector, bias] of the hidden labels, the same of sampled trained labels as if they were new)."""
    dual, wide = s.rank.place("dual"), s.rank.weight.shape[1]
    both = (s.new, s.old)

    def made(factor: float, offset: float) -> list[Any]:
        rows = [np.zeros((len(T), wide + 1), np.float32) for T in both]
        for row, T in zip(rows, both, strict=True):
            row[:, dual], row[:, -1] = factor * T, offset
        return rows

    yield "line", *made(*s.rank.text)
    if "classifier" not in s.rank.widths:
        return
    yield "dual alone", *made(1.0, 0.0)
    place = s.rank.place("classifier")
    V = np.hstack([s.rank.part("classifier")[s.rows], s.rank.bias[s.rows, None]])
    text_map, told, guess = fit_map(s.old, V, s.odds, s.shown[:, place].mean(0))
    new = np.hstack([part.reshape(len(s.new), -1) for part in text_map.vectors(s.new)])
    say(section="telling", share=round(100 * told, 1))
    yield "ridge", *with_classifier(made(1.0, 0.0), place, (new, guess))
    for k, steep in NEAR:
        taken = [neighbours(s, T, k, steep) for T in both]
        yield f"near {k}, {steep:g}", *with_classifier(made(1.0, 0.0), place, taken)
    mixed = [(one + other) / 2 for one, other in zip((new, guess), taken, strict=True)]
    yield "ridge and near", *with_classifier(made(1.0, 0.0), place, mixed)


def with_classifier(rows: list[Any], place: slice, parts: Any) -> list[Any]:
    for row, part in zip(rows, parts, strict=True):
        row[:, place], row[:, -1] = part[:, :-1], part[:, -1]
    return rows


def neighbours(s: Scene, T: Any, k: int, steep: float) -> Any:
    """Vectors and biases of the nearest `k` trained labels, the nearer the more; a label is not its own neighbour."""
    cosine = unit(T) @ unit(s.every).T
    if T is s.old:
        cosine[np.arange(len(T)), s.rows] = -np.inf
    columns, values = best(cosine, k)
    weight = np.exp(steep * (values - values[:, :1]))
    weight /= weight.sum(1, keepdims=True)
    V, bias = s.rank.part("classifier"), s.rank.bias
    taken = [(V[columns[:, i]] * weight[:, i : i + 1], bias[columns[:, i]] * weight[:, i]) for i in range(k)]
    return np.hstack([sum(row for row, _ in taken), sum(number for _, number in taken)[:, None]])


def fair(bar: Any, margins: Any, n_old: int) -> float:
    """What to add to margins of labels as if they were new, so that they are returned as often as trained ones."""
    gap = bar[:, None] - margins
    return float(np.quantile(gap, min(0.5, K / n_old)))


def lifted(margins: Any, lift: float) -> Iterator[tuple[str, float, Any]]:
    yield "none", 0.0, margins
    yield "fair", lift, margins + np.float32(lift)
    for more in LIFTS:
        yield f"fair{more:+g}", lift + more, margins + np.float32(lift + more)


# --- one run ----------------------------------------------------------------------------------------------------------


def one(root: Path, run: dict[str, Any], device: str) -> None:
    seed, named = run.get("seed", 0), {**run, "on": run.get("on", "held-out")}
    folder = root / run["data"]
    train, test = recipe.halves(folder if folder.is_dir() else Path(run["data"]), named["on"])  # or a bundled name
    rng = np.random.default_rng(seed)
    train = train.take(np.sort(rng.permutation(len(train))[: run.get("rows") or None]))
    test = test.take(np.sort(rng.permutation(len(test))[: run.get("look") or None]))
    seen = rng.permutation(np.flatnonzero(train.label_counts > 0))
    n_hidden = max(1, int(run.get("share", 0.1) * len(seen)))
    hidden, kept = np.sort(seen[:n_hidden]), np.sort(seen[n_hidden:])
    order, n_old = np.concatenate([kept, hidden]), len(kept)
    whole, counts = cut(test, order), train.label_counts[hidden]

    def line(placement: str, top: Any, **more: Any) -> None:
        found = measures(top, whole.Y, counts, n_old)
        say(section="hidden", **named, labels=n_old, hidden=n_hidden, placement=placement, **more, **found)

    def trained_on(columns: Any) -> tuple[Any, float]:
        settings = {**run.get("settings", {})}
        settings["encoder"] = {"model": str(root / "encoder"), **settings.get("encoder", {})}
        started = time.perf_counter()
        made = fit(run["recipe"], cut(train, columns), preset=run.get("preset", "default"), settings=settings,
                   seed=seed, device=device)  # fmt: skip
        made = made.to(device)
        return made, time.perf_counter() - started

    model, seconds = trained_on(kept)
    line("before", model.rank_dataset(whole, K).padded(K), fit_s=seconds)
    started = time.perf_counter()
    model = model.add_labels(cut(train, hidden).labels)
    seconds = time.perf_counter() - started
    now = model.rank_dataset(whole, K).padded(K)
    line("labels add", now, add_s=seconds)
    untrained(root, whole, n_old, line, device)
    placed(model.trained, cut(train, kept), whole, line, now, device=device)
    if run.get("full"):
        model, seconds = trained_on(order)
        line("trained with them", model.rank_dataset(whole, K).padded(K), fit_s=seconds)


def untrained(root: Path, whole: Dataset, n_old: int, line: Any, device: str) -> None:
    """BM25 and the encoder as it came, all labels judged alike."""
    S = bm25(whole.texts, label_words(whole.labels))
    apart = measures(best_sparse(S[:, n_old:]), whole.Y[:, n_old:], np.zeros(0), 0)["hidden_R@10"]
    line("BM25", best_sparse(S), **{"apart_R@10": apart})
    bare = Transformer.load(TransformerConfig(model=str(root / "encoder"), l2=True))
    bare.move(torch.device(device))
    name = bare.view_name(bare.poolings[0])
    H, T = (np.asarray(bare.views(texts)[name]) for texts in (whole.texts, label_words(whole.labels)))
    zero = np.zeros(len(T), np.float32)
    apart = measures(products(H, T[n_old:], zero[n_old:], device, K)[0], whole.Y[:, n_old:], np.zeros(0), 0)
    line("bare cosine", products(H, T, zero, device, K)[0], **{"apart_R@10": apart["hidden_R@10"]})


def placed(model: Any, train: Dataset, whole: Dataset, line: Any, now: Any, *, device: str) -> None:
    """All placements with all lifts; `now` is what `labels add` gave."""
    level, n_old = model.members[0][-1], model.n_trained
    rank, view = level.rank, level.view
    rng = np.random.default_rng(5)
    rows = np.sort(rng.permutation(np.flatnonzero(model.counts > 0))[:SAMPLE])
    texts = label_words(whole.labels)
    T = np.asarray(model.views(texts, {})[view.removesuffix("search") + "dual"])
    odds = np.log((np.append(model.counts[rows], model.counts[rows].mean()) + 0.5) / (model.n_train + 1.0))
    queries, shown = (np.asarray(model.views(some, {})[view]) for some in (whole.texts, sampled(train, 0)))
    scene = Scene(rank, queries, shown, T[rows], rows, T[:n_old], T[n_old:], odds.astype(np.float32))
    old = products(queries, rank.weight, rank.bias, device, K)
    bar = products(shown, rank.weight, rank.bias, device, K)[1][:, -1]
    for name, new, known in placements(scene):
        margins = products(queries, new[:, :-1], new[:, -1], device)
        lift = fair(bar, products(shown, known[:, :-1], known[:, -1], device), n_old)
        apart = measures(best(margins)[0], whole.Y[:, n_old:], np.zeros(0), 0)["hidden_R@10"]
        for kind, added, levelled in lifted(margins, lift):
            top = joined(old, levelled, n_old)
            same = round(float((top == now).mean()), 5)  # as what `labels add` gave
            line(name, top, lift=kind, added=round(added, 3), same=same, **{"apart_R@10": apart})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=540.0, help="start no run after this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    recipe.OUT.extend([options.out] if options.out else [])
    begun = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = True
    unpack(options.data)
    name = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    say(section="machine", gpu=name, torch=torch.__version__)
    for run in json.loads(options.plan.read_text()):
        if time.perf_counter() - begun > options.seconds:
            break
        try:
            one(options.data, run, options.device)
        except Exception:
            say(section="hidden", **run, error=traceback.format_exc()[-1500:])
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
