"""AttentionXML (NeurIPS 2019): a bidirectional LSTM over words, and attention by which every label reads a text.

Features: words + lstm, whose view is a sequence: one state per word. Labels: PIFA. Tree: shallow and wide, or none for
small label sets. Shortlist: descend. Rank: attention (a vector per label weighs the words, shared layers score what it
reads). Key idea: a document has a view for every label, so rare topics in a long text are not averaged away; `treetop
explain` draws the attention. Levels are trained one after the other, coarse to fine, each network starting from the
weights above; weights are averaged over the second half of training (SWA). Score: product of the probabilities.
`members` trains an ensemble with other trees.

Deviations: labels have weights and a bias of their own beside the shared layers (`own_weights=false, bias=false`: as
published), which short texts need, where many labels read the same few words; biases are initialised with the log odds;
word vectors are initialised with an encoder's token embeddings if no GloVe file is given; losses are summed over
candidates (`reduction=mean`: as published); gradients are clipped at a fixed norm instead of the largest of the last
steps; no early stopping by nDCG@5; single process only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from treetop.assemble.label_tree import ClustersConfig, tree_stage
from treetop.assemble.members import Member, fit_members, member_name
from treetop.assemble.staged.handed_down import train_levels
from treetop.assemble.view import sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.features.words.lstm import STATES, LstmConfig
from treetop.features.words.vectors import WordsConfig
from treetop.labels.pifa import pifa
from treetop.model import Model
from treetop.network.build import Learning
from treetop.network.fit import as_levels
from treetop.network.forecast import forecast_words, size_of_words
from treetop.network.head import HeadPlan
from treetop.network.losses.pairs import Reduce
from treetop.network.prepare import prepare_words
from treetop.network.settings import small_batches
from treetop.network.vectors.attention import AttentionPlan
from treetop.partition.balanced import BalancedConfig, at_resolutions, balanced, check_resolutions, sizes_of
from treetop.partition.flat import flat
from treetop.tensors import devices
from treetop.tensors.devices import World
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig

GROUP = "short text, label text"
TUNES = {  # settings that `treetop tune` tries
    "train.epochs": [5.0, 10.0, 15.0],
    "encoder_optimizer.lr": [0.0005, 0.001, 0.002],
    "dropout": [0.3, 0.5],
    "network.hidden": [128, 256, 512],
}


@dataclass(frozen=True, kw_only=True)
class Config(ClustersConfig):
    """Settings of `attentionxml`."""

    encoder: WordsConfig = setting(WordsConfig(max_length=256), "pretrained word vectors")
    network: LstmConfig = setting(LstmConfig(), "text encoder on top of the word vectors")
    members: int = setting(1, "ensemble size: members differ in seed and tree, scores are averaged", low=1, high=64)
    tree: BalancedConfig = setting(
        BalancedConfig(max_leaf=16, shallow=True, stop_when="gain"), "label clustering, without resolutions"
    )
    resolutions: tuple[int, ...] = setting(
        (), "nodes of each level above the labels (powers of two); empty: one level of clusters"
    )
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for label clustering")
    layers: tuple[int, ...] = setting((256,), "dimensions of the layers that all labels share")
    own_weights: bool = setting(True, "labels have weights of their own beside the shared layers")
    dropout: float = setting(0.5, "dropout on the states that labels read", low=0.0, high=0.99)
    bias: bool = setting(True, "learn a bias per label")
    reduction: Reduce = setting("sum", "reduction of a level's loss over its candidates")
    encoder_optimizer: AdamConfig = setting(AdamConfig(lr=1e-3, weight_decay=0.0), "optimiser of word vectors and LSTM")
    head_optimizer: AdamConfig = setting(
        AdamConfig(lr=5e-3, weight_decay=0.0), "optimiser of label vectors and shared layers"
    )
    train: TrainConfig = setting(
        TrainConfig(
            epochs=10.0,
            batch_size=256,
            schedule=ScheduleConfig(kind="cosine", warmup=0.1),
            clip_norm=5.0,
            average="swa",
            average_from=0.5,
            average_every=10,
        ),
        "training loop of each level",
    )
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )

    def __post_init__(self) -> None:
        check_resolutions(self.resolutions)

    def sizes(self, labels: int) -> list[int]:
        """Nodes on each level of the tree over so many labels."""
        if self.is_flat(labels):
            return [labels]
        return [*self.resolutions, labels] if self.resolutions else sizes_of(labels, self.tree)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words, LSTM and label vectors with their optimiser states; a network per level stays in the model."""
    training, sizes = small_batches(dataset, config.train, config.min_steps_per_epoch), config.sizes(dataset.n_labels)
    tokens = min(len(dataset.texts.blob) / 5.0 / max(1, len(dataset)), float(config.encoder.max_length))
    needs = forecast_words(dataset, config, training, lambda size: _heads(config, sizes, tokens))
    words = 4.0 * size_of_words(config.encoder).parameters * (len(sizes) - 1) * config.members
    return replace(needs, memory=needs.memory + words, model=needs.model + words, time=needs.time * len(sizes))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Grow the tree, then train a network for each of its levels; once for each member."""
    World.join(devices.pick(job.device)).require_one_process("attentionxml")
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    tree = tree_stage(member_job, "tree", lambda: _tree(dataset, config, member_job))
    names = [member_name(f"level-{t}", m) for t in range(len(tree.sizes))]
    prepared = prepare_words(
        dataset, config.encoder, ("lstm", config.network), (STATES,), name=names[0], seed=member_job.seed, job=job
    )
    plans = _heads(config, tree.sizes, float(prepared.tokens.lengths.mean()))
    learning = Learning(
        encoder=config.encoder_optimizer, heads=config.head_optimizer, reduce=config.reduction, bias=config.bias
    )
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    features, ranks = train_levels(dataset, prepared, tree, plans, learning, training, member_job, names=names)
    views = [item.view_name(STATES) for item in features]
    return features, [as_levels(views, tree, ranks, plans)]


def _tree(dataset: Dataset, config: Config, job: Job) -> LabelTree:
    if config.is_flat(dataset.n_labels):
        return flat(dataset.n_labels)
    X, documents = sparse_view(dataset, config.tfidf, job).X, dataset.documents
    Z = pifa(X[documents], dataset.Y[documents])
    if config.resolutions:
        return at_resolutions(Z, config.resolutions, config.tree.options, seed=job.seed)
    return balanced(Z, replace(config.tree, shallow=True), seed=job.seed)


def _heads(config: Config, sizes: Sequence[int], tokens: float) -> list[HeadPlan]:
    """One head per level: all nodes of the first, then the children of the best nodes above."""
    read = AttentionPlan(hidden=config.layers, own=config.own_weights, tokens=tokens)
    width = 2 * config.network.hidden
    first = HeadPlan(view=STATES.name, view_width=width, n=sizes[0], dropout=config.dropout, attention=read)
    plans = [first]
    for above, n in pairwise(sizes):
        keep = config.kept(n, above)
        below = replace(read, candidates=keep * -(-n // above))
        plans.append(replace(first, n=n, keep=keep, attention=below))
    return plans
