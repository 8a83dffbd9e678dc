"""From texts and label texts to a trained encoder and heads on pools of labels; and the model's one level."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from treetop.assemble.dual.index import search_index
from treetop.assemble.dual.pairs import known_of
from treetop.assemble.dual.search import SAMPLE as SAMPLED
from treetop.assemble.dual.search import by_head, searched
from treetop.assemble.dual.settings import DualEncoderConfig, IndexConfig, SearchConfig
from treetop.assemble.held_out.scores import unfitted_fusion
from treetop.core import forecast
from treetop.core.card import UNSAVED
from treetop.core.dataset import Dataset
from treetop.core.errors import InputError
from treetop.core.forecast import Forecast
from treetop.core.store import Part
from treetop.core.types import Join, Level
from treetop.core.work import Job
from treetop.features.encoder.sources import read_encoder_config
from treetop.features.encoder.tokens import Tokens, tokenise
from treetop.features.encoder.towers import Towers
from treetop.labels.text import label_words, warn_wordless
from treetop.model import Model
from treetop.network.fit import all_or_none, cut, report
from treetop.network.forecast import (
    EncoderSize,
    batch_mean,
    count,
    forecast_member,
    gpu_memory,
    tokens_of_label,
    within_room,
)
from treetop.network.head import HeadPlan
from treetop.network.inputs import Encoded, Inputs
from treetop.network.mining import mine as mine_labels
from treetop.network.pool import PoolNetwork
from treetop.network.pool_heads import ClassifierConfig, DualConfig, FreeHead, PoolHead, TextHead
from treetop.network.prepare import Prepared, prepare
from treetop.network.samplers.clustered import Mining, PoolPlan
from treetop.network.samplers.pools import PoolConfig, Pools, PoolTargets
from treetop.network.settings import small_batches
from treetop.network.targets import log_odds
from treetop.network.watch import Watched, watched
from treetop.rank.dual import Dual
from treetop.tensors import devices
from treetop.tensors.devices import World
from treetop.train.batches import Rows
from treetop.train.loop import train
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig

POOLING = 2.4  # what pools and mining add to the heads' own products, on a CPU (benchmarks/results/forecasts.jsonl)
SAMPLE = 2000  # documents sampled to estimate the distribution of vectors


@dataclass(frozen=True, kw_only=True)
class DualPlan:
    """Heads on one encoder and the batches they learn from, before anything is built; None: no such head."""

    dual: DualConfig | None
    classifier: ClassifierConfig | None = None
    pool: PoolConfig
    encoder: AdamConfig
    heads: AdamConfig
    vectors: AdamConfig
    train: TrainConfig  # with the batches that are really taken
    validation: float = 0.0

    @classmethod
    def of(
        cls, config: DualEncoderConfig, dataset: Dataset, classifier: ClassifierConfig | None = None,
        vectors: AdamConfig | None = None,
    ) -> DualPlan:  # fmt: skip
        """The plan of a recipe's settings; heads without weight are left out."""
        return cls(
            dual=config.dual if config.dual.weight > 0 else None,
            classifier=classifier if classifier is not None and classifier.weight > 0 else None,
            pool=config.pool, encoder=config.encoder_optimizer, heads=config.head_optimizer,
            vectors=vectors or config.head_optimizer,
            train=small_batches(dataset, config.train, config.min_steps_per_epoch),
            validation=config.validation,
        )  # fmt: skip

    def with_pool(self, size: int) -> DualPlan:
        """The same with pools of at most this many labels."""
        return replace(self, pool=replace(self.pool, size=min(size, self.pool.size or size)))

    @property
    def low(self) -> bool:
        """Whether free label vectors are stored in bfloat16."""
        return self.classifier is not None and self.classifier.label_memory == "low"

    def heads_over(self, width: int, n: int) -> list[HeadPlan]:
        """The heads as forecasts count them, over an encoder's view of dimension `width` and `n` labels."""
        pool, c = min(self.pool.size or n, n), self.classifier
        first = HeadPlan(view="", view_width=width, n=n, name="dual", pool=pool)
        heads = [] if self.dual is None else [replace(first, dimension=self.dual.projection_dim)]
        if c is not None:
            every = 0 if c.labels == "all" else pool
            heads.append(replace(first, name="classifier", dimension=c.projection_dim, pool=every))
        return heads

    def build(self, width: int, n: int, device: torch.device, *, world: World, seed: int) -> list[PoolHead]:
        """The heads over an encoder's view of dimension `width`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            heads: list[PoolHead] = [] if self.dual is None else [TextHead(self.dual, width)]
            if self.classifier is not None:
                free = FreeHead(self.classifier, width)
                free.build_table(n, self.vectors, device, batch=self.train.batch_size, world=world, seed=seed)
                heads.append(free)
        return heads


@dataclass(frozen=True)
class Trained:
    """The text encoder with its heads, and the label vectors."""

    features: Towers
    rank: Dual


def fit_dual(dataset: Dataset, config: DualEncoderConfig, plan: DualPlan, job: Job) -> Model:
    """The whole training for recipes with one stage."""
    prepared = prepare_dual(dataset, config, job)
    inputs = prepared.frozen(job) if config.frozen else prepared.learning(compiled=config.compile)
    search = (
        config.search
        if isinstance(config.search, SearchConfig)
        else SearchConfig(logit_adjustment=config.search.logit_adjustment)
    )
    trained = train_dual(dataset, prepared, inputs, plan, search, job)
    return as_model(dataset, trained.features, trained.rank, config.search, job)


def prepare_dual(dataset: Dataset, config: DualEncoderConfig, job: Job) -> Prepared:
    """The encoder with the tokens of all documents, followed by those of all labels."""
    if config.dual.weight > 0:
        warn_wordless(dataset.labels, dataset.name)
    prepared = prepare(dataset, config.encoder, job, dropout=config.encoder_dropout, frozen=config.frozen)
    names = tokenise(label_words(dataset.labels), prepared.features.tokenizer, job, "label-tokens")
    return replace(prepared, tokens=Tokens.concat([prepared.tokens, names]))


def train_dual(
    dataset: Dataset, prepared: Prepared, inputs: Inputs, plan: DualPlan, search: SearchConfig, job: Job, *,
    name: str = "train",
) -> Trained:  # fmt: skip
    """Train the heads (and the encoder, unless `inputs` come from a frozen one); one stage, with checkpoints inside."""
    world = World.join(prepared.device)

    def make() -> Part:
        rows, held_out = cut(dataset, plan.validation, job.seed)
        known = known_of(dataset).only(rows)  # whatever is drawn, it is not from held-out documents
        rows = rows[np.diff(known.indptr)[rows] > 0]  # nothing to learn from the others
        if len(rows) == 0:
            raise InputError("training: no text is left with a label. Give more texts, or fewer filter pairs.")
        seen = watched(dataset, prepared, inputs, held_out, job)
        task, batches = _task(dataset, prepared, inputs, plan, known, rows, seen, job.seed, world)
        if isinstance(inputs, Encoded):
            inputs.use_fast_layers()
        if prepared.warmup is not None:
            prepared.warmup.wait()
        report(train(task, batches, _within_card(batches, task, plan), world=world, work=job.work, name=name))
        transformer = prepared.features.move(torch.device("cpu"))  # in float32
        features, rank = searched(task, dataset, transformer, plan.classifier, search, prepared.device, job.seed)
        return Part("stage.towers.1", {}, {}, {"features": features.to_part(), "rank": rank.to_part()})

    part = all_or_none(job, f"{name}ed", world, make)
    return Trained(Towers.from_part(part.parts["features"]), Dual.from_part(part.parts["rank"]))


def as_model(dataset: Dataset, features: Towers, rank: Dual, index: IndexConfig, job: Job) -> Model:
    """One level over the sum of all heads; or a member per head, whose fusion is learned on held-out documents."""
    learnt = isinstance(index, SearchConfig) and index.fusion == "learnt" and job.held_out is not None
    heads = {"search": rank}
    if learnt and type(rank) is Dual and len(rank.widths) > 1:
        heads = {f"search-{head}": half for head, half in by_head(rank, features, dataset).items()}
    members, said = list[list[Level]](), dict[str, str]()
    for name, head in heads.items():
        view = features.view_name(name)
        shortlist, ordered, found = search_index(dataset, features, view, head, index, job.seed)
        members.append([Level(view, shortlist, ordered, Join("sigmoid"))])
        said[name] = found
    fusion = None if len(members) == 1 else unfitted_fusion([(1, "average")] * len(members))
    model = Model.over(dataset, {features.name: features}, members)
    return replace(model, fusion=fusion, card=replace(UNSAVED, data=said))


def forecast_dual(dataset: Dataset, config: DualEncoderConfig, plan: DualPlan) -> Forecast:
    """Encoder, tokens and label vectors with their optimiser states; a trained encoder reads label texts too."""
    size = EncoderSize.of(read_encoder_config(config.encoder.model))
    view = size.width * len(config.encoder.layers)
    heads = plan.heads_over(view, dataset.n_labels)
    low = [head for head in heads if head.name == "classifier" and plan.low]
    counts = replace(
        count(heads), low=count(low).vectors, sampled=SAMPLED,
        label_texts=1.0 if config.frozen else 2.0,  # before training, and for the search
        frozen=view * config.encoder.kept_windows(dataset.texts) if config.frozen else 0.0,
        pool=heads[0].pool if plan.dual is not None and not config.frozen else 0,
    )  # fmt: skip
    needs = forecast_member(dataset, size, counts, plan.train, config.encoder.most_tokens)
    speed = devices.training_speed(devices.pick(forecast.device()))
    name = tokens_of_label(dataset, config.encoder.most_tokens)
    read = name * counts.pool * plan.train.epochs * max(1.0, len(dataset) / plan.train.batch_size)
    heads_alone = POOLING * 6.0 * plan.train.epochs * len(dataset) * counts.scored if config.frozen else 0.0
    return replace(needs, time=needs.time + (6.0 * read * size.layers + heads_alone) / speed)


# --- before training ------------------------------------------------------------------------------------------------


def _task(
    dataset: Dataset, prepared: Prepared, inputs: Inputs, plan: DualPlan, known: PoolTargets, rows: Rows,
    seen: Watched | None, seed: int, world: World,
) -> tuple[PoolNetwork, PoolPlan]:  # fmt: skip
    pool = plan.pool
    queries = np.unique(known.indices) if pool.queries == "labels" else rows
    mining = Mining(len(queries), len(dataset), pool)
    view = prepared.features.poolings[0]
    width = prepared.features.encoder.view_width(view)
    task = PoolNetwork(
        inputs, dataset, known, plan.build(width, dataset.n_labels, inputs.device, world=world, seed=seed), mining,
        view=view.name, encoder=plan.encoder, learn=plan.heads, seed=seed, world=world, watched=seen,
    )  # fmt: skip
    if plan.classifier is not None and plan.classifier.init == "text":
        with devices.one_cpu_thread():
            start_at_texts(task, rows, seed)

    def mine(clusters: bool, negatives: bool) -> tuple[Tensor | None, Tensor | None]:
        vectors, mined = mine_labels(task, rows, negatives=pool.kept if negatives else 0, depth=pool.mine_depth)
        lists = None
        if mined is not None:
            lists = torch.full((len(dataset), pool.kept), -1, dtype=torch.int32)
            lists[torch.from_numpy(rows)] = mined
        if clusters and pool.queries == "labels":
            vectors = task.read(len(dataset) + queries, "dual")
        return vectors if clusters else None, lists

    batches = PoolPlan(
        queries, min(plan.train.batch_size, max(1, len(queries))), seed, rank=world.rank, size=world.size,
        pools=Pools(known, pool, seed), mining=mining, config=pool, mine=mine,
    )  # fmt: skip
    return task, batches


@torch.no_grad()
def start_at_texts(task: PoolNetwork, rows: Rows, seed: int) -> None:
    """Initialise the classifier's label vectors with the encoded label texts.

    The cosine with such a vector is multiplied by `init_scale` in a logit. Biases make up for the mean text, and where
    labels are judged one by one they start at the log odds.
    """
    head = task.head("classifier")
    if not isinstance(head, FreeHead) or head.table is None:
        return
    c = head.config
    sample = np.sort(np.random.default_rng([seed, 3]).permutation(rows)[:SAMPLE])
    H, V = task.read(sample, "classifier"), task.read(task.names, "classifier")
    bias = torch.zeros(task.n_labels, device=task.device)
    if not c.cosine:
        centre = H.mean(0)
        # An encoder whose texts all point one way would make vectors so long that they spoil it.
        spread = torch.maximum((H - centre).norm(dim=1).mean(), 0.5 * H.norm(dim=1).mean()).clamp_min(1e-6)
        V -= V.mean(0)  # in place: all labels' vectors may be most of a card
        V /= V.norm(dim=1, keepdim=True).clamp_min(1e-12)
        V *= c.init_scale / (spread * c.scale)
        bias -= c.scale * (V @ centre)
    if c.log_odds or c.loss.bce_weight > 0:
        odds = log_odds(task.Y, np.arange(task.n_labels), task.n_labels)
        bias += torch.from_numpy(odds).to(task.device)
    head.table.init(V, bias)


def _within_card(batches: PoolPlan, task: PoolNetwork, plan: DualPlan) -> TrainConfig:
    """The number of micro-batches that fits the GPU's free memory, logged before the first step."""
    training, inputs, c = plan.train, task.inputs, plan.classifier
    if not isinstance(inputs, Encoded) or task.device.type != "cuda":
        return training
    size = EncoderSize.of(inputs.encoder.settings)
    pool = min(plan.pool.size or task.n_labels, task.n_labels) if task.labels_read else 0
    tokens = batches.batch * batch_mean(inputs.store.counts(np.arange(task.n)))
    tokens += pool * batch_mean(inputs.store.counts(task.names))
    there = c is not None and not c.offload
    free = [HeadPlan(view="", view_width=size.width, n=task.n_labels if there else 0)]
    read = 4.0 * size.width * (task.n + task.n_labels)  # all texts and labels, when hard negatives are searched
    inputs_bytes = 8.0 * len(inputs.store.ids) + 40.0 * batches.batch * pool + read

    def needed(parts: int) -> float:
        return gpu_memory(
            size, free, rows=batches.batch // parts, tokens=tokens / parts, data=inputs_bytes, low=plan.low
        )

    return within_room(training, batches.batch, task.device, needed)
