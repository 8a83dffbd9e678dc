"""Every metric written a second time, with plain loops over plain lists, straight from the definitions."""

from __future__ import annotations

import math


def rank(scores: dict[int, float], barred: set[int]) -> list[int]:
    """Best first, lower label first among equals; barred labels are gone."""
    return [label for _, label in sorted((-score, label) for label, score in scores.items() if label not in barred)]


def weight(count: int, n_train: int, a: float, b: float) -> float:
    c = (math.log(n_train) - 1) * (b + 1) ** a
    return 1 + c * (count + b) ** -a


def metrics(ranked: list[list[int]], true: list[set[int]], w: list[float], k: int) -> dict[str, float]:
    n = len(ranked)
    precision = recall = ndcg = psp = psp_best = psndcg = psndcg_best = hits_all = predicted_all = true_all = 0.0
    covered: set[int] = set()
    tp: dict[int, int] = {}
    shown: dict[int, int] = {}
    positives: dict[int, int] = {}
    for labels, truth in zip(ranked, true, strict=True):
        hits = 0
        dcg = wdcg = 0.0
        for place, label in enumerate(labels[:k], start=1):
            predicted_all += 1
            shown[label] = shown.get(label, 0) + 1
            if label in truth:
                hits += 1
                dcg += 1 / math.log(place + 1, 2)
                psp += w[label]
                wdcg += w[label] / math.log(place + 1, 2)
                covered.add(label)
                tp[label] = tp.get(label, 0) + 1
        for label in truth:
            positives[label] = positives.get(label, 0) + 1
        precision += hits / k
        hits_all += hits
        true_all += len(truth)
        if truth:
            recall += hits / len(truth)
            ideal = sum(1 / math.log(place + 1, 2) for place in range(1, min(k, len(truth)) + 1))
            ndcg += dcg / ideal
            best = sorted((w[label] for label in truth), reverse=True)[:k]
            psp_best += sum(best)
            psndcg += wdcg / ideal
            psndcg_best += sum(x / math.log(place + 1, 2) for place, x in enumerate(best, start=1)) / ideal
    f1 = [2 * tp.get(label, 0) / (shown.get(label, 0) + count) for label, count in positives.items()]
    return {
        f"P@{k}": 100 * precision / n,
        f"R@{k}": 100 * recall / n,
        f"nDCG@{k}": 100 * ndcg / n,
        f"PSP@{k}": 100 * psp / psp_best,
        f"PSnDCG@{k}": 100 * psndcg / psndcg_best,
        f"C@{k}": 100 * len(covered) / len(positives),
        f"macroF1@{k}": 100 * sum(f1) / len(f1),
        f"microF1@{k}": 100 * 2 * hits_all / (predicted_all + true_all),
    }
