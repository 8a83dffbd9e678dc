"""Settings of a loss over candidates that rows share, and the loss by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from treetop.core import registry
from treetop.core.config import Registered, setting
from treetop.network.losses.pairs import Pairs, Reduce

Pick = Literal["all", "some", "one"]
Kind = Annotated[str, Registered("loss")]


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


Loss = Callable[[Pairs, LossConfig], Tensor]


def loss_of(name: str) -> Loss:
    """The loss with this name."""
    found: Loss = registry.find("loss", name).loss
    return found
