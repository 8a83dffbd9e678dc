"""Astec (WSDM 2021): word vectors learned on a surrogate task, then one classifier per label, trained on shortlists.

Features: tf-idf-weighted sum of a text's word vectors, with a residual layer. Labels: in stage 1 surrogate clusters
(PIFA smoothed by random walks) if there are very many labels, else the labels themselves; in stage 2 the mean embedding
of their documents. Tree: none. Shortlist: the nearest labels by those means (exact, or by inverted lists). Rank: head.
Key idea: the order of training. Word vectors are learned once on the surrogate task and then frozen; the residual layer
and the classifiers are trained on shortlists only, so the cost of a step does not depend on the number of labels.
Score: classifier probability times shortlist probability.

Deviations: word vectors are initialised with an encoder's token embeddings if no file is given (published: fastText);
inverted lists replace HNSW, and there is no second index over texts; scores are multiplied, not added with a weight
(`score=own`: the classifier's alone); there is no fourth module (M4, a re-ranker trained on the shortlists of the
third); clusters are smoothed by walks even if a label has more than 5,000 texts (published: not then); head labels have
one mean like all others (published for the largest data set: 300); biases are initialised with the log odds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from treetop.assemble.label_tree import smoothed_clusters
from treetop.assemble.members import Member, fit_members, member_name
from treetop.assemble.near_labels import Positives, nearest, shortlists
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Floats, Join, LabelTree, Level
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.features.words.bag import COARSE, FINE, NEAR, BagConfig
from treetop.features.words.vectors import WordsConfig
from treetop.labels.graph import WalkConfig
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import train_network
from treetop.network.forecast import EncoderSize, forecast_words
from treetop.network.head import HeadPlan
from treetop.network.network import RowTargets
from treetop.network.prepare import Prepared, prepare_words
from treetop.network.settings import small_batches
from treetop.network.targets import of_clusters
from treetop.network.watch import over_clusters, sampled_job
from treetop.partition.balanced import BalancedConfig
from treetop.partition.flat import flat
from treetop.rank.head import Head
from treetop.rank.text_map import unit
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything
from treetop.shortlist.ivf import Ivf
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample")  # places for augmentations
FEW = 32_000  # labels up to which `auto` searches exactly: inverted lists are slower in batches, no faster for one text


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `astec`."""

    encoder: WordsConfig = setting(WordsConfig(max_length=64), "pretrained word vectors")
    network: BagConfig = setting(BagConfig(), "text encoder on top of the word vectors")
    members: int = setting(1, "ensemble size: members differ in seed, scores are averaged", low=1, high=64)
    surrogate_clusters: int = setting(
        65_536, "surrogate clusters of stage 1; with fewer labels, the labels themselves", low=2
    )
    walk: WalkConfig = setting(WalkConfig(hops=50, restart=0.2), "random walks that smooth the label representations")
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for label clustering")
    shortlist: int = setting(200, "shortlist size: nearest labels per text", low=1, high=10**5)
    index: Literal["auto", "exact", "ivf"] = setting(
        "auto", "shortlist search: exact, or inverted lists (IVF); auto: exact up to 32,000 labels"
    )
    list_size: int = setting(64, "target size of an inverted list", low=1)
    nprobe: int = setting(48, "inverted lists (IVF) probed", low=1)
    freeze_words: bool = setting(True, "freeze word vectors after the surrogate task")
    score: Literal["own", "path"] = setting(
        "path", "classifier probability alone (own), or times the shortlist probability (path)"
    )
    bias: bool = setting(True, "learn a bias per label")
    surrogate_optimizer: AdamConfig = setting(
        AdamConfig(lr=5e-3, weight_decay=0.0), "optimiser of the surrogate classifiers"
    )
    encoder_optimizer: AdamConfig = setting(
        AdamConfig(lr=2.5e-3, weight_decay=0.0), "optimiser of the word vectors in the surrogate task"
    )
    residual_optimizer: AdamConfig = setting(
        AdamConfig(lr=2e-3, weight_decay=0.0), "optimiser of the residual layer in stage 2"
    )
    head_optimizer: AdamConfig = setting(AdamConfig(lr=2e-3, weight_decay=0.0), "optimiser of the label vectors")
    train: TrainConfig = setting(warmed_up(15, 512), "training loop of the surrogate task")
    second_train: TrainConfig = setting(warmed_up(15, 512), "training loop on shortlists")
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    n = dataset.n_labels

    def heads(size: EncoderSize) -> list[HeadPlan]:  # every label has a vector and a mean; a step meets few
        near, labels = _head(NEAR.name, size.width, n), _head(FINE.name, size.width, n)
        return [replace(near, pool=min(n, config.surrogate_clusters)), replace(labels, pool=config.shortlist)]

    return forecast_words(dataset, config, config.train, heads)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Words on surrogates, shortlists of near labels, then residual layer and classifiers; once for each member."""
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    prepared = _surrogate(dataset, config, m, member_job, job)
    positives = Positives.of(dataset)
    level = _near(dataset, config, prepared, positives, member_job)
    words, n = prepared.features, dataset.n_labels
    words.poolings = (FINE,)
    words.encoder.words.requires_grad_(not config.freeze_words)
    job_seen = sampled_job(dataset, member_job)
    blueprint = Blueprint(
        [_head(FINE.name, words.encoder.width, n)],
        flat(n),
        Learning(encoder=config.residual_optimizer, heads=config.head_optimizer, bias=config.bias),
        given=_lists(positives, config, prepared, level, member_job),
        given_held_out=_lists_held_out(config, prepared, level, job_seen),
    )
    inputs, targets = prepared.learning(), RowTargets(positives.Y, positives.relevance)
    training = small_batches(dataset, config.second_train, config.min_steps_per_epoch)
    trained = train_network(
        dataset, prepared, inputs, blueprint, training, job_seen, targets=targets, name="second-train"
    )
    features = trained.features
    features.poolings = (NEAR, FINE)
    same = LabelTree((np.zeros(n, np.int32), np.arange(n, dtype=np.int32)))
    last = Level(
        features.view_name(FINE), Descend.of(same, 1), trained.ranks[0], Join("sigmoid", config.score), config.shortlist
    )
    return [features], [[replace(level, view=features.view_name(NEAR)), last]]


def _head(view: str, width: int, n: int) -> HeadPlan:
    return HeadPlan(view=view, view_width=width, n=n)


def _surrogate(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Prepared:
    """Module 1: word vectors learned on clusters of labels, or on the labels."""
    prepared = prepare_words(
        dataset, config.encoder, ("bag", config.network), (COARSE,),
        name=member_name("words", m), seed=member_job.seed, job=job,
    )  # fmt: skip
    data, job_seen = dataset, member_job
    if dataset.n_labels > config.surrogate_clusters:
        leaf = -(-dataset.n_labels // config.surrogate_clusters)
        tree = smoothed_clusters(
            dataset, config.tfidf, BalancedConfig(max_leaf=leaf, stop_when="gain"), config.walk, member_job
        )
        data, job_seen = of_clusters(dataset, tree), over_clusters(member_job, tree)
    n = data.n_labels
    learning = Learning(encoder=config.encoder_optimizer, heads=config.surrogate_optimizer)
    blueprint = Blueprint([_head(COARSE.name, prepared.features.encoder.width, n)], flat(n), learning)
    inputs, training = prepared.learning(), small_batches(dataset, config.train, config.min_steps_per_epoch)
    trained = train_network(data, prepared, inputs, blueprint, training, job_seen, name="surrogate-train")
    return prepared.with_features(trained.features)


def _near(dataset: Dataset, config: Config, prepared: Prepared, positives: Positives, job: Job) -> Level:
    """Module 2: a label's position is the mean of its documents, or of its other rows if it has none.

    Label texts with the labels they go with (Gandalf) would outnumber most labels' documents, and lie elsewhere.
    """
    documents, others = dataset.documents, dataset.learned & ~dataset.documents
    counts = [np.bincount(positives.Y[rows].indices, minlength=dataset.n_labels) for rows in (documents, others)]

    def make() -> Part:
        vectors = _vectors(prepared)
        means, more = (np.asarray(positives.Y[rows].T @ vectors[rows], np.float32) for rows in (documents, others))
        return Part("stage.means.1", {}, {"means": unit(np.where((counts[0] > 0)[:, None], means, more))})

    means: Floats = np.array(job.stage("means", make).arrays["means"])
    seen = counts[0] + counts[1] > 0
    head = Head(means, np.where(seen, 0.0, -np.inf).astype(np.float32))
    few = config.index == "exact" or (config.index == "auto" and dataset.n_labels <= FEW)
    shortlist: Any = Everything(dataset.n_labels)
    if not few:
        shortlist = Ivf.of(
            means, np.zeros(len(means), np.float32), probe=config.nprobe, size=config.list_size, seed=job.seed
        )
    return Level("near", shortlist, head, Join("sigmoid"), config.shortlist)


def _vectors(prepared: Prepared, texts: Texts | None = None) -> Floats:
    """(rows, width) of all texts, or of others, with the current word vectors, L2-normalised."""
    tokens = None if texts is None else prepared.features.tokenizer.encode(texts)
    return prepared.vectors([NEAR], tokens)[prepared.features.view_name(NEAR)]


def _lists(positives: Positives, config: Config, prepared: Prepared, level: Level, job: Job) -> Any:
    def make() -> Part:
        near = nearest(_vectors(prepared), level, prepared.device)
        return Part("stage.lists.1", {}, {"lists": shortlists(positives, near, config.shortlist)})

    return np.asarray(job.stage("lists", make).arrays["lists"])


def _lists_held_out(config: Config, prepared: Prepared, level: Level, job: Job) -> Any:
    """Shortlists of the documents that every epoch is validated on: their nearest labels."""
    if job.held_out is None:
        return None
    return nearest(_vectors(prepared, job.held_out.texts), level, prepared.device).padded(config.shortlist)
