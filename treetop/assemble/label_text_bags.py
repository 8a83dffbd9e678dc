"""What DECAF and ECLARE share: a bag-of-words encoder, and label vectors composed of parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treetop.assemble.members import Member, member_name
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.types import Combine, LabelTree, Level
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.features.words.bag import DOCUMENT, BagConfig
from treetop.features.words.vectors import WordsConfig
from treetop.labels.text import label_words, warn_wordless
from treetop.network.build import Blueprint, LabelWords, Learning
from treetop.network.fit import Trained, as_levels, train_network
from treetop.network.forecast import forecast_words
from treetop.network.head import HeadPlan
from treetop.network.prepare import Prepared, prepare_words
from treetop.network.settings import small_batches
from treetop.network.vectors.parts import Blocks, PartsPlan
from treetop.partition.balanced import BalancedConfig, sizes_of
from treetop.tensors import devices
from treetop.tensors.devices import World
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up


@dataclass(frozen=True, kw_only=True)
class BagsConfig:
    """Settings of bag-of-words models whose label vectors are also composed from label texts."""

    encoder: WordsConfig = setting(WordsConfig(max_length=64), "pretrained word vectors")
    network: BagConfig = setting(BagConfig(), "text encoder on top of the word vectors")
    members: int = setting(1, "ensemble size: members differ in seed and clusters, scores are averaged", low=1, high=64)
    tree: BalancedConfig = setting(BalancedConfig(max_leaf=10, shallow=True, stop_when="gain"), "label clustering")
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for label clustering")
    beam: int = setting(100, "beam: clusters whose labels are ranked", low=1)
    encoder_optimizer: AdamConfig = setting(
        AdamConfig(lr=2.5e-3, weight_decay=0.0), "optimiser of word vectors and residual blocks"
    )
    head_optimizer: AdamConfig = setting(AdamConfig(lr=4e-3, weight_decay=0.0), "optimiser of the free label vectors")
    train: TrainConfig = setting(warmed_up(15, 512), "training loop")
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )


def forecast_bags(dataset: Dataset, config: BagsConfig, parts: PartsPlan) -> Forecast:
    """Memory of word and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    n, view = dataset.n_labels, DOCUMENT.name
    sizes = sizes_of(n, config.tree) if n > config.tree.max_leaf else [1, n]
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    return forecast_words(
        dataset, config, training, lambda size: two_heads(view, view, size.width, sizes, config.beam, parts, parts)
    )


def prepare_bag(dataset: Dataset, config: BagsConfig, m: int, member_job: Job, job: Job) -> Prepared:
    """The m-th member's bag of words, whose vocabulary includes the label texts."""
    return prepare_words(
        dataset,
        config.encoder,
        ("decaf", config.network),
        (DOCUMENT,),
        name=member_name("words", m),
        seed=member_job.seed,
        job=job,
        more=label_words(dataset.labels),
    )


def train_bag(
    dataset: Dataset, config: BagsConfig, prepared: Prepared, tree: LabelTree, clusters: PartsPlan, labels: PartsPlan,
    job: Job, *, bias: bool = True,
) -> Member:  # fmt: skip
    """Train word vectors, blocks and free vectors of both levels jointly."""
    view, width = DOCUMENT.name, prepared.features.encoder.width
    plans = two_heads(view, view, width, tree.sizes, config.beam, clusters, labels)
    learning = Learning(encoder=config.encoder_optimizer, heads=config.head_optimizer, bias=bias)
    blueprint = Blueprint(plans, tree, learning, words=words_of(prepared))
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    trained = train_network(dataset, prepared, prepared.learning(), blueprint, training, job)
    return [trained.features], [two_levels(trained, tree, plans)]


def two_heads(
    clusters_view: str, labels_view: str, width: int, sizes: Sequence[int], keep: int, clusters: PartsPlan,
    labels: PartsPlan, *, dropouts: tuple[float, float] = (0.0, 0.0),
) -> list[HeadPlan]:  # fmt: skip
    """A head over all clusters and one over the labels of the best clusters; vectors of both are composed of parts."""
    return [
        HeadPlan(
            view=clusters_view, view_width=width, n=sizes[0], name="clusters", parts=clusters, dropout=dropouts[0]
        ),
        HeadPlan(
            view=labels_view, view_width=width, n=sizes[1], keep=min(keep, sizes[0]), parts=labels, dropout=dropouts[1]
        ),
    ]


def words_of(prepared: Prepared, before: Blocks | None = None) -> LabelWords:
    """The words of label texts, from which label vectors are composed."""
    return LabelWords(prepared.features.tokenizer, prepared.tokens, prepared.features.encoder, before)


def two_levels(trained: Trained, tree: LabelTree, plans: Sequence[HeadPlan], combine: Combine = "path") -> list[Level]:
    """The trained heads as levels: clusters, then the labels of the best ones."""
    views = [f"{trained.features.name}/{plan.view}" for plan in plans]
    return as_levels(views, tree, trained.ranks, plans, combine)


def check_labels(dataset: Dataset, job: Job, recipe: str) -> None:
    """Warn if labels have no texts; refuse several processes."""
    warn_wordless(dataset.labels, recipe)
    World.join(devices.pick(job.device)).require_one_process(recipe)
