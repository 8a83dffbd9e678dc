"""One head: a view and its projection, label vectors, candidates, a loss; and the rank it becomes in a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.core.types import Rank
from treetop.network.candidates.chosen import Candidates, Scored
from treetop.network.losses.settings import LossConfig, loss_of
from treetop.network.projection import Projection
from treetop.network.targets import BatchTargets
from treetop.network.vectors.attention import AttentionPlan
from treetop.network.vectors.contract import BecomesRank, GivesLogits, LabelVectors
from treetop.network.vectors.full import EveryLabel
from treetop.network.vectors.parts import PartsPlan
from treetop.rank.head import Head as HeadRank
from treetop.tensors.handover import to_float32
from treetop.train.batches import Loaded


@dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """A head before anything is built; training builds it, forecasts count it."""

    view: str
    view_width: int
    n: int  # labels, or nodes of a level
    name: str = "labels"
    keep: int = 0  # nodes of the head above whose children are candidates; 0: all labels are
    pool: int = 0  # labels that are candidates of all rows of a step, 0: as `keep` says
    dimension: int = 0  # of a linear projection; 0: none
    dropout: float = 0.0
    length: float = 0.0  # that views are scaled to; 0: as they are
    weight: float = 1.0  # of its loss
    parts: PartsPlan | None = None  # None: free label vectors
    attention: AttentionPlan | None = None  # labels read a view that is a token sequence

    @property
    def width(self) -> int:
        """Dimension of a label vector."""
        return self.dimension or self.view_width


class Head:
    """A head of a network under training."""

    def __init__(
        self, plan: HeadPlan, vectors: LabelVectors, candidates: Candidates, loss: LossConfig, *,
        projection: Projection, device: torch.device, ancestor: Tensor | None = None, kept_share: float = 1.0,
    ) -> None:  # fmt: skip
        """`ancestor` (labels,) names the node of each label on the head's level; None: it scores the labels themselves.

        `kept_share` is how likely a random label is among the candidates.
        """
        self.plan, self.name = plan, plan.name
        self.projection, self.vectors, self.candidates, self.loss_config = projection, vectors, candidates, loss
        self.device, self.ancestor, self.kept_share = device, ancestor, kept_share

    @property
    def one_pass(self) -> EveryLabel | None:
        """Vectors whose loss over all labels is computed without keeping logits."""
        return self.vectors if isinstance(self.vectors, EveryLabel) else None

    @property
    def varies(self) -> bool:
        """Whether its shapes depend on the texts of a step, which then cannot be recorded."""
        return self.vectors.from_texts or self.plan.attention is not None

    def loss(
        self, views: Mapping[str, Any], known: BatchTargets, loaded: Loaded, above: Scored | None
    ) -> tuple[Tensor, Scored | None]:
        """(the batch's share of the step's loss, what the head below chooses its candidates by)."""
        h = self.projection(views[self.plan.view])
        if self.ancestor is not None:
            known = known.above(self.ancestor)
        if self.one_pass is not None:
            scale = self.plan.weight / loaded.batch.total
            mean = self.loss_config.bce_reduction == "mean"
            return self.one_pass.score_loss(h, known.full(), scale / self.plan.n if mean else scale), None
        chosen = self.candidates.choose(known, loaded.parts[self.name], above)
        logits = self.logits(h, chosen.ids)
        pairs = chosen.pairs(logits, known)
        values = loss_of(self.loss_config.kind)(pairs, self.loss_config)
        return self.plan.weight * values.sum() / loaded.batch.total, Scored(chosen.ids, logits.detach(), pairs.target)

    def logits(self, h: Any, ids: Tensor | None) -> Tensor:
        """(rows, candidates) of projected views; None: all labels in order."""
        if not isinstance(self.vectors, GivesLogits):
            raise TypeError(f"{type(self.vectors).__name__} keeps no logits")
        return self.vectors.logits(h, ids)

    def rank(self, unseen: NDArray[np.bool_] | None = None) -> Rank:
        """The head as part of a model; `unseen` labels are never returned."""
        if isinstance(self.vectors, BecomesRank):
            return self.vectors.rank(unseen)
        weight, bias = self.vectors.whole()
        offset = to_float32(bias).copy()
        if unseen is not None:
            offset[unseen] = -np.inf
        layer, length = self.projection.layer, self.projection.length or 1.0  # a model's views have length 1
        if layer is None:
            return HeadRank(length * to_float32(weight), offset)
        squeeze = {"squeeze": length * to_float32(layer.weight), "squeeze_bias": to_float32(layer.bias)}
        return HeadRank(to_float32(weight), offset, **squeeze)
