"""The slow, obvious twin of each fast kernel; tests compare the two on random, empty, tied and huge inputs."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.text.scripts import unspaced_pattern

A = NDArray[Any]

# --- neighbours.py --------------------------------------------------------------------------------------------------


def nearest(queries: A, rows: A, k: int) -> list[list[tuple[int, float]]]:
    """Per query the `k` best (row, inner product) with a product above zero; ties go to the lower row."""
    nearest_rows = []
    for query in queries:
        pairs = [(r, float(np.dot(query, row))) for r, row in enumerate(rows)]
        nearest_rows.append(sorted((p for p in pairs if p[1] > 0), key=lambda p: (-p[1], p[0]))[:k])
    return nearest_rows


def vote(neighbours: list[list[tuple[int, float]]], power: float, Y: A, keep: int) -> list[list[tuple[int, float]]]:
    """Labels by the neighbours' normalised votes, each weighing similarity ** power."""
    answers = []
    for near in neighbours:
        total = sum(s**power for _, s in near)
        scores = sum((s**power * Y[r] for r, s in near), np.zeros(Y.shape[1]))
        ranked = sorted((-scores[label] / total, label) for label in np.flatnonzero(scores))
        answers.append([(int(label), -score) for score, label in ranked][:keep])
    return answers


# --- metrics.py -------------------------------------------------------------------------------------------------------


def first_allowed(ranked: list[list[int]], excluded: set[tuple[int, int]], depth: int) -> list[list[int]]:
    """The first `depth` different ids of each row that are not excluded there."""
    return [[id_ for id_ in dict.fromkeys(ids) if (row, id_) not in excluded][:depth] for row, ids in enumerate(ranked)]


def row_sums(top: list[int], true: set[int], weights: list[float], k: int) -> dict[str, float]:
    """What one row contributes at cut-off k, under the names of `kernels.metrics.PER_CUT`."""
    shown = top[:k]
    gains = [(weights[id_] if id_ in true else 0.0) for id_ in shown]
    best = sorted((weights[id_] for id_ in true), reverse=True)[:k]
    discount = [1.0 / float(np.log2(j + 2)) for j in range(k)]
    norm = sum(discount[: min(k, len(true))]) or 1.0
    hits = sum(id_ in true for id_ in shown)
    return {
        "hits": hits,
        "recall": hits / max(len(true), 1),
        "ndcg": sum(d for id_, d in zip(shown, discount, strict=False) if id_ in true) / norm,
        "psp": sum(gains),
        "psp_best": sum(best),
        "psndcg": sum(g * d for g, d in zip(gains, discount, strict=False)) / norm,
        "psndcg_best": sum(g * d for g, d in zip(best, discount, strict=False)) / norm,
        "predicted": len(shown),
    }


def find_hits(top: list[list[int]], true: list[set[int]]) -> list[list[bool]]:
    """Which ids of a row are in its true set."""
    return [[id_ in ids for id_ in row] for row, ids in zip(top, true, strict=True)]


def drawn_sums(table: A, draws: A, starts: A) -> A:
    """Sums of drawn rows, one per range of draws."""
    return np.array([table[draws[a:b]].sum(0) for a, b in pairwise(starts.tolist())])


def chosen_sums(table: A, chosen: A) -> A:
    """Sums of the rows whose bit is set."""
    bits: A = np.unpackbits(chosen, axis=1, bitorder="little")[:, : len(table)]
    return bits.astype(np.float64) @ table


# --- text.py, terms.py, weigh.py ------------------------------------------------------------------------------------


RUN = re.compile(f"[{unspaced_pattern()}]")
Spans = list[tuple[str, int, int]]  # pieces of a text with their start and end, in characters of the text as given


def word_spans(text: str, *, lower: bool, marks: bool, shortest: int, split_runs: bool) -> list[tuple[bool, Spans]]:
    """(is a run, units) of each group of a text: neighbouring words, or characters of a script without blanks."""
    tidy = text.lower() if lower else text
    origin = [i for i, character in enumerate(text) for _ in (character.lower() if lower else character)]
    groups: list[tuple[bool, Spans]] = []
    open_run, start = False, -1  # of the word that goes on
    for i, character in enumerate([*tidy, ""]):
        is_run = split_runs and _in_run(character)
        goes_on = marks and _is_mark(character) and (open_run or start >= 0)
        if start >= 0 and not goes_on and (is_run or not _in_word(character)):
            if i - start >= shortest:
                if not groups or groups[-1][0]:
                    groups.append((False, []))
                groups[-1][1].append((tidy[start:i], origin[start], origin[i - 1] + 1))
            start = -1
        if is_run:
            if not open_run:
                groups.append((True, []))
            groups[-1][1].append((character, origin[i], origin[i] + 1))
        elif open_run and goes_on:
            unit, first, _ = groups[-1][1].pop()
            groups[-1][1].append((unit + character, first, origin[i] + 1))
        elif _in_word(character) and start < 0:
            start = i
        open_run = is_run or (open_run and goes_on)
    return groups


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _in_run(character: str) -> bool:
    return RUN.match(character) is not None and _in_word(character) and not character.isdecimal()


def _is_mark(character: str) -> bool:
    mark = character != "" and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d")
    return mark and not _in_word(character)


def word_grams(groups: list[tuple[bool, Spans]], low: int, high: int, unspaced: tuple[int, int] | None) -> Spans:
    """Every run of `low` to `high` neighbouring words and of as many characters as `unspaced`, in order of the text."""
    grams: Spans = []
    for is_run, units in groups:
        fewest, most = unspaced if is_run and unspaced else (low, high)
        fewest = min(fewest, len(units)) if is_run else fewest
        for i in range(len(units)):
            for piece in (units[i : i + n] for n in range(fewest, most + 1) if i + n <= len(units)):
                name = ("" if is_run else " ").join(unit for unit, _, _ in piece)
                grams.append((name, piece[0][1], piece[-1][2]))
    return grams


def character_grams(text: str, low: int, high: int, *, lower: bool, within_words: bool) -> list[str]:
    """Every run of `low` to `high` neighbouring characters; a word that is too short counts once as a whole."""
    tidy = text.lower() if lower else text
    runs = [f" {word} " for word in tidy.split()] if within_words else [re.sub(r"\s\s+", " ", tidy)]
    grams = []
    for run in runs:
        if within_words and len(run) < low:
            grams.append(run)
        grams += [run[i : i + n] for i in range(len(run)) for n in range(low, high + 1) if i + n <= len(run)]
    return grams


def tfidf_row(
    grams: Sequence[str], columns: Mapping[str, int], idf: Sequence[float], rules: tuple[bool, bool, bool]
) -> dict[int, float]:
    """Column -> weight of one text; `rules` = (binary, sublinear, l2)."""
    binary, sublinear, l2 = rules
    counts = Counter(gram for gram in grams if gram in columns)
    row = {}
    for gram, count in counts.items():
        tf = 1.0 if binary else 1.0 + math.log(count) if sublinear else float(count)
        row[columns[gram]] = tf * idf[columns[gram]]
    norm = math.sqrt(sum(value * value for value in row.values())) if l2 and row else 1.0
    return {column: row[column] / (norm or 1.0) for column in sorted(row)}


# --- descent.py, newton.py --------------------------------------------------------------------------------------------


def linear_loss(loss: str, margins: A) -> A:
    """Loss of each signed margin."""
    if loss == "logistic":
        return np.logaddexp(0.0, -margins)
    slack = np.maximum(0.0, 1.0 - margins)
    return slack if loss == "hinge" else slack**2


def linear_objective(X: A, y: A, costs: A, w: A, loss: str = "squared_hinge") -> float:
    """0.5 |w|^2 + sum_i c_i loss(y_i w.x_i); a bias is the weight of a constant column of X."""
    return 0.5 * float(w @ w) + float(costs @ linear_loss(loss, y * (X @ w)))


def dual_descent(X: A, y: A, costs: A, loss: str = "squared_hinge", passes: int = 2000) -> A:
    """The weights at the optimum, by plain dual coordinate descent in row order with many passes."""
    w, dual = np.zeros(X.shape[1]), np.zeros(len(X))
    squares = (X**2).sum(1)
    for _ in range(passes):
        before = dual.copy()
        for i in np.flatnonzero((costs > 0) & ((squares > 0) | (loss != "hinge"))):
            margin = y[i] * float(X[i] @ w)
            if loss == "logistic":
                low, high = 0.0, float(costs[i])
                for _ in range(60):  # bisection of the gradient in the one variable
                    z = 0.5 * (low + high)
                    slope = squares[i] * (z - dual[i]) + margin + math.log(z / (costs[i] - z))
                    low, high = (low, z) if slope > 0 else (z, high)
                new = 0.5 * (low + high)
            else:
                shift = 0.5 / costs[i] if loss == "squared_hinge" else 0.0
                most = math.inf if loss == "squared_hinge" else costs[i]
                new = min(max(dual[i] - (margin - 1.0 + shift * dual[i]) / (squares[i] + shift), 0.0), most)
            w += (new - dual[i]) * y[i] * X[i]
            dual[i] = new
        if np.abs(dual - before).max(initial=0.0) < 1e-10:
            break
    return w


def newton_minimum(X: A, y: A, costs: A, scales: A) -> A:
    """The weights that minimise 0.5 sum_j s_j w_j^2 + sum_i c_i max(0, 1 - y_i w.x_i)^2, by damped Newton steps."""

    def value(w: A) -> float:
        return 0.5 * float(scales @ w**2) + float(costs @ linear_loss("squared_hinge", y * (X @ w)))

    w = np.zeros(X.shape[1])
    for _ in range(200):
        active = y * (X @ w) < 1.0
        A_, c = X[active], costs[active]
        gradient = scales * w + 2.0 * A_.T @ (c * (A_ @ w - y[active]))
        hessian = np.diag(scales + 1e-12) + 2.0 * (A_.T * c) @ A_
        step, length = np.linalg.solve(hessian, -gradient), 1.0
        while value(w + length * step) > value(w) and length > 1e-10:
            length *= 0.5
        if np.abs(length * step).max() < 1e-10:
            break
        w = w + length * step
    return w


# --- chunks.py, beam.py -----------------------------------------------------------------------------------------------


def own_score(margin: float, transform: str) -> float:
    """A margin as a score, for the names of `core.types.TRANSFORMS`."""
    name = transform.removeprefix("log_")
    if name == "noop":
        return margin
    log = -float(np.logaddexp(0.0, -margin)) if name == "sigmoid" else -(max(0.0, 1.0 - margin) ** int(name[-1]))
    return log if transform.startswith("log_") else math.exp(log)


def walk(
    levels: Sequence[tuple[A, A, A, A]], X: A, keeps: Sequence[int], transform: str, combine: str
) -> list[list[tuple[int, float, float]]]:
    """Per document (id, score, own score) after a beam search; a level is (W, bias, parent and flag of each node)."""
    answers = []
    for x in X:
        kept = [(0, 0.0 if transform.startswith("log_") else 1.0, 1.0)]
        for depth, ((W, bias, parents, flags), keep) in enumerate(zip(levels, keeps, strict=True)):
            scored = []
            for parent, parent_score, parent_own in kept:
                for node in np.flatnonzero((parents == parent) & (flags != 2)):
                    own = own_score(float(x @ W[:, node] + bias[node]), transform)
                    above = {"own": None, "parent": parent_own, "path": parent_score}[combine] if depth else None
                    score = own
                    if above is not None:
                        score = own + above if transform.startswith("log_") else own * above
                    if flags[node] == 1:
                        own, score = parent_own, parent_score
                    scored.append((int(node), score, own))
            kept = sorted(scored, key=lambda item: (-item[1], item[0]))[:keep]
        answers.append(kept)
    return answers


# --- kmeans.py --------------------------------------------------------------------------------------------------------


def halve(Z: A, start: tuple[int, int], *, gains: bool, max_iter: int, eps: float, spherical: bool) -> A:
    """Sides of a balanced 2-means: sort by the difference of similarities, left half left, until nothing changes."""
    n, half = len(Z), len(Z) // 2
    left, right = Z[start[0]], Z[start[1]]
    before, earlier = -math.inf, None
    for _ in range(max_iter):
        similarity = np.column_stack([Z @ left, Z @ right])
        order = sorted(range(n), key=lambda i: (similarity[i, 1] - similarity[i, 0], i))
        side = np.ones(n, bool)
        side[order[:half]] = False
        mean = float(np.where(side, similarity[:, 1], similarity[:, 0]).mean())
        if earlier is not None and (mean - before < eps if gains else np.array_equal(side, earlier)):
            return side
        before, earlier = mean, side
        left, right = Z[~side].sum(0), Z[side].sum(0)
        sizes = (np.linalg.norm(left), np.linalg.norm(right)) if spherical else (half, n - half)
        left, right = left / (sizes[0] or 1.0), right / (sizes[1] or 1.0)
    return side


def group(Z: A, start: Sequence[int], max_iter: int, eps: float) -> A:
    """Clusters of a spherical k-means with given initial rows."""
    centres, before, groups = Z[list(start)], -math.inf, np.zeros(len(Z), int)
    for step in range(max_iter):
        scores = Z @ centres.T
        groups = scores.argmax(1)
        mean = float(scores.max(1).mean())
        if step > 0 and mean - before < eps:
            break
        before = mean
        centres = np.array([Z[groups == c].sum(0) for c in range(len(start))])
        lengths = np.linalg.norm(centres, axis=1)
        centres = centres / np.where(lengths > 0, lengths, 1.0)[:, None]
    return groups


# --- walks.py -------------------------------------------------------------------------------------------------------


def scrambled(state: int) -> int:
    """One step of splitmix64, with the lowest bit set."""
    mask = (1 << 64) - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return (state ^ (state >> 31)) | 1


def walk_visits(Y: A, hops: int, restart: float, keep: int, seed: int) -> list[list[tuple[int, int]]]:
    """Per label the most visited (label, visits) of a random walk over texts; ties go to the lower label."""
    visits = []
    for origin in range(Y.shape[1]):
        seen: Counter[int] = Counter()
        state, here = scrambled(seed ^ scrambled(origin)), origin
        for _ in range(hops if Y[:, origin].any() else 0):
            texts = np.flatnonzero(Y[:, here])
            state = scrambled(state)
            labels = np.flatnonzero(Y[texts[(state >> 32) * len(texts) >> 32]])
            state = scrambled(state)
            here = int(labels[(state >> 32) * len(labels) >> 32])
            seen[here] += 1
            state = scrambled(state)
            here = origin if (state >> 32) < int(restart * 2**32) else here
        visits.append(sorted(seen.items(), key=lambda pair: (-pair[1], pair[0]))[:keep])
    return visits


def gathered_dots(table: A, rows: A, ends: A, ids: A) -> list[float]:
    """Inner products of every row with its candidates in the table."""
    products = []
    for i in range(len(rows)):
        for p in range(ends[i] - ends[0], ends[i + 1] - ends[0]):
            products.append(float(table[ids[p]].astype(np.float64) @ rows[i]))
    return products


def best_of(indptr: A, ids: A, score: A, keep: int) -> list[list[int]]:
    """Ids of the best `keep` entries of every row, by score, then id."""
    best = []
    for start, stop in pairwise(indptr):
        order = sorted(range(start, stop), key=lambda p: (-score[p], ids[p]))
        best.append([int(ids[p]) for p in order[:keep]])
    return best


# --- products.py ----------------------------------------------------------------------------------------------------


def largest_products(queries: A, table: A, k: int, bias: A | None = None) -> list[list[tuple[int, float]]]:
    """Per query the `k` largest (row, inner product), with the row's bias added."""
    largest = []
    for query in queries:
        offsets = np.zeros(len(table)) if bias is None else bias
        pairs = [(r, float(np.dot(query, row) + offsets[r])) for r, row in enumerate(table)]
        largest.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k])
    return largest


# --- halving.py -----------------------------------------------------------------------------------------------------


def halved_leaves(vectors: A, depth: int, seed: int) -> list[int]:
    """The cluster of each row: every cluster is halved by cosine, level by level; the left half is the larger one."""
    rng = np.random.default_rng(seed)
    X = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    clusters = [list(range(len(X)))]
    for _ in range(depth):
        sizes = np.array([len(rows) for rows in clusters])
        first = rng.integers(0, sizes)
        second = (first + 1 + rng.integers(0, sizes - 1)) % sizes
        clusters = [
            half for rows, a, b in zip(clusters, first, second, strict=True) for half in _two_halves(X, rows, a, b)
        ]
    leaf = {row: number for number, rows in enumerate(clusters) for row in rows}
    return [leaf[row] for row in range(len(X))]


def _two_halves(X: A, rows: list[int], first: int, second: int) -> list[list[int]]:
    centres, best = [X[rows[first]], X[rows[second]]], -np.inf
    kept = (len(rows) + 1) // 2
    halves = [rows[:kept], rows[kept:]]
    for _ in range(50):
        order = sorted(rows, key=lambda row: (-float(X[row] @ centres[0] - X[row] @ centres[1]), row))
        left, right = order[:kept], order[kept:]
        mean = sum(float(X[r] @ c) for side, c in zip((left, right), centres, strict=True) for r in side) / len(rows)
        if mean - best < 1e-4:
            break
        best, halves = mean, [sorted(left), sorted(right)]
        centres = [X[side].sum(0) / max(float(np.linalg.norm(X[side].sum(0))), 1e-12) for side in (left, right)]
    return halves


# --- cooccurrence.py ------------------------------------------------------------------------------------------------


def label_shares(Y: A, delta: float, shrink: float = 0.0, symmetric: bool = False) -> A:
    """(labels, labels) shares of a label's texts that have another one too, above `delta`; 1 on the diagonal."""
    n = Y.shape[1]
    shares = np.zeros((n, n), np.float32)
    for label in range(n):
        for other in range(n):
            both = int(((Y[:, label] > 0) & (Y[:, other] > 0)).sum())
            if both == 0:
                continue
            share = both / (int((Y[:, label] > 0).sum()) + shrink)
            if symmetric:
                share = 0.5 * (share + both / (int((Y[:, other] > 0).sum()) + shrink))
            if share > delta:
                shares[label, other] = share
        shares[label, label] = 1.0
    return shares


def union(sources: Any) -> Any:
    """See `search/union.py`: of (indptr, ids, scores) of each source."""
    n = len(sources[0][0]) - 1
    indptr, labels, scores, found, best = [0], [], [], [], np.zeros((n, len(sources)), np.float32)
    for row in range(n):
        said = [
            dict(zip(ids[p[row] : p[row + 1]], score[p[row] : p[row + 1]], strict=True)) for p, ids, score in sources
        ]
        here = sorted({label for one in said for label in one})
        labels += here
        scores += [[one.get(label, min(one.values(), default=0.0)) for one in said] for label in here]
        found += [[label in one for one in said] for label in here]
        best[row] = [max(one.values(), default=0.0) for one in said]
        indptr.append(len(labels))
    shape = (len(labels), len(sources))
    score, there = np.array(scores, np.float32).reshape(shape), np.array(found, bool).reshape(shape)
    return np.array(indptr), np.array(labels, np.int32), score, there, best


def best_of_rows(indptr: Any, ids: Any, score: Any, own: Any, k: int) -> Any:
    """See `search/union.py`."""
    kept = [sorted(range(a, b), key=lambda i: (-score[i], ids[i]))[:k] for a, b in pairwise(indptr)]
    order = np.array([i for row in kept for i in row], np.int64)
    return np.cumsum([0, *map(len, kept)]), ids[order], score[order], own[order]


# --- interpolate.py -------------------------------------------------------------------------------------------------


def interpolate(values: A, counts: A, bounds: tuple[int, int], knots: A) -> A:
    """See `interpolate.py`: `numpy.interp` for each bin."""
    bins, found = np.searchsorted(bounds, counts, side="left"), np.empty(len(values), np.float32)
    for b, (x, y) in enumerate(zip(*knots, strict=True)):
        found[bins == b] = np.interp(values[bins == b], x, y)
    return found


# --- text/terms.py ----------------------------------------------------------------------------------------------------


def known_words(grams: Sequence[str], ids: Sequence[int]) -> float:
    """The share of a text's single words with an id; see `text/terms.py`."""
    words = [id_ >= 0 for gram, id_ in zip(grams, ids, strict=True) if " " not in gram]
    return sum(words) / len(words) if words else math.nan
