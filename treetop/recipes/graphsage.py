"""GraphSAGE (NeurIPS 2017), a baseline of UniDEC's authors: label vectors from label texts and sampled training texts.

Features: transformer, mean of the last layer, through a linear layer, L2-normalised. Labels: their texts, and some of
their documents. Tree: none. Shortlist: everything, or approximate nearest labels if there are many. Rank: dual. Key
idea: documents and labels are nodes of a graph, assignments its edges. A node's vector is a linear layer over its own
embedding and the mean embedding of `fan_out` sampled neighbours; encoder and layer are trained with in-batch negatives.

Deviations: one hop. Documents never read neighbours: a new text has no edges, and those of a training text are what is
to be predicted; so the texts of a mini-batch are not sampled as neighbours of its labels either (where memory splits a
mini-batch, only within a part). The layer begins as the sum of both, with tanh instead of ReLU. After training a
label's vector is made once, from at most `fan_out` of its documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from treetop.assemble.dual.fit import DualPlan, as_model, forecast_dual, prepare_dual, train_dual
from treetop.assemble.dual.pairs import known_of
from treetop.assemble.dual.settings import DualEncoderConfig, SearchConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.fit import cut
from treetop.network.graph import GraphHead, with_neighbours
from treetop.network.losses.settings import LossConfig
from treetop.network.pool_heads import DualConfig, PoolHead
from treetop.network.samplers.neighbours import Neighbours
from treetop.network.samplers.pools import PoolConfig
from treetop.tensors.devices import World

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations
IN_BATCH = PoolConfig(size=100_000, positives=1, hard_negatives=0, fill=False, clustered=False)


@dataclass(frozen=True, kw_only=True)
class Config(DualEncoderConfig):
    """Settings of `graphsage`."""

    fan_out: int = setting(10, "documents sampled as neighbours of a label", low=1, high=1000)
    dual: DualConfig = setting(
        DualConfig(loss=LossConfig(kind="infonce", positive_set="one")),
        "dual-encoder head (label vectors from label texts and documents)",
    )
    pool: PoolConfig = setting(IN_BATCH, "mini-batches and label pools; default: in-batch negatives only")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder.window_pooling == "learned":
            raise ConfigError("encoder.window_pooling: 'learned' does not go with neighbours. Set it to mean.")


@dataclass(frozen=True, kw_only=True)
class GraphPlan(DualPlan):
    """The plan of a dual encoder whose head reads neighbours."""

    def build(self, width: int, n: int, device: torch.device, *, world: World, seed: int) -> list[PoolHead]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return [] if self.dual is None else [GraphHead(self.dual, width)]


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """As for dual encoders; with each label of a mini-batch `fan_out` documents are read."""
    plan = GraphPlan.of(config, dataset)
    needs = forecast_dual(dataset, config, plan.with_pool(plan.train.batch_size * max(1, config.pool.positives)))
    if config.frozen:
        return needs
    more = config.fan_out * needs.step
    return replace(needs, time=(1 + config.fan_out) * needs.time, memory=needs.memory + more, step=needs.step + more)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train encoder and layer, then make all label vectors once, each with its neighbours."""
    plan = GraphPlan.of(config, dataset)
    prepared = prepare_dual(dataset, config, job)
    rows, _ = cut(dataset, plan.validation, job.seed)
    graph = Neighbours(known_of(dataset).only(rows), config.fan_out, job.seed)
    inputs = prepared.frozen(job) if config.frozen else prepared.learning(compiled=config.compile)
    around = with_neighbours(inputs, graph, len(dataset), compiled=config.compile)
    search = SearchConfig(logit_adjustment=config.search.logit_adjustment)
    trained = train_dual(dataset, prepared, around, plan, search, job)
    return as_model(dataset, trained.features, trained.rank, config.search, job)
