"""Settings of a loss over candidates that rows share, and the loss by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from treetop.core import registry
from treetop.core.config import Registered, setting
from treetop.network.losses.pairs import Pairs, Reduce

Positives = Literal["all", "pool", "one"]
Kind = Annotated[str, Registered("loss")]


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss of one head on a pool."""

    kind: Kind = setting("decoupled", "loss function")
    positive_set: Positives = setting(
        "pool", "positives per query in the loss: those in the pool, all of them, or one drawn at random"
    )
    symmetric: bool = setting(False, "symmetric loss: also contrast each label against the queries")
    symmetric_weight: float = setting(
        0.5, "symmetric: weight w of the label-to-query loss; the query-to-label loss gets 1 - w", low=0.0, high=1.0
    )
    bce_weight: float = setting(0.0, "weight of an auxiliary binary cross-entropy over the pool", low=0.0)
    bce_reduction: Reduce = setting("mean", "bce: reduction over the pool")
    margin: float = setting(0.3, "triplet: margin", low=0.0)
    hard_negatives: int = setting(10, "triplet, kprob: hardest negatives per query", low=1)
    temperature: float = setting(
        0.1, "triplet: softmax temperature of the weights of violating negatives; 0: equal weights", low=0.0
    )
    sharpness: float = setting(
        2.0, "soft_topk: inverse temperature of the sigmoid; kprob: d in c · exp(d · (cosine - 1))", low=0.01
    )
    kprob_c: float = setting(0.9, "kprob: c, the probability of a pair with cosine 1", low=0.01, high=0.999)
    min_loss: float = setting(0.0, "kprob: ignore negatives with a smaller loss", low=0.0)
    k: int = setting(5, "soft_topk: k", low=1)


Loss = Callable[[Pairs, LossConfig], Tensor]


def loss_of(name: str) -> Loss:
    """The loss with this name."""
    return registry.find("loss", name).loss
