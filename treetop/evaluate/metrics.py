"""How good overall: the formulas of `docs/metrics.md`, in percent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treetop.core import registry
from treetop.core.errors import ConfigError
from treetop.evaluate.match import DEPTH, Matches
from treetop.kernels.metrics import PER_CUT, Doubles

KS = (1, 3, 5, 10)
METRICS = ("P", "R", "nDCG", "PSP", "PSnDCG", "C", "macroF1", "microF1")


def rates(sums: Doubles, n: int, ks: Sequence[int]) -> dict[str, Doubles]:
    """Row-wise metrics in percent from column sums (..., 8 * len(ks) + 1) over n rows.

    PSP and PSnDCG are ratios of sums over the whole set, so this must see sums and never averages of batches.
    """
    values: dict[str, Doubles] = {}
    size = sums[..., -1]
    for i, k in enumerate(ks):
        column = {name: sums[..., 8 * i + j] for j, name in enumerate(PER_CUT)}
        values[f"P@{k}"] = 100.0 * column["hits"] / (n * k)
        values[f"R@{k}"] = 100.0 * column["recall"] / n
        values[f"nDCG@{k}"] = 100.0 * column["ndcg"] / n
        values[f"PSP@{k}"] = 100.0 * _ratio(column["psp"], column["psp_best"])
        values[f"PSnDCG@{k}"] = 100.0 * _ratio(column["psndcg"], column["psndcg_best"])
        values[f"microF1@{k}"] = 100.0 * _ratio(2.0 * column["hits"], column["predicted"] + size)
    return values


def label_wise(matches: Matches, ks: Sequence[int]) -> dict[str, float]:
    """Metrics of the registry (question `metric`): functions of the matches and a cut, in percent."""
    return {f"{name}@{k}": registry.find("metric", name)(matches, k) for name in registry.names("metric") for k in ks}


def coverage(matches: Matches, k: int) -> float:
    """C: share of the labels with test positives that are found at least once."""
    here = matches.positives > 0
    return 100.0 * float((matches.correct(k)[here] > 0).mean()) if here.any() else 0.0


def macro_f1(matches: Matches, k: int) -> float:
    """Mean F1 of the labels with test positives (others would make the average depend on the model)."""
    here = matches.positives > 0
    if not here.any():
        return 0.0
    f1 = 2.0 * matches.correct(k)[here] / (matches.predicted(k)[here] + matches.positives[here])
    return 100.0 * float(f1.mean())


def curves(matches: Matches) -> dict[str, list[float]]:
    """P, R, nDCG and PSP at every k up to the depth, and the best P any ranking could reach ("best P")."""
    ks = range(1, matches.depth + 1)
    sums = matches.sums(np.array(ks, np.int64))
    values = rates(sums, len(matches), ks)
    curve = {name: [float(values[f"{name}@{k}"]) for k in ks] for name in ("P", "R", "nDCG", "PSP")}
    sizes = np.diff(matches.true_indptr)
    return {**curve, "best P": [100.0 * float(np.minimum(sizes, k).mean()) / k for k in ks]}


def facts(matches: Matches) -> dict[str, int]:
    """What was evaluated, as plain counts."""
    tested = matches.positives > 0
    return {
        "documents": len(matches),
        "documents_without_labels": int((np.diff(matches.true_indptr) == 0).sum()),
        "documents_with_fewer_than_10_predictions": int((matches.top[:, DEPTH - 1] < 0).sum()),
        "positives": len(matches.true),
        "labels": len(matches.labels),
        "labels_tested": int(tested.sum()),
        "labels_tested_unseen": int((tested & (matches.counts == 0)).sum()),
        "labels_tested_unknown": int(tested[matches.n_known :].sum()),
        "filter_pairs": matches.n_filtered,
    }


def checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    """Cuts in ascending order without repeats."""
    if not ks or any(k < 1 or k > 1000 for k in ks):
        raise ConfigError(f"evaluate: k must be numbers from 1 to 1000, got {list(ks)}. Write for example 1,3,5,10.")
    return tuple(sorted(set(ks)))


def _ratio(above: Doubles, below: Doubles) -> Doubles:
    """Quotient, or 0 if the denominator is 0."""
    return np.divide(above, below, out=np.zeros_like(np.asarray(above, np.float64)), where=np.asarray(below) > 0)
