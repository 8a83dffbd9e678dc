"""From texts, labels and a graph of labels to two trained levels; what DECAF, ECLARE and InceptionXML-LF share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treetop.assemble.label_parts import Makeup
from treetop.assemble.label_text_tree import Blocks, LabelTextTree
from treetop.assemble.members import small_batches
from treetop.assemble.neural_fit import Prepared, as_levels, learn, once, plan_of
from treetop.assemble.neural_forecast import Numbers, forecast_member, forecast_members, size_of_words
from treetop.assemble.neural_hooks import Hooks
from treetop.assemble.neural_tree import LevelPlan, TreeConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.store import Part
from treetop.core.types import Combine, Floats, LabelTree, Level
from treetop.core.work import Job
from treetop.features.bag import BagConfig
from treetop.features.tfidf import TfidfConfig
from treetop.features.vectors import WordsConfig
from treetop.features.words import Words
from treetop.labels.text import tell_wordless
from treetop.partition.balanced import BalancedConfig
from treetop.rank.head import Head
from treetop.train import devices
from treetop.train.devices import ALONE, World
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig


@dataclass(frozen=True, kw_only=True)
class BagsConfig:
    """Settings of bags of words whose label vectors are made from label texts, too."""

    encoder: WordsConfig = setting(WordsConfig(max_length=64), "where word vectors begin")
    network: BagConfig = setting(BagConfig(), "the network over them")
    members: int = setting(1, "models that differ in seed and clusters, their scores averaged", low=1, high=64)
    tree: BalancedConfig = setting(BalancedConfig(max_leaf=10, shallow=True, rule="gain"), "how labels are clustered")
    tfidf: TfidfConfig = setting(TfidfConfig(), "what clusters are made from")
    keep: int = setting(100, "clusters whose labels are ranked", low=1)
    learn_encoder: AdamConfig = setting(AdamConfig(lr=2.5e-3, weight_decay=0.0), "how words and blocks learn")
    learn_heads: AdamConfig = setting(AdamConfig(lr=4e-3, weight_decay=0.0), "how free label vectors learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=15, batch=512, schedule=ScheduleConfig(kind="linear", warmup=0.05)), "the loop"
    )
    steps: int = setting(100, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)


def forecast_bags(dataset: Dataset, config: BagsConfig, parts: int) -> Forecast:
    """Words and label vectors (made of so many `parts`) with their optimiser states; time for two CPU cores."""
    size = size_of_words(config.encoder)
    vectors = float(dataset.n_labels * size.width)
    scored = min(vectors, float(config.keep * config.tree.max_leaf * size.width))
    training = small_batches(dataset, config.train, config.steps)
    numbers = Numbers(vectors=vectors, scored=scored, made=parts * min(vectors, training.batch * scored))
    need = forecast_member(dataset, size, numbers, training, config.encoder.max_length)
    return forecast_members([need] * config.members)


@dataclass(frozen=True, eq=False)
class Made:
    """Words and heads of a training, and what a second one begins with."""

    words: Words
    heads: list[Head]
    blocks: Blocks
    texts: Floats | None  # (labels, width) the parts made from label texts


def check_labels(dataset: Dataset, job: Job, recipe: str) -> None:
    """Say what is missing in the labels; refuse several processes."""
    tell_wordless(dataset.labels, recipe)
    World.join(devices.pick(job.device)).alone(recipe)


def train_label_texts(
    dataset: Dataset, prepared: Prepared, tree: LabelTree, plans: Sequence[Makeup], config: TreeConfig, *,
    keep: int, training: TrainConfig, job: Job, name: str = "train", before: Made | None = None, again: bool = False,
) -> Made:  # fmt: skip
    """Train words, blocks and free vectors over the rows of `dataset`; one stage, with checkpoints inside.

    `before` is an earlier training whose blocks go on learning; `again` says that another will come.
    """

    def make() -> Part:
        task = LabelTextTree(
            prepared.learning(), dataset, tree, plans, config, tokenizer=prepared.transformer.tokenizer,
            documents=prepared.tokens, keep=keep, seed=job.seed, hooks=Hooks(job.mix, job.penalty),
            blocks=before.blocks if before else None,
        )  # fmt: skip
        plan = plan_of(prepared, np.flatnonzero(dataset.learned), training, job.seed, ALONE)
        more = (lambda: {"texts": task.text_vectors(), **task.blocks()}) if again else None
        return learn(prepared, task, plan, training, world=ALONE, job=job, name=name, more=more)

    part = once(job, f"{name}ed", ALONE, make)
    heads = [Head.from_part(part.parts[f"level-{t:02d}"]) for t in range(2)]
    arrays = dict(part.arrays)
    texts = arrays.pop("texts", None)
    return Made(Words.from_part(part.parts["encoder"]), heads, arrays, texts)


def two_levels(
    made: Made, tree: LabelTree, plans: Sequence[Makeup], keep: int, combine: Combine = "path"
) -> list[Level]:
    """Clusters, then the labels of the best, as a model has them."""
    views = [made.words.name + "/" + plan.view for plan in plans]
    widths = [head.view_width for head in made.heads]
    shape = [LevelPlan(plans[0].view, widths[0]), LevelPlan(plans[1].view, widths[1], keep)]
    return as_levels(views, tree, made.heads, shape, combine)
