"""Losses over a pool of labels that all queries of a batch share.

A matrix of similarities (queries x pool) meets a matrix of positives. The reduction says which positives of a query
count: all of them, those the pool happens to hold (some), or one drawn at random, the others void. The loss says what
they count against. Pairs that are neither positive nor negative (`void`) are left out by -inf, never by a large
number, since the products of a classifier have no bounds. Numbers of low precision are widened first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.core.config import setting
from treetop.train.losses import Reduce, row_loss

Pick = Literal["all", "some", "one"]
Kind = Literal["supcon", "decoupled", "balanced", "infonce", "triplet", "kprob", "bce", "soft_topk"]
BISECTIONS = 40


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What one head learns from a pool."""

    kind: Kind = setting("decoupled", "the loss")
    pick: Pick = setting("some", "a query's labels that count: those in the pool, all (the pool holds them), or one")
    symmetric: bool = setting(False, "ask for the queries of a label too")
    backward: float = setting(
        0.5, "weight of that direction where symmetric; the other gets the rest", low=0.0, high=1.0
    )
    bce: float = setting(0.0, "weight of a binary cross-entropy of the queries over the pool added to it", low=0.0)
    reduce: Reduce = setting("mean", "bce of a query: mean or sum over the pool")
    margin: float = setting(0.3, "triplet: by how much a positive should win", low=0.0)
    hardest: int = setting(10, "triplet, kprob: negatives of a query that count", low=1)
    temperature: float = setting(0.1, "triplet: softness of the weights of violators; 0: all weigh the same", low=0.0)
    steep: float = setting(2.0, "soft_topk: steepness; kprob: d", low=0.01)
    level: float = setting(0.9, "kprob: c, the probability of a perfect match", low=0.01, high=0.999)
    floor: float = setting(0.0, "kprob: smaller losses of negatives count nothing", low=0.0)
    top: int = setting(5, "soft_topk: places to fill", low=1)


@dataclass(frozen=True, eq=False)
class Sides:
    """Similarities of one direction with what is known about each pair."""

    s: Tensor  # (rows, pool) similarities times their scale
    positive: Tensor  # (rows, pool) 0 or the weight of a positive that counts
    void: Tensor | None  # (rows, pool) neither positive nor negative

    @property
    def negative(self) -> Tensor:
        mask = self.positive <= 0
        return mask if self.void is None else mask & ~self.void

    @property
    def real(self) -> Tensor | None:
        return None if self.void is None else ~self.void | (self.positive > 0)


def pool_loss(s: Tensor, positive: Tensor, config: LossConfig, void: Tensor | None = None) -> Tensor:
    """The loss of a whole pool: the mean over rows (and columns, where symmetric) that have a positive."""
    s = s if s.dtype == torch.float64 else s.float()
    loss = _direction(s, positive, config, void)
    if config.symmetric:
        back = _direction(s.T, positive.T, config, None if void is None else void.T)
        loss = (1.0 - config.backward) * loss + config.backward * back
    if config.bce > 0:  # of the queries, symmetric or not
        loss = loss + config.bce * _mean_row(_bce(Sides(s, positive, void), config), positive)
    return loss


def _direction(s: Tensor, positive: Tensor, config: LossConfig, void: Tensor | None) -> Tensor:
    if config.pick == "one":
        chosen = drawn(positive)
        others = (positive > 0) & (chosen <= 0)
        positive, void = chosen, others if void is None else void | others
    return _mean_row(LOSSES[config.kind](Sides(s, positive, void), config), positive)


def drawn(positive: Tensor) -> Tensor:
    """One positive of each row; the others are 0."""
    best = torch.where(positive > 0, torch.rand_like(positive), -1.0).argmax(1, keepdim=True)
    return torch.zeros_like(positive).scatter(1, best, 1.0) * positive


# --- one loss each --------------------------------------------------------------------------------------------------


def _supcon(sides: Sides, config: LossConfig) -> Tensor:
    """Mean over positives of -log softmax over the pool; positives compete with each other."""
    total = _log_sum(sides.s, _everything(sides))
    return _mean(total[:, None] - sides.s, sides.positive)


def _decoupled(sides: Sides, config: LossConfig) -> Tensor:
    """The same with each positive against the negatives alone."""
    return _mean(F.softplus(_log_sum(sides.s, sides.negative)[:, None] - sides.s), sides.positive)


def _balanced(sides: Sides, config: LossConfig) -> Tensor:
    """All positives of a row share one unit of mass in the denominator."""
    share = torch.log((sides.positive > 0).sum(1, keepdim=True).clamp_min(1).to(sides.s.dtype))
    total = _log_sum(torch.where(sides.positive > 0, sides.s - share, sides.s), _everything(sides))
    return _mean(total[:, None] - sides.s, sides.positive)


def _infonce(sides: Sides, config: LossConfig) -> Tensor:
    """-log of the positives' share among them and the negatives."""
    chosen = sides.positive > 0
    own = torch.where(chosen.any(1), _log_sum(sides.s, chosen), 0.0)
    return F.softplus(_log_sum(sides.s, sides.negative) - own)


def _triplet(sides: Sides, config: LossConfig) -> Tensor:
    """How far the hardest negatives come nearer than a positive less the margin, harder ones weighing more."""
    hard = _hardest(sides, config.hardest)[:, None, :]  # (rows, 1, hardest)
    if config.pick == "one":
        own = torch.where(sides.positive > 0, sides.s, 0.0).sum(1, keepdim=True)
        return _violation(hard, own, config)[:, 0]
    return _mean(_violation(hard, sides.s, config), sides.positive)


def _violation(hard: Tensor, own: Tensor, config: LossConfig) -> Tensor:
    gap = F.relu(hard - own[:, :, None] + config.margin)  # (rows, positives, hardest)
    there = torch.isfinite(hard)
    if config.temperature == 0:
        return gap.sum(2) / there.sum(2).clamp_min(1)
    first = hard[:, :, :1].detach()
    top = torch.where(torch.isfinite(first), first, 0.0)
    weight = torch.where(gap > 0, torch.exp((hard - top) / config.temperature), 0.0)
    return (gap * weight).sum(2) / weight.sum(2).clamp_min(torch.finfo(weight.dtype).tiny)


def _kprob(sides: Sides, config: LossConfig) -> Tensor:
    """SiameseXML's likelihood: a pair is right with probability c * exp(d * (cosine - 1))."""
    c, d = config.level, config.steep
    ahead = _mean(d * (1.0 - sides.s) - math.log(c), sides.positive)
    hard = _hardest(sides, config.hardest)
    values = -torch.log1p(-c * torch.exp(d * (hard.clamp_max(1.0) - 1.0)))  # -inf: exp is 0, and so is the loss
    values = torch.where(values > config.floor, values, 0.0)
    return ahead + values.sum(1) / torch.isfinite(hard).sum(1).clamp_min(1)


def _bce(sides: Sides, config: LossConfig) -> Tensor:
    return row_loss("bce", sides.s, sides.positive, mask=sides.real, reduce=config.reduce).to(sides.s.dtype)


def _soft_topk(sides: Sides, config: LossConfig) -> Tensor:
    """-log of each positive's share in the `top` places: sigmoid(steep * (s + t)) with t such that all add up to top.

    One Newton step with a graph behind a bisection without one gives t its exact derivative.
    """
    real = _everything(sides)
    a, s = config.steep, sides.s
    places = (0.5 * real.sum(1)).clamp_max(float(config.top)).to(s.dtype)
    with torch.no_grad():
        low, high = -s.amax(1) - 30.0 / a, -s.amin(1) + 30.0 / a
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            few = torch.where(real, torch.sigmoid(a * (s + middle[:, None])), 0.0).sum(1) < places
            low, high = torch.where(few, middle, low), torch.where(few, high, middle)
        t = 0.5 * (low + high)
    share = torch.where(real, torch.sigmoid(a * (s + t[:, None])), 0.0)
    slope = (a * share * (1.0 - share)).sum(1).detach().clamp_min(1e-12)
    t = t - (share.sum(1) - places) / slope
    return _mean(-F.logsigmoid(a * (s + t[:, None])), sides.positive)


# (rows,) values; those of rows without a positive mean nothing.
LOSSES: dict[str, Callable[[Sides, LossConfig], Tensor]] = {
    "supcon": _supcon,
    "decoupled": _decoupled,
    "balanced": _balanced,
    "infonce": _infonce,
    "triplet": _triplet,
    "kprob": _kprob,
    "bce": _bce,
    "soft_topk": _soft_topk,
}


# --- sums that know what is missing ---------------------------------------------------------------------------------


def _everything(sides: Sides) -> Tensor:
    real = sides.real
    return torch.ones_like(sides.s, dtype=torch.bool) if real is None else real


def _mean_row(values: Tensor, positive: Tensor) -> Tensor:
    """The mean over rows that have a positive."""
    rows = (positive > 0).any(1)
    return torch.where(rows, values, 0.0).sum() / rows.sum().clamp_min(1)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """(rows,) weighted means; 0 where nothing weighs."""
    weight = weight.to(values.dtype)
    total = torch.where(weight > 0, values * weight, 0.0).sum(1)
    return total / weight.sum(1).clamp_min(torch.finfo(values.dtype).tiny)


def _log_sum(s: Tensor, kept: Tensor) -> Tensor:
    """(rows,) log of the sum of exp over the kept; -inf where there are none, with a gradient of 0 and not NaN."""
    some = kept.any(1, keepdim=True)
    held = torch.where(some, s.masked_fill(~kept, float("-inf")), 0.0)
    return torch.where(some[:, 0], torch.logsumexp(held, 1), float("-inf"))


def _hardest(sides: Sides, count: int) -> Tensor:
    """(rows, count) the most similar negatives, best first; -inf where a row has fewer."""
    s = sides.s.masked_fill(~sides.negative, float("-inf"))
    return torch.topk(s, min(count, s.shape[1]), dim=1).values
