"""What the probabilities of a calibrated model are worth on these documents: reliability, acceptance, F1 at thresholds.

A suggestion is one of the first `FIRST` labels of a document, as `treetop predict` gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import InputError
from treetop.core.types import Floats
from treetop.evaluate.match import Matches

FIRST = 5  # labels of a document that are suggestions
BINS = 15  # of equally many suggestions
HALF = 0.5  # above it a label is more likely right than wrong
FEW = 20  # suggestions; a precision of fewer is luck


@dataclass(frozen=True)
class Reliability:
    """Bins of equally many suggestions: what was predicted, and what share was right."""

    predicted: list[float]  # mean probability of each bin, in percent
    observed: list[float]  # share of right suggestions, in percent
    error: float  # expected calibration error, in points: mean distance of the two


@dataclass(frozen=True)
class Accepted:
    """What accepting every suggestion at or above a threshold does, in percent but for the last."""

    threshold: float  # a probability
    share: float  # of all suggestions
    precision: float
    recall: float  # of all true labels
    documents: float  # with at least one
    per_document: float  # labels


def suggestions(matches: Matches) -> tuple[Floats, NDArray[np.bool_]]:
    """(probability, right?) of all suggestions, document by document."""
    present = matches.top[:, :FIRST] >= 0
    return _known(matches)[:, :FIRST][present], matches.hits[:, :FIRST][present]


def _known(matches: Matches) -> Floats:
    if matches.probability is None:
        raise InputError("evaluate: the model is not calibrated, its scores are not probabilities.")
    return matches.probability


def reliability(matches: Matches) -> Reliability | None:
    """None without probabilities or suggestions."""
    if matches.probability is None:
        return None
    p, right = suggestions(matches)
    if len(p) == 0:
        return None
    parts = [part for part in np.array_split(np.argsort(p, kind="stable"), BINS) if len(part)]
    predicted = [100.0 * float(p[part].mean(dtype=np.float64)) for part in parts]
    observed = [100.0 * float(right[part].mean()) for part in parts]
    gaps = [len(part) * abs(a - b) for part, a, b in zip(parts, predicted, observed, strict=True)]
    return Reliability(predicted, observed, sum(gaps) / len(p))


def acceptance(matches: Matches, points: int = 40) -> tuple[list[float], list[float]]:
    """(share accepted, precision) in percent, from few suggestions to all; equal probabilities stay together."""
    if matches.probability is None:
        return [], []
    n, hits = _from_the_top(matches)[1:]
    if len(n) == 0:
        return [], []
    wanted = np.linspace(min(FEW, n[-1]), n[-1], points)
    chosen = np.unique(np.searchsorted(n, wanted))
    return (100.0 * n[chosen] / n[-1]).tolist(), (100.0 * hits[chosen] / n[chosen]).tolist()


def accept_for(matches: Matches, precision: float) -> Accepted | None:
    """The lowest threshold, in hundredths, with this precision (in percent) on at least `FEW` of these suggestions."""
    if matches.probability is None:
        return None
    probability, n, hits = _from_the_top(matches)
    hundredths = (np.arange(101) / 100).astype(np.float32)
    places = np.searchsorted(-probability, -hundredths, side="right") - 1  # the last one at or above each
    enough = (places >= 0) & (n[places] >= FEW) & (100.0 * hits[places] >= precision * n[places]) if len(n) else places
    return accepted(matches, int(np.argmax(enough)) / 100) if len(n) and enough.any() else None


def accepted(matches: Matches, threshold: float) -> Accepted:
    """What this threshold does."""
    kept = (matches.top[:, :FIRST] >= 0) & (_known(matches)[:, :FIRST] >= threshold)
    n, hits = int(kept.sum()), int((kept & matches.hits[:, :FIRST]).sum())
    documents, everything = len(matches), int((matches.top[:, :FIRST] >= 0).sum())
    return Accepted(
        threshold,
        100.0 * n / max(everything, 1),
        100.0 * hits / max(n, 1),
        100.0 * hits / max(len(matches.true), 1),
        100.0 * int(kept.any(1).sum()) / documents,
        n / documents,
    )


def _from_the_top(matches: Matches) -> tuple[Floats, Ints, Ints]:
    """(probability falling, suggestions at or above it, right ones among them) at every probability that occurs."""
    p, right = suggestions(matches)
    order = np.argsort(-p, kind="stable")
    p, hits = p[order], np.cumsum(right[order], dtype=np.int64)
    last = np.flatnonzero(np.append(p[1:] != p[:-1], len(p) > 0))
    return p[last], last.astype(np.int64) + 1, hits[last]


def at_thresholds(matches: Matches) -> list[dict[str, Any]]:
    """Rows for `Scores.thresholds`: F1 at 0.5 and where it was best on the documents of the calibration."""
    if matches.probability is None:
        return []
    cuts = {"half": HALF} if matches.f1_threshold is None else {"half": HALF, "best F1": matches.f1_threshold}
    return [{"name": name, **_f1(matches, cut)} for name, cut in cuts.items()]


def _f1(matches: Matches, threshold: float) -> dict[str, float]:
    """Micro-F1 and macro-F1 (of labels with test positives) of the labels at or above a threshold, in percent."""
    kept = (matches.top >= 0) & (_known(matches) >= threshold)
    n = len(matches.labels)
    predicted = np.bincount(matches.top[kept], minlength=n)
    correct = np.bincount(matches.top[kept & matches.hits], minlength=n)
    here = matches.positives > 0
    f1 = 2.0 * correct[here] / (predicted + matches.positives)[here]
    made, true, hits = int(predicted.sum()), len(matches.true), int(correct.sum())
    return {
        "threshold": threshold,
        "microF1": 200.0 * hits / max(made + true, 1),
        "macroF1": 100.0 * float(f1.mean()) if len(f1) else 0.0,
        "precision": 100.0 * hits / max(made, 1),
        "recall": 100.0 * hits / max(true, 1),
        "labels_per_document": made / len(matches),
    }
