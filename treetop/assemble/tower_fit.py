"""From texts and label texts to a trained dual encoder: tokens, batches, training, label vectors, a model."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from treetop.assemble.inputs import Encoded, Inputs
from treetop.assemble.members import small_batches
from treetop.assemble.neural_fit import Prepared, cut, once, prepare, say
from treetop.assemble.neural_forecast import EncoderSize, Levels, Numbers, forecast_member, gpu_memory, within_room
from treetop.assemble.neural_start import log_odds
from treetop.assemble.tower_data import known_of
from treetop.assemble.tower_heads import TowersConfig
from treetop.assemble.tower_search import searched
from treetop.assemble.two_tower import TwoTower
from treetop.core.dataset import Dataset
from treetop.core.errors import InputError
from treetop.core.forecast import Forecast
from treetop.core.store import Part
from treetop.core.types import Join, Level, Shortlist
from treetop.core.work import Job
from treetop.features.sources import peek
from treetop.features.tokens import Tokens, tokenise
from treetop.features.towers import Towers
from treetop.labels.text import label_words, tell_wordless
from treetop.model import Model
from treetop.rank.dual import Dual
from treetop.shortlist.ann import Ann
from treetop.shortlist.everything import Everything
from treetop.shortlist.graph import Graph
from treetop.tensors import devices
from treetop.tensors.devices import World
from treetop.train.batches import Rows
from treetop.train.clustered import Mining, PoolPlan
from treetop.train.loop import train
from treetop.train.pools import Known, Pools
from treetop.train.task import TrainConfig

SAMPLE = 2000  # documents that show where vectors lie
MANY = 200_000  # labels above which only near lists of them are looked through


@dataclass(frozen=True)
class Trained:
    """What texts become, and the label vectors they meet."""

    features: Towers
    rank: Dual


def fit_towers(dataset: Dataset, config: TowersConfig, job: Job) -> Model:
    """The whole way for recipes of one stage."""
    prepared = prepare_towers(dataset, config, job)
    inputs = prepared.frozen(job) if config.frozen else prepared.learning(compiled=config.compile)
    trained = train_towers(dataset, prepared, inputs, config, job=job)
    return as_model(dataset, trained.features, trained.rank, config, job)


def prepare_towers(dataset: Dataset, config: TowersConfig, job: Job) -> Prepared:
    """The encoder with the tokens of all documents and, behind them, of all labels."""
    if config.dual.weight > 0:
        tell_wordless(dataset.labels, dataset.name)
    made = prepare(dataset, config.encoder, job, dropout=config.encoder_dropout, frozen=config.frozen)
    names = tokenise(label_words(dataset.labels), made.transformer.tokenizer, job, "label-tokens")
    return replace(made, tokens=Tokens.concat([made.tokens, names]))


def train_towers(
    dataset: Dataset, prepared: Prepared, inputs: Inputs, config: TowersConfig, *, job: Job, name: str = "train"
) -> Trained:
    """Train the heads (and the encoder, unless `inputs` are of a frozen one); one stage, with checkpoints inside."""
    world = World.join(prepared.device)
    config = replace(config, train=small_batches(dataset, config.train, config.steps))

    def make() -> Part:
        known = known_of(dataset)
        rows, held_out = cut(dataset, config.validation, job.seed)
        known = known.only(rows)  # whatever is drawn, it is not from held-out documents
        rows = rows[np.diff(known.indptr)[rows] > 0]  # nothing to learn from the others
        if len(rows) == 0:
            raise InputError("training: no text is left with a label. Give more texts, or fewer filter pairs.")
        task, plan = _task(dataset, inputs, known, rows, held_out, config, job.seed, world, prepared)
        if isinstance(inputs, Encoded):
            inputs.hasten()
        if prepared.warmup is not None:
            prepared.warmup.wait()
        say(train(task, plan, _within_card(plan, task, config), world=world, work=job.work, name=name))
        transformer = prepared.transformer.to(torch.device("cpu"))  # in float32
        features, rank = searched(task, dataset, transformer, config, prepared.device, job.seed)
        return Part("stage.towers.1", {}, {}, {"features": features.to_part(), "rank": rank.to_part()})

    part = once(job, f"{name}ed", world, make)
    return Trained(Towers.from_part(part.parts["features"]), Dual.from_part(part.parts["rank"]))


def as_model(dataset: Dataset, features: Towers, rank: Dual, config: TowersConfig, job: Job) -> Model:
    """One level: search over all labels, or over the near ones where there are many."""
    near, search = config.search.near, config.search
    if near == "auto":
        near = "all" if dataset.n_labels <= MANY else "graph" if importlib.util.find_spec("faiss") else "lists"
    shortlist: Shortlist = Everything(dataset.n_labels)
    if near == "graph":
        shortlist = Graph.of(rank.weight, rank.bias, keep=search.keep, effort=search.effort)
    elif near == "lists":
        lists = Ann.of(rank.weight, rank.bias, probe=search.probe, seed=job.seed)
        shortlist, rank = lists, rank.ordered(lists.members)
    level = Level(features.view_name(), shortlist, rank, Join("sigmoid"))
    return Model.over(dataset, {features.name: features}, [[level]])


def forecast_towers(dataset: Dataset, config: TowersConfig) -> Forecast:
    """Encoder, tokens and label vectors with their optimiser states; a learning encoder reads a pool's labels too."""
    size, n, c = EncoderSize.of(peek(config.encoder.encoder)), dataset.n_labels, config.classifier
    view = float(size.width * len(config.encoder.layers))
    width, dual = (c.dimension or view) if c.weight > 0 else 0.0, config.dual.dimension or view
    pool = min(config.pool.size or n, n)
    numbers = Numbers(
        vectors=n * (width + dual), scored=pool * dual + (n if c.labels == "all" else pool) * width,
        low=n * width if c.memory == "low" else 0.0, frozen=view if config.frozen else 0.0,
        pool=pool if config.dual.weight > 0 and not config.frozen else 0,
    )  # fmt: skip
    training = small_batches(dataset, config.train, config.steps)
    made = forecast_member(dataset, size, numbers, training, config.encoder.max_length)
    read = 6.0 * numbers.pool * training.epochs * max(1.0, len(dataset) / training.batch)
    return replace(made, time=made.time + 6.0 * read * size.layers / 1e11)


# --- before training ------------------------------------------------------------------------------------------------


def _task(
    dataset: Dataset, inputs: Inputs, known: Known, rows: Rows, held_out: Rows, config: TowersConfig, seed: int,
    world: World, prepared: Prepared,
) -> tuple[TwoTower, PoolPlan]:  # fmt: skip
    pool = config.pool
    queries = np.unique(known.indices) if pool.side == "labels" else rows
    mining = Mining(len(queries), len(dataset), pool)
    view = prepared.transformer.poolings[0]
    task = TwoTower(
        inputs, dataset, known, config, view=view.name, width=prepared.transformer.encoder.view_width(view),
        seed=seed, world=world, held_out=held_out, mining=mining,
    )  # fmt: skip
    if config.classifier.weight > 0 and config.classifier.vectors == "text":
        with devices.one_cpu_thread():
            begin(task, rows, seed)

    def look(clusters: bool, negatives: bool) -> tuple[Tensor | None, Tensor | None]:
        vectors, found = task.look(rows, negatives)
        lists = None
        if found is not None:
            lists = torch.full((len(dataset), pool.kept), -1, dtype=torch.int32)
            lists[torch.from_numpy(rows)] = found
        if clusters and pool.side == "labels":
            vectors = task.read(len(dataset) + queries, "dual")[0]
        return _agreed(vectors, world) if clusters else None, None if lists is None else _agreed(lists, world)

    plan = PoolPlan(
        queries, min(config.train.batch, max(1, len(queries))), seed, rank=world.rank, size=world.size,
        pools=Pools(known, pool, seed), mining=mining, config=pool, look=look,
    )  # fmt: skip
    return task, plan


def _agreed(found: Tensor, world: World) -> Tensor:
    """What the first process found, in all of them: bits of a GPU may differ."""
    if world.size == 1:
        return found
    held = found.cpu().clone()
    return world.sum(held if world.rank == 0 else held.zero_())


@torch.no_grad()
def begin(task: TwoTower, rows: Rows, seed: int) -> None:
    """Let the classifier's label vectors begin at what the encoder makes of the label texts.

    A cosine with such a vector counts `size` times in a margin. Biases make up for the mean text, and where labels are
    judged one by one they begin at the log odds.
    """
    c, table = task.config.classifier, task.table
    if table is None:
        return
    sample = np.sort(np.random.default_rng([seed, 3]).permutation(rows)[:SAMPLE])
    H, V = (task.read(some, "classifier")[1] for some in (sample, task.n + np.arange(task.n_labels)))
    bias = torch.zeros(task.n_labels, device=task.device)
    if not c.unit:
        centre = H.mean(0)
        # An encoder whose texts all point one way would make vectors so long that they spoil it.
        spread = torch.maximum((H - centre).norm(dim=1).mean(), 0.5 * H.norm(dim=1).mean()).clamp_min(1e-6)
        V -= V.mean(0)  # in place: all labels' vectors may be most of a card
        V /= V.norm(dim=1, keepdim=True).clamp_min(1e-12)
        V *= c.size / (spread * c.scale)
        bias -= c.scale * (V @ centre)
    if c.labels == "all" or c.loss.kind == "bce" or c.loss.bce > 0:
        odds = log_odds(task.Y, np.arange(task.n_labels), task.n_labels)
        bias += torch.from_numpy(odds).to(task.device)
    table.fill(V, bias)


def _within_card(plan: PoolPlan, task: TwoTower, config: TowersConfig) -> TrainConfig:
    """As many parts of a batch as the card's free memory asks for, said before the first step."""
    training, inputs = config.train, task.inputs
    if not isinstance(inputs, Encoded) or task.device.type != "cuda":
        return training
    size = EncoderSize.of(inputs.encoder.settings)
    pool = min(config.pool.size or task.n_labels, task.n_labels) if task.labels_read else 0
    every = np.arange(task.n)
    tokens = plan.batch * inputs.store.count(every) / max(1, task.n)
    tokens += pool * inputs.store.count(task.n + np.arange(task.n_labels)) / max(1, task.n_labels)
    there = task.table is not None and config.classifier.place == "device"
    levels = Levels(task.n_labels if there else 0, low=config.classifier.memory == "low")
    held = 8.0 * len(inputs.store.ids) + 40.0 * plan.batch * pool

    def needed(parts: int) -> float:
        return gpu_memory(size, levels, rows=plan.batch // parts, tokens=tokens / parts, data=held)

    return within_room(training, plan.batch, task.device, needed)
