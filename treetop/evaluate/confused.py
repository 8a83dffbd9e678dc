"""Which labels are taken for which: a wrong label in the place of a true one that is missed.

A document with m true labels has m places. A label among the first m that is wrong stands against each true label that
is not among them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treetop.core.dataset import Ints
from treetop.evaluate.match import Matches

ROWS = 100_000  # documents looked at, evenly over the data
LEAST, DAMPING = 3, 5.0  # documents of a close pair
MOST = 50  # missed labels of a document; one that misses more says nothing about single pairs


class Confusion(NamedTuple):
    """How often `predicted` stood where `true` was missed; both are columns."""

    predicted: int
    true: int
    documents: int


def confused_pairs(matches: Matches, n: int = 30, specific: int = 15) -> tuple[list[Confusion], list[Confusion]]:
    """The `n` most frequent pairs, and the `specific` closest ones; the lower columns first among equals.

    Frequent labels are wrong beside everything. Close are pairs whose errors come together: documents of the pair over
    the geometric mean of those with either error (and `DAMPING`, as few may be chance), `LEAST` documents or more.
    """
    n_labels = np.int64(len(matches.labels))
    rows = np.arange(len(matches)) if len(matches) <= ROWS else np.linspace(0, len(matches) - 1, ROWS).astype(np.int64)
    wrong, missed = _wrong(matches, rows), _missed(matches, rows)
    predicted, true = _products(wrong, missed, len(rows))
    keys, counts = np.unique(predicted * n_labels + true, return_counts=True)
    a, b = np.divmod(keys, n_labels)
    errors = [np.bincount(labels, minlength=int(n_labels)) for _, labels in (wrong, missed)]
    close = np.where(counts >= LEAST, counts / (np.sqrt(errors[0][a] * errors[1][b]) + DAMPING), 0.0)
    frequent, closest = np.lexsort((keys, -counts))[:n], np.lexsort((keys, -counts, -close))[:specific]
    made = [[Confusion(int(a[i]), int(b[i]), int(counts[i])) for i in chosen] for chosen in (frequent, closest)]
    return made[0], [pair for pair in made[1] if pair.documents >= LEAST]


def _wrong(matches: Matches, rows: Ints) -> tuple[Ints, Ints]:
    """(place in `rows`, label) of wrong labels at ranks up to the number of true ones."""
    at, places = np.nonzero((matches.top[rows] >= 0) & ~matches.hits[rows] & _in_reach(matches, rows))
    return at, matches.top[rows[at], places].astype(np.int64)


def _missed(matches: Matches, rows: Ints) -> tuple[Ints, Ints]:
    """(place in `rows`, label) of true labels at no such rank."""
    sizes = np.diff(matches.true_indptr)[rows]
    at = np.repeat(np.arange(len(rows)), sizes)
    first = np.repeat(matches.true_indptr[rows] - np.cumsum(sizes) + sizes, sizes)
    true = matches.true[first + np.arange(len(at))].astype(np.int64)
    n = np.int64(len(matches.labels))
    found, places = np.nonzero(matches.hits[rows] & _in_reach(matches, rows))
    missed = ~np.isin(at * n + true, found * n + matches.top[rows[found], places])
    few = (np.bincount(at[missed], minlength=len(rows)) <= MOST)[at]
    return at[missed & few], true[missed & few]


def _in_reach(matches: Matches, rows: Ints) -> np.ndarray:
    return np.arange(matches.depth) < np.diff(matches.true_indptr)[rows, None]


def _products(wrong: tuple[Ints, Ints], missed: tuple[Ints, Ints], n: int) -> tuple[Ints, Ints]:
    """Every wrong label with every missed one of the same document; both come in the order of documents."""
    a, b = (np.bincount(part[0], minlength=n) for part in (wrong, missed))
    start = np.cumsum(b) - b  # of each document among the missed
    times = b[wrong[0]]
    pairs = np.arange(int((a * b).sum()))
    begin = np.repeat(np.cumsum(times) - times, times)
    return np.repeat(wrong[1], times), missed[1][np.repeat(start[wrong[0]], times) + pairs - begin]
