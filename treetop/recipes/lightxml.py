"""LightXML (AAAI 2021): one transformer, a generator of label clusters and a ranker of labels, trained together.

Features: transformer, the mean of the last layer (the paper: the first token of the last five layers, as in the
presets `paper-...`). Labels: PIFA. Tree: one level of balanced clusters, more if asked for, or none for small label
sets. Shortlist: descend (negatives are the labels of the clusters the generator likes now). Rank: head through a
bottleneck. The own idea is the dynamic negatives: easy at first, harder as the generator learns. Score: product of
the probabilities. `members` trains several and averages them.

Deviations: label vectors begin at what the encoder makes of the label texts, which is worth three points P@1 on
short texts, and biases at the log odds; padding is masked instead of repeating the last label; labels whose cluster
is not among the kept ones are left out instead of overwriting negatives (keep is larger than any document's
clusters); losses are sums over candidates, which the 1 : 1 weighting of the two means turns into `ranker_weight`; the
accidental end of dropout after the first evaluation is not copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from treetop.assemble.inputs import Inputs
from treetop.assemble.label_tree import tree_stage
from treetop.assemble.members import Member, NetworkConfig, encoder_of, fit_members, small_batches
from treetop.assemble.neural_fit import Prepared, as_levels, prepare, train_levels
from treetop.assemble.neural_forecast import EncoderSize, Numbers, forecast_member, forecast_members
from treetop.assemble.neural_start import Begin
from treetop.assemble.neural_targets import of_clusters
from treetop.assemble.neural_tree import LevelPlan, TreeConfig
from treetop.assemble.view import sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.types import Candidates, Join, LabelTree
from treetop.core.work import Job
from treetop.features.encoder import Pooling
from treetop.features.sources import peek
from treetop.features.tfidf import TfidfConfig
from treetop.features.transformer import Transformer, TransformerConfig
from treetop.labels.pifa import pifa
from treetop.model import Model
from treetop.partition.balanced import BalancedConfig, balanced
from treetop.partition.flat import flat

GROUP = "transformer, trees"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
FEW = 50_000  # labels below which clusters cost more than they save


@dataclass(frozen=True, kw_only=True)
class Config(NetworkConfig):
    """Settings of `lightxml`."""

    encoder: TransformerConfig = setting(TransformerConfig(l2=True), "the encoder and its view")
    begin: Begin = setting("auto", "label vectors begin at their texts' vectors, at nothing; auto: if texts tell")
    size: float = setting(15.0, "how often a cosine with a label's text counts in its first margin", low=0.0)
    members: int = setting(1, "models that differ in seed and clusters, their scores averaged", low=1, high=64)
    encoders: tuple[str, ...] = setting((), "instead of `members`: one model for each of these encoders")
    frozen: bool = setting(False, "leave the encoder as it is and train the heads only (for CPUs)")
    clusters: Literal["auto", "none", "tree"] = setting("auto", "two levels, or one; auto: by the number of labels")
    tree: BalancedConfig = setting(
        BalancedConfig(max_leaf=100, shallow=True, per_node=True, rule="gain"), "how labels are clustered"
    )
    tfidf: TfidfConfig = setting(TfidfConfig(), "what clusters are made from")
    keep: int = setting(75, "nodes of a level whose children are ranked", low=1)
    bottleneck: int = setting(400, "width of label vectors where there are clusters; 0: the view's own", low=0)
    dropout: float = setting(0.1, "share of the view dropped while training", low=0.0, high=0.99)
    loss: Literal["bce", "squared_hinge"] = setting("bce", "loss of both levels")
    negatives: Literal["dynamic", "static", "static_extra"] = setting(
        "dynamic", "trained together; ranker after the generator on its frozen encoder; or on an encoder of its own"
    )
    ranker_weight: float = setting(1.0, "weight of the ranker's loss beside the generator's", low=0.0)
    validation: float = setting(0.0, "share of the documents held out for early stopping", low=0.0, high=0.5)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors with their optimiser states; time for two CPU cores."""
    names = config.encoders or (config.encoder.encoder,) * config.members
    needs, small = [], small_batches(dataset, config.train, config.steps)
    for size in (EncoderSize.of(peek(name)) for name in names):
        width, is_flat = float(size.width * len(config.encoder.layers)), _is_flat(dataset, config)
        vectors = dataset.n_labels * (width if is_flat else config.bottleneck or width)
        share = 1.0 if is_flat else min(1.0, config.keep * config.tree.max_leaf / dataset.n_labels)
        numbers = Numbers(
            vectors=vectors, scored=share * vectors, frozen=width if config.frozen else 0.0,
            label_texts=config.begin != "zero",
        )  # fmt: skip
        needs.append(forecast_member(dataset, size, numbers, small, config.encoder.max_length))
    return forecast_members(needs)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train generator and ranker on one encoder; once for each member."""
    return fit_members(
        dataset, config.members, config.encoders, job, lambda m, own: _member(dataset, config, m, own, job)
    )


def _member(dataset: Dataset, config: Config, m: int, own: Job, job: Job) -> Member:
    pooling = Pooling(config.encoder.pooling, config.encoder.layers)
    chosen = encoder_of(config.encoder, config.encoders, m)
    shared = own if config.encoders else job  # tokens and frozen views of one encoder serve all
    prepared = prepare(dataset, chosen, shared, dropout=config.encoder_dropout, frozen=config.frozen)
    prepared.transformer.name += f"-{m}" if m else ""
    tree = flat(dataset.n_labels) if _is_flat(dataset, config) else _clusters(dataset, config, own)
    width = prepared.transformer.encoder.view_width(pooling)
    length = config.length if config.encoder.l2 else 0.0
    plans = [LevelPlan(pooling.name, width, dropout=config.dropout, length=length)]
    for above in tree.sizes[:-1]:
        more = {"dropout": config.dropout, "weight": config.ranker_weight, "length": length}
        plans.append(LevelPlan(pooling.name, width, min(config.keep, above), config.bottleneck, **more))
    inputs = prepared.frozen(shared) if config.frozen else prepared.learning(compiled=config.compile)
    if config.negatives != "dynamic" and len(plans) == 2:
        for hook in filter(None, (job.mix, job.penalty)):
            raise ConfigError(f"negatives: '{config.negatives}' has no place for {hook.name}. Set negatives=dynamic.")
        return _static(dataset, config, own, prepared, inputs, tree, plans)
    trained = train_levels(
        dataset, prepared, inputs, tree, plans, _learning(config),
        training=small_batches(dataset, config.train, config.steps), job=own, validation=config.validation,
    )  # fmt: skip
    views = [trained.transformer.view_name(pooling)] * len(plans)
    return [trained.transformer], [as_levels(views, tree, trained.heads, plans)]


def _static(
    dataset: Dataset, config: Config, job: Job, prepared: Prepared, inputs: Inputs, tree: LabelTree,
    plans: list[LevelPlan],
) -> Member:  # fmt: skip
    """Table 5's rivals: the generator first, its clusters noted for every text, then the ranker on these for good."""
    learning, training = _learning(config), small_batches(dataset, config.train, config.steps)
    generator = train_levels(
        of_clusters(dataset, tree), prepared, inputs, flat(tree.sizes[0]), plans[:1], learning,
        training=training, job=job, name="generator",
    )  # fmt: skip
    first = prepared.read_by(generator.transformer)
    frozen = first.frozen(job, "generator-views")
    view = frozen.views(*frozen.load(np.arange(len(dataset))))[plans[0].view].cpu().numpy()
    everything = Candidates.all(len(dataset), tree.sizes[0])
    kept = generator.heads[0].rank(view, everything, Join(), plans[1].keep).padded(plans[1].keep)
    second = first
    if config.negatives == "static_extra":
        own = Transformer.from_part(generator.transformer.to_part())
        own.name += "-ranker"
        second = prepared.read_by(own)
    views = frozen if second is first else second.learning(compiled=config.compile)
    ranker = train_levels(
        dataset, second, views, tree, plans, learning,
        training=training, job=job, fixed=np.maximum(kept, 0), name="ranker",
    )  # fmt: skip
    pooling = Pooling(config.encoder.pooling, config.encoder.layers)
    found = [generator.transformer] if second is first else [generator.transformer, ranker.transformer]
    names = [generator.transformer.view_name(pooling), ranker.transformer.view_name(pooling)]
    return found, [as_levels(names, tree, [generator.heads[0], ranker.heads[1]], plans)]


def _learning(config: Config) -> TreeConfig:
    return TreeConfig(config.learn_encoder, config.learn_heads, loss=config.loss, begin=config.begin, size=config.size)


def _is_flat(dataset: Dataset, config: Config) -> bool:
    if config.clusters == "auto":
        return dataset.n_labels < FEW
    return config.clusters == "none" or dataset.n_labels <= config.tree.max_leaf


def _clusters(dataset: Dataset, config: Config, job: Job) -> LabelTree:
    def make() -> LabelTree:
        X, documents = sparse_view(dataset, config.tfidf, job).X, dataset.documents
        return balanced(pifa(X[documents], dataset.Y[documents]), config.tree, seed=job.seed)

    return tree_stage(job, "tree", make)
