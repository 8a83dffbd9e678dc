"""GLaS (NeurIPS 2019): a regulariser that makes inner products of label vectors follow label co-occurrence.

S[j, l] is the mean of P(l | j) and P(j | l), 1 on the diagonal. As a penalty, a step pays the squared distance between
S and the Gram matrix of the vectors of a few hundred labels, those of the mini-batch first. As rows, label texts have
the targets sigma(S) where S is not 0, which is what the penalty implies for a text that lies at its label's vector.

Deviation: cosines instead of inner products, since the norm of the vectors carries the scale of the margins (`cosine:
false` is the equation as written); labels are sampled, and the mean over sampled pairs estimates the mean over all
pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from treetop.assemble.label_graph import share_graph_stage
from treetop.augment.label_texts import RowsConfig, added_rows, needs_of, with_label_texts
from treetop.augment.offers import Offers
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.labels.graph import Needs, ShareConfig, counted, share_needs

NAME = "glas"


@dataclass(frozen=True, kw_only=True)
class Config(ShareConfig, RowsConfig):
    """Settings of `glas`."""

    form: Literal["penalty", "rows"] = setting(
        "penalty", "regulariser on label vectors, or label texts as training rows"
    )
    weight: float = setting(1.0, "weight of the regulariser relative to the loss of a text", low=0.0)
    labels_per_step: int = setting(512, "labels sampled per step", low=2)
    cosine: bool = setting(True, "compare S with cosines; false: with inner products")
    delta: float = setting(0.0, "threshold: smaller entries of S are set to 0", low=0.0, high=1.0)


def needs(config: Config) -> list[str]:
    """A penalty on label vectors, or rows with soft targets."""
    return ["penalty"] if config.form == "penalty" else needs_of(config, "soft")


def forecast(dataset: Dataset, config: Config) -> Needs:
    """Memory and time of the graph."""
    return share_needs(counted(dataset), config, symmetric=True)


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set with label texts as rows, if requested."""
    if config.form != "rows":
        return dataset
    S = share_graph_stage(dataset, config, job, NAME, symmetric=True)
    S.data = (1.0 / (1.0 + np.exp(-S.data.astype(np.float64)))).astype(np.float32)
    return with_label_texts(dataset, S, config, NAME, job.seed)


def penalty(dataset: Dataset, config: Config, job: Job) -> Any:
    """The penalty, if requested."""
    if config.form != "penalty":
        return None
    from treetop.network.losses.glas import GramPenalty

    S = share_graph_stage(dataset, config, job, NAME, symmetric=True)
    return GramPenalty(S, dataset.Y, config.weight, config.labels_per_step, config.cosine, job.seed)


OFFERS = Offers(rows=rows, penalty=penalty, added=added_rows, forecast=forecast)
