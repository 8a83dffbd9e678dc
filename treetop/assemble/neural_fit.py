"""From texts and a tree to trained levels: tokens, views, training and the parts of a model, each a resumable stage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.assemble.inputs import Cached, Encoded, Inputs
from treetop.assemble.neural_forecast import EncoderSize, Levels, gpu_memory, within_room
from treetop.assemble.neural_hooks import Hooks
from treetop.assemble.neural_start import Start, from_texts
from treetop.assemble.neural_tree import LevelPlan, NeuralTree, TreeConfig
from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Combine, Floats, Join, LabelTree, Level
from treetop.core.work import Job
from treetop.features.bag import Bag, rarity
from treetop.features.learned import Learned
from treetop.features.tokens import Tokens, tokenise
from treetop.features.transformer import Transformer, TransformerConfig
from treetop.features.vectors import WordsConfig, WordVectors, find_vectors
from treetop.features.word_layers import Task as View
from treetop.features.words import Words
from treetop.rank.head import Head
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything
from treetop.train import devices
from treetop.train.batches import Order, Plan, Rows, TokenRows, split_off
from treetop.train.devices import World
from treetop.train.loop import train
from treetop.train.task import Result, TrainConfig
from treetop.train.warmup import Warmup


@dataclass(frozen=True, eq=False)
class Prepared:
    """An encoder with the data set's tokens."""

    transformer: Any  # a `Transformer`, or another `Learned`
    tokens: Tokens
    device: torch.device
    warmup: Warmup | None = None

    def read_by(self, transformer: Any) -> Prepared:
        """The same tokens with another encoder."""
        return Prepared(transformer, self.tokens, self.device)

    def learning(self, *, compiled: bool = False) -> Encoded:
        """Views by the encoder as it learns."""
        encoder = self.transformer.encoder.to(self.device)
        store = TokenRows(self.tokens.ids, self.tokens.offsets, self.device, self.tokens.rows)
        return Encoded(encoder, store, self.transformer.poolings, compiled=compiled)

    def frozen(self, job: Job, name: str = "views") -> Cached:
        """Views by the encoder as it is, made once; one stage."""

        def make() -> Part:
            made = self.vectors()
            short = {name.removeprefix(f"{self.transformer.name}/"): value for name, value in made.items()}
            return Part("stage.views.1", {}, {name: value.astype(np.float16) for name, value in short.items()})

        return Cached(job.stage(name, make).arrays, self.tokens.lengths, self.device)

    def vectors(self, poolings: Sequence[Any] = ()) -> dict[str, Floats]:
        """(rows, width) per view, or for these ones, as the encoder stands: a copy runs, as a GPU rounds weights."""
        copy = type(self.transformer).from_part(self.transformer.to_part()).to(self.device)
        copy.poolings = tuple(poolings) or copy.poolings
        made: dict[str, Floats] = copy.vectors(self.tokens, say="encoding texts")
        return made


def prepare(
    dataset: Dataset,
    config: TransformerConfig,
    job: Job,
    *,
    dropout: float | None = None,
    frozen: bool = False,
) -> Prepared:
    """Load the encoder and tokenise the texts once; GPU programs for its training are compiled meanwhile."""
    device = devices.pick(job.device)
    transformer = Transformer.load(config, dropout=dropout, attention_dropout=dropout)
    warmup = Warmup(None if frozen else transformer.encoder.shapes, device)
    return Prepared(transformer, read_tokens(dataset, transformer, job), device, warmup)


def prepare_words(
    dataset: Dataset, config: WordsConfig, net: tuple[str, Any], views: Sequence[View], *, m: int, own: Job, job: Job,
    more: Texts | None = None,
) -> Prepared:  # fmt: skip
    """The m-th member's untrained network over word vectors, its name and settings given, and texts as numbers.

    `more` are other texts it will read, whose words are wanted too. Bags know how rare words are.
    """
    device = devices.pick(job.device)  # one that is not there is told before any work

    def find() -> Part:
        texts = dataset.texts if more is None else Texts.concat([dataset.texts, more])
        found = find_vectors(config, texts, seed=job.seed)
        return Part("stage.words.1", {}, {"vectors": found.vectors}, files={"tokenizer.json": found.tokenizer})

    part = job.stage("words", find)
    table = WordVectors(part.files["tokenizer.json"], np.array(part.arrays["vectors"]))
    words = Words.begin(*net, table, max_length=config.max_length, views=views, seed=own.seed)
    words.name += f"-{m}" if m else ""
    tokens = read_tokens(dataset, words, job)
    if isinstance(words.encoder, Bag):
        words.encoder.weigh(rarity(tokens, words.encoder.vocabulary))
    return Prepared(words, tokens, device)


def read_tokens(dataset: Dataset, features: Learned[Any], job: Job) -> Tokens:
    """The texts as the numbers these features read; made once, however often they are trained."""
    tokens = tokenise(dataset.texts, features.tokenizer, job)
    logger.info("%s tokens, %.1f per text", f"{int(tokens.offsets[-1]):,}", tokens.lengths.mean())
    return tokens


@dataclass(frozen=True)
class Trained:
    """The features that learned, and the levels' heads."""

    transformer: Any
    heads: list[Head]


def train_levels(
    dataset: Dataset,
    prepared: Prepared,
    inputs: Inputs,
    tree: LabelTree,
    plans: Sequence[LevelPlan],
    config: TreeConfig,
    *,
    training: TrainConfig,
    job: Job,
    validation: float = 0.0,
    fixed: NDArray[np.integer] | None = None,
    start: Start | None = None,
    name: str = "train",
) -> Trained:
    """Train the levels over the rows of `dataset`; one stage, with checkpoints inside.

    `fixed` makes the negatives static (see `NeuralTree`); `start` is where the last level begins instead of texts.
    """
    world = World.join(prepared.device)

    def make() -> Part:
        rows, held_out = cut(dataset, validation, job.seed)
        begin = _start(dataset, prepared, plans[-1], config, job) if start is None else {plans[-1].view: start}
        if isinstance(inputs, Encoded):
            inputs.hasten()
        plan = plan_of(prepared, rows, training, job.seed, world)
        task = NeuralTree(
            inputs, dataset, tree, plans, config,
            seed=job.seed, world=world, held_out=held_out, fixed=fixed, start=begin,
            hooks=Hooks(job.mix, job.penalty), apart=round(config.apart * training.epochs * plan.steps),
        )  # fmt: skip
        if prepared.warmup is not None:
            prepared.warmup.wait()
        fitted = training
        if isinstance(inputs, Encoded) and inputs.device.type == "cuda":
            fitted = _within_card(training, plan, inputs, plans, tree, low=config.low is not None)
        return learn(prepared, task, plan, fitted, world=world, job=job, name=name)

    part = once(job, f"{name}ed", world, make)
    heads = [Head.from_part(part.parts[f"level-{t:02d}"]) for t in range(len(plans))]
    return Trained(type(prepared.transformer).from_part(part.parts["encoder"]), heads)


def plan_of(prepared: Prepared, rows: Rows, training: TrainConfig, seed: int, world: World) -> Plan:
    """The batches of a training over these rows."""
    order: Order = "random" if prepared.transformer.encoder.packs else "length"
    return Plan(rows, min(training.batch, len(rows)), seed, order, prepared.tokens.lengths, world.rank, world.size)


def learn(
    prepared: Prepared, task: Any, plan: Plan, training: TrainConfig, *, world: World, job: Job, name: str,
    more: Callable[[], Mapping[str, NDArray[Any]]] | None = None,
) -> Part:  # fmt: skip
    """Train `task`; what stays is the encoder, back on the CPU, the task's heads and arrays that `more` asks it for."""
    say(train(task, plan, training, world=world, work=job.work, name=name))
    parts = {f"level-{t:02d}": head.to_part() for t, head in enumerate(task.heads())}  # some read words once more
    arrays = {} if more is None else more()
    encoder = prepared.transformer.to(torch.device("cpu")).to_part()
    return Part("stage.trained.1", {}, arrays, {"encoder": encoder, **parts})


def once(job: Job, stage: str, world: World, make: Callable[[], Part]) -> Part:
    """A stage of training: all processes train, or none."""
    if job.work is not None and not world.all(job.work.joinpath(stage).exists()):
        shutil.rmtree(job.work / stage, ignore_errors=True)
    return job.stage(stage, make)


def as_levels(
    views: Sequence[str], tree: LabelTree, heads: Sequence[Head], plans: Sequence[LevelPlan], combine: Combine = "path"
) -> list[Level]:
    """Every cluster, then what lies below the best, level by level; or every label at once.

    Clusters are kept by their own probability, as in training, unless the whole path counts.
    """
    made = []
    for t, (view, head) in enumerate(zip(views, heads, strict=True)):
        shortlist = Everything(tree.sizes[0]) if t == 0 else Descend.of(tree, t)
        alone = t == 0 or (combine != "path" and t + 1 < len(heads))
        join = Join("sigmoid") if alone else Join("sigmoid", combine)
        made.append(Level(view, shortlist, head, join, plans[t + 1].keep if t + 1 < len(plans) else Level.beam))
    return made


def _start(dataset: Dataset, prepared: Prepared, plan: LevelPlan, config: TreeConfig, job: Job) -> Mapping[str, Start]:
    """The label vectors to begin with, by the encoder as it stands and where it stands."""
    transformer = prepared.transformer
    transformer.encoder.to(prepared.device)
    transformer.device = prepared.device
    return from_texts(
        dataset, transformer, begin=config.begin, size=config.size, length=plan.length or 1.0, seed=job.seed
    )


def cut(dataset: Dataset, share: float, seed: int) -> tuple[Rows, Rows]:
    """(rows to train on, documents held out): label texts and synthetic rows always train; none outside the sample."""
    documents = np.flatnonzero(dataset.documents)
    others = np.flatnonzero(~dataset.documents)
    kept, held_out = split_off(documents, share, seed)
    rows = np.sort(np.concatenate([kept, others]))
    return rows[dataset.learned[rows]], held_out


def _within_card(
    training: TrainConfig, plan: Plan, inputs: Encoded, plans: Sequence[LevelPlan], tree: LabelTree, *, low: bool
) -> TrainConfig:
    """As many micro-batches as the card's free memory asks for, said before the first step."""
    size = EncoderSize.of(inputs.encoder.settings)
    clusters = tree.sizes[-2] if len(tree.sizes) > 1 else 0
    last = plans[-1]
    layers = max(1, last.view_width // size.width)
    levels = Levels(tree.sizes[-1], clusters, last.keep, last.bottleneck, layers, low and not clusters)
    held = 8.0 * len(inputs.store.ids)  # and what the targets take
    mean = inputs.store.count(plan.rows) / max(1, len(plan.rows))

    def needed(micro: int) -> float:
        rows = -(-plan.batch // micro)
        return gpu_memory(size, levels, rows=rows, tokens=rows * mean, data=held)

    return within_room(training, plan.batch, inputs.device, needed)


def say(result: Result) -> None:
    """What a run did, in one line."""
    speed = result.tokens / max(result.seconds, 1e-9)
    logger.info(
        "trained %d steps in %.1f s, %s tokens/s, peak %.1f GiB, last loss %.4f",
        result.steps, result.seconds, f"{speed:,.0f}", result.memory / 2**30, result.loss,
    )  # fmt: skip
