"""A fusion of the sources, learned on held-out documents: which kind, and how much rare labels are lifted.

Both kinds are cross-fitted: learned on one half of the documents and validated on the other, in turn. The one that
serves the user's `aim` best is kept, or the best single source if no fusion beats it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from treetop.assemble.held_out.boosted import learn_boosted
from treetop.assemble.held_out.judged import Judged, Quality
from treetop.assemble.held_out.logistic import alone, learn_logistic
from treetop.core.dataset import Ints
from treetop.core.types import Floats
from treetop.predict.fuse.boosted import Boosted
from treetop.predict.fuse.fuse import probability
from treetop.predict.fuse.logistic import Logistic
from treetop.predict.fuse.rarity import PLAIN, Rarity

Aim = Literal["balanced", "precision", "tail"]
LIFTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
KEPT = 0.9985  # lifting rare labels must keep this fraction of the P@1 and P@5 without any lift
RARE = 0.99  # a fusion must keep this fraction of the best source's PSP@5, even at the cost of some P@1 and P@5
LEARN: dict[str, Callable[[Judged, Ints], Logistic | Boosted]] = {"logistic": learn_logistic, "boosted": learn_boosted}


@dataclass(frozen=True)
class Fused:
    """A learned fusion, and its quality on the held-out documents on which it was chosen."""

    fusion: Logistic | Boosted
    name: str
    quality: Quality
    sources: tuple[Quality, ...]  # each source alone
    unseen: Floats  # (pairs,) cross-fitted probabilities: by a fusion learned on the other half of the documents


def learn_fusion(
    judged: Judged, counts: Ints, n_train: int, propensity: tuple[float, float], aim: Aim, seed: int
) -> Fused:
    """Choose the kind and the lift that serve `aim` best by cross-fitting, then learn that fusion on all documents."""
    returned = np.where(judged.pairs.found, judged.pairs.score, -np.inf)  # others come last, not beside the lowest
    sources = tuple(judged.quality(score) for score in returned.T)
    p = {name: probability(crossed(judged, counts, learn, seed)) for name, learn in LEARN.items()}
    best, plain = _best(sources), _best([judged.quality(values) for values in p.values()])
    kept = Quality(*(KEPT * value for value in plain))
    tried = [(worth(q, best, kept, aim), f"source {s + 1} alone", PLAIN, q) for s, q in enumerate(sources)]
    for name, values in p.items():
        for lift in LIFTS if aim != "precision" else LIFTS[:1]:
            rarity = Rarity.of(n_train, *propensity, lift, keep_first=aim == "balanced")
            quality = judged.quality(rarity.lifted(values, judged.pairs.indptr, judged.pairs.ids, counts))
            tried.append((worth(quality, best, kept, aim), name, rarity, quality))
    _, name, rarity, quality = max(tried, key=lambda item: item[0])  # the first of equals: the simplest
    some = judged.sampled(seed)
    fusion = LEARN[name](some, counts) if name in LEARN else alone(some, int(name.split()[1]) - 1)
    unseen = p[name] if name in LEARN else probability(fusion.logits(judged.pairs, counts))
    return Fused(replace(fusion, rarity=rarity), name, quality, sources, unseen)


def worth(found: Quality, best: Quality, kept: Quality, aim: Aim) -> float:
    """How well a ranking serves `aim`, relative to the best that any source reaches alone.

    balanced: first no metric below the best that a source reaches, PSP@5 but for a hundredth; then P@1 and P@5 not
    below what is to be `kept` of a fusion that lifts nothing; then the sum of all three.
    """
    p1, p5, psp5 = (value / max(bound, 1e-9) for value, bound in zip(found, best, strict=True))
    if aim == "precision":
        return p1 + p5
    if aim == "tail":
        return psp5
    below = sum(max(0.0, 1.0 - value) for value in (p1, p5, psp5 / RARE))
    lost = sum(max(0.0, 1.0 - value / max(floor, 1e-9)) for value, floor in zip(found[:2], kept[:2], strict=True))
    return p1 + p5 + psp5 - 100.0 * below - 30.0 * lost


def _best(qualities: Sequence[Quality]) -> Quality:
    """The highest of each."""
    return Quality(*(max(values) for values in zip(*qualities, strict=True)))


def crossed(judged: Judged, counts: Ints, learn: Callable[[Judged, Ints], Logistic | Boosted], seed: int) -> Floats:
    """(pairs,) logits of a fusion learned on the other half of the documents."""
    n = len(judged.pairs.indptr) - 1
    half = np.random.default_rng(seed).permutation(n) < n // 2
    made = np.empty(len(judged.hit), np.float32)
    for side in (half, ~half):
        fusion = learn(judged.rows_where(~side).sampled(seed), counts)
        mask = side[judged.pairs.rows]
        made[mask] = fusion.logits(judged.where(mask).pairs, counts)
    return made
