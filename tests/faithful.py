"""Whether the words of an explanation are those that count: what happens to a margin when they are taken out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from treetop.explain.path import walk
from treetop.explain.words import marked


def margin(model: Any, text: str, column: int, member: int = 0) -> float:
    """Of a label in a member, whether it would be returned or not."""
    found = walk(model.members[member], model.views([text]), column, {})[-1].margin
    assert found is not None
    return found


def falls(
    model: Any, texts: Iterable[str], *, k: int = 2, drop: int = 1, draws: int = 3, member: int = 0
) -> tuple[float, float, int]:
    """(how far margins fall without the `drop` words that speak most for a label, without random ones, pairs)"""
    rng, top, random = np.random.default_rng(0), [], []
    for text in texts:
        for found in model.explain(text, k):
            pieces = marked(text, found.members[member].steps[-1].words)
            places = [i for i, (piece, _) in enumerate(pieces) if piece[0].isalnum()]
            if len(places) < 3 * drop:
                continue
            column = model.labels.find(found.id)
            whole = margin(model, text, column, member)

            def without(out: Any, pieces=pieces, whole=whole, column=column) -> float:
                rest = "".join(piece for i, (piece, _) in enumerate(pieces) if i not in out)
                return whole - margin(model, rest, column, member)

            top.append(without(sorted(places, key=lambda i: -pieces[i][1])[:drop]))
            random += [without(rng.choice(places, drop, replace=False)) for _ in range(draws)]
    return float(np.mean(top)), float(np.mean(random)), len(top)


def gaps(step: Any) -> tuple[float, float]:
    """(gap of a step against the difference the words make, against the sizes of what they add)"""
    amounts = [word.contribution for word in step.words]
    assert abs(step.base + sum(amounts) + step.gap - step.margin) < 1e-5 * max(1.0, abs(step.margin))
    gap = max(abs(step.gap) - 1e-6 * max(1.0, abs(step.margin)), 0.0)  # rounding
    return gap / max(abs(step.margin - step.base), 1e-9), gap / max(sum(map(abs, amounts)), 1e-9)
