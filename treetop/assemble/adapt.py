"""Continue to train an encoder on texts without labels, for any recipe that takes one (`treetop adapt`).

`simcse` (Gao et al. 2021, unsupervised): a text, read twice with different dropout, is its own positive, the others of
the mini-batch are negatives. It is the dual head of `network/pool.py` where every text is its own label. `mlm`:
masked language modelling (`network/masked.py`). Texts are those of documents and of labels, equal ones once; of a long
text only the first `max_length` tokens, or each window as a text of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from treetop.core import deadline
from treetop.core.config import build, merged, override, setting, to_dict
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError, InputError, choose
from treetop.core.forecast import Forecast, for_device, parse_budget
from treetop.core.log import logger
from treetop.core.sealed import seal, unseal
from treetop.core.store import Part
from treetop.core.target import replacing
from treetop.core.texts import Texts
from treetop.core.version import VERSION
from treetop.core.work import Job, fingerprint, is_finished, open_work, remove_work, work_lock
from treetop.features.encoder.folder import write_encoder
from treetop.features.encoder.sources import pinned, read_encoder_config
from treetop.features.encoder.tokens import Long, Tokens, log_lengths, tokenise
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.kernels.runtime import threads as pool_of_threads
from treetop.labels.text import have_words, label_words
from treetop.network.fit import all_or_none, report
from treetop.network.forecast import EncoderSize, ParameterCounts, forecast_member
from treetop.network.inputs import Encoded
from treetop.network.losses.settings import LossConfig
from treetop.network.masked import MaskedWords
from treetop.network.pool import PoolNetwork
from treetop.network.pool_heads import DualConfig, TextHead
from treetop.network.samplers.clustered import Mining, PoolPlan
from treetop.network.samplers.pools import PoolConfig, Pools, PoolTargets
from treetop.tensors import devices
from treetop.tensors.devices import World
from treetop.tensors.packed import TokenRows
from treetop.train.batches import Plan
from treetop.train.loop import train
from treetop.train.optim import AdamConfig
from treetop.train.task import Task, TrainConfig, warmed_up

RECORD = "adapted.json"
STEPS = 0.9  # of a time budget, until which steps are made
Which = Literal["both", "documents", "labels"]


@dataclass(frozen=True, kw_only=True)
class AdaptConfig:
    """What both objectives ask for."""

    texts: Which = setting("both", "texts to learn from: documents, labels, or both")
    max_length: int = setting(128, "maximum tokens per text, special tokens included", low=3)
    long_texts: Long = setting("truncate", "longer texts: truncate, or each window of max_length tokens is a text")
    max_windows: int = setting(8, "windows of a text: the first, and others spread evenly over it; 0: all", low=0)
    encoder_dropout: float | None = setting(
        None, "dropout in the encoder; null: as in its own configuration", low=0.0, high=0.99
    )
    encoder_optimizer: AdamConfig = setting(AdamConfig(lr=3e-5), "optimiser of the encoder")
    train: TrainConfig = setting(warmed_up(1, 64), "training loop")


@dataclass(frozen=True, kw_only=True)
class SimcseConfig(AdaptConfig):
    """Settings of the objective `simcse`."""

    pooling: Literal["cls", "mean"] = setting("mean", "pooling: first token (cls), or mean over tokens")
    temperature: float = setting(0.05, "temperature of the softmax over cosines", low=0.001, high=10.0)


@dataclass(frozen=True, kw_only=True)
class MlmConfig(AdaptConfig):
    """Settings of the objective `mlm`."""

    masked: float = setting(0.15, "fraction of the tokens to guess", low=0.01, high=0.5)
    encoder_optimizer: AdamConfig = setting(AdamConfig(lr=5e-5), "optimiser of the encoder")
    head_optimizer: AdamConfig = setting(AdamConfig(lr=5e-4), "optimiser of the head that guesses tokens")
    train: TrainConfig = setting(warmed_up(3, 32), "training loop")


OBJECTIVES: dict[str, type[AdaptConfig]] = {"simcse": SimcseConfig, "mlm": MlmConfig}


@dataclass(frozen=True)
class Adaptation:
    """An encoder by name, an objective and its settings, ready to run."""

    encoder: str
    objective: str
    config: AdaptConfig

    @classmethod
    def of(cls, encoder: str, objective: str, settings: Mapping[str, Any] | Iterable[str] = ()) -> Adaptation:
        """The plan of a command; mistakes are reported before data is read."""
        choose("--objective", objective, tuple(OBJECTIVES))
        values = merged({}, settings) if isinstance(settings, Mapping) else override({}, settings)
        return cls(encoder, objective, build(OBJECTIVES[objective], values))

    def source(self) -> TransformerConfig:
        """The encoder as it is read."""
        c = self.config
        pooling = c.pooling if isinstance(c, SimcseConfig) else "mean"
        return TransformerConfig(
            model=self.encoder, max_length=c.max_length, long_texts=c.long_texts, max_windows=c.max_windows,
            pooling=pooling,
        )  # fmt: skip

    def forecast(self, texts: Texts) -> Forecast:
        """Encoder, tokens, optimiser states; SimCSE reads every text twice in one step."""
        size, training = EncoderSize.of(read_encoder_config(self.encoder)), self.config.train
        counts = ParameterCounts(vectors=0.0, scored=0.0, label_texts=False)
        if isinstance(self.config, MlmConfig):
            guessed = self.config.masked * self.config.max_length
            counts = replace(counts, vectors=float(size.width**2), scored=guessed * size.width * size.vocabulary)
        else:
            training = replace(training, epochs=2 * training.epochs, batch_size=2 * training.batch_size)
        needs = forecast_member(itself(texts), size, counts, training, self.source().most_tokens)
        logits = 12.0 * counts.scored / max(1, size.width) * training.batch_size / training.accumulate
        return replace(needs, memory=needs.memory + logits, step=needs.step + logits)

    def run(self, texts: Texts, job: Job) -> Part:
        """The adapted encoder, as a part."""
        c = self.config
        device = devices.pick(job.device)
        transformer = Transformer.load(self.source(), dropout=c.encoder_dropout, attention_dropout=c.encoder_dropout)
        tokens = tokenise(texts, transformer.tokenizer, job)
        log_lengths(tokens, transformer.tokenizer)
        tokens = distinct(Tokens(tokens.ids, tokens.offsets), len(transformer.tokenizer.special))
        if len(tokens) < 2:
            raise InputError(f"adapt: {len(tokens)} different texts. At least 2 are needed; give more texts.")
        world = World.join(device)

        def make() -> Part:
            task, plan = self._task(transformer, tokens, device, job.seed, world)
            report(train(task, plan, c.train, world=world, work=job.work, name="adapt"))
            return transformer.move(devices.pick("cpu")).to_part()

        return all_or_none(job, "adapted", world, make)

    def _task(
        self, transformer: Transformer, tokens: Tokens, device: Any, seed: int, world: World
    ) -> tuple[Task, Plan]:
        """What is learned, and its batches."""
        encoder, c, n = transformer.encoder.to(device), self.config, len(tokens)
        if isinstance(c, SimcseConfig):
            _check_dropout(transformer, c)
            twice = Tokens.concat([tokens, tokens])
            inputs = Encoded(encoder, TokenRows(twice.ids, twice.offsets, device), transformer.poolings)
            inputs.use_fast_layers()
            return views_of_one(inputs, n, c, seed, world)
        mask = transformer.tokenizer.mask
        if mask is None:
            raise ConfigError("--objective mlm: this encoder's tokenizer has no mask token. Use --objective simcse.")
        if not isinstance(c, MlmConfig):
            raise TypeError(f"no objective has settings {c!r}")
        inputs = Encoded(encoder, TokenRows(tokens.ids, tokens.offsets, device), transformer.poolings)
        inputs.use_fast_layers()
        task = MaskedWords(
            inputs, share=c.masked, mask=mask, special=transformer.tokenizer.special, encoder=c.encoder_optimizer,
            head=c.head_optimizer,
        )  # fmt: skip
        order: Literal["random", "length"] = "random" if encoder.packs else "length"
        batch = min(c.train.batch_size, n)
        return task, Plan(np.arange(n), batch, seed, order, tokens.lengths, world.rank, world.size)


def views_of_one(
    inputs: Encoded, n: int, config: SimcseConfig, seed: int, world: World
) -> tuple[PoolNetwork, PoolPlan]:
    """Two readings of each of `n` texts: rows i and n + i of `inputs` are text i, as a document and as its label."""
    known = PoolTargets(n, np.arange(n + 1), np.arange(n), np.ones(n, np.float32))
    pool = PoolConfig(size=n, positives=1, hard_negatives=0, fill=False, clustered=False)
    dual = DualConfig(scale=1.0 / config.temperature, loss=LossConfig(kind="infonce", positive_set="one"))
    view, mining = inputs.poolings[0], Mining(n, n, pool)
    task = PoolNetwork(
        inputs, itself(Texts.of([""] * n)), known, [TextHead(dual, inputs.encoder.view_width(view))], mining,
        view=view.name, encoder=config.encoder_optimizer, learn=config.encoder_optimizer, seed=seed, world=world,
    )  # fmt: skip
    plan = PoolPlan(
        np.arange(n), min(config.train.batch_size, n), seed, rank=world.rank, size=world.size,
        pools=Pools(known, pool, seed), mining=mining, config=pool, mine=lambda clusters, negatives: (None, None),
    )  # fmt: skip
    return task, plan


def itself(texts: Texts) -> Dataset:
    """A data set where every text is its own label."""
    labels = LabelSet(texts, texts, texts, np.zeros(len(texts), np.uint8))
    return Dataset(texts, sparse.eye(len(texts), dtype=np.float32, format="csr"), labels)


def distinct(tokens: Tokens, specials: int) -> Tokens:
    """Sequences of which each occurs once, without those that hold special tokens only."""
    ends = pairwise(tokens.offsets.tolist())
    first: dict[bytes, int] = {}
    for row, (start, end) in enumerate(ends):
        if end - start > min(2, specials):
            first.setdefault(tokens.ids[start:end].tobytes(), row)
    return tokens.take(np.array(list(first.values()), np.int64))


def texts_of(data: Any, which: Which) -> Texts:
    """The texts to learn from: of a `Dataset` those of documents, labels or both; else the texts given."""
    if not isinstance(data, Dataset):
        return data if isinstance(data, Texts) else Texts.of(data)
    if which != "documents" and not have_words(data.labels):
        if which == "labels":
            raise InputError(f"{data.name}: no label has a text or a name other than its id. Set texts=documents.")
        which = "documents"
    return Texts.concat(
        [*([data.texts] if which != "labels" else []), *([label_words(data.labels)] if which != "documents" else [])]
    )


def _check_dropout(transformer: Transformer, config: SimcseConfig) -> None:
    """Refuse an encoder without dropout, whose two readings of a text would be equal."""
    settings, chosen = transformer.encoder.settings, config.encoder_dropout
    own = [value for key, value in settings.items() if key.endswith(("dropout", "dropout_prob"))]
    if not (chosen if chosen is not None else any(own)):
        raise ConfigError(
            "encoder_dropout: 0, but SimCSE tells two readings of a text apart by dropout. Set encoder_dropout=0.1."
        )


def adapt(
    encoder: str,
    texts: Any,
    *,
    out: str | Path,
    objective: str = "simcse",
    settings: Mapping[str, Any] | Iterable[str] = (),
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    budget: str = "",
    resume: bool = False,
    overwrite: bool = False,
) -> Path:
    """Continue to train an encoder on texts (a list of strings, or those of a `Dataset`) and write it to a folder.

    `encoder` is a folder, a treetop model, an offline package or a hub name, and the new folder may stand there,
    too: `settings={"encoder": {"model": folder}}`. `objective` is "simcse" or "mlm". A killed run goes on with
    `resume=True`, which is also content with the encoder of a finished run of the same job.
    """
    encoder = pinned(encoder)
    started, planned = time.monotonic(), Adaptation.of(encoder, objective, settings)
    folder, limits, read = Path(out), parse_budget(budget), texts_of(texts, planned.config.texts)
    key = {
        "encoder": encoder, "objective": objective, "settings": to_dict(planned.config), "seed": seed,
        "texts": [fingerprint(part) for part in (read.blob, read.offsets)],
    }  # fmt: skip
    if resume and not overwrite and (folder / RECORD).is_file():
        is_finished(folder, key, {name: unseal(folder / RECORD).get(name) for name in key})
        logger.info("%s: the encoder of this job exists already", folder)
        return folder
    devices.pick(device)
    with for_device(device):
        needs = planned.forecast(read)
    logger.info("adapt %s (%s) on %s texts: %s", encoder, objective, f"{len(read):,}", needs.describe())
    needs.check(limits, folder)
    work = open_work(folder, key, resume=resume, overwrite=overwrite)
    ends = started + STEPS * limits.get("time", np.inf)
    with pool_of_threads.limited(threads), deadline.ending(steps=ends), work_lock(work):
        part = planned.run(read, Job(seed, device, work, limits))
    if World.join(devices.pick(device)).rank == 0:
        with replacing(folder) as fresh:
            write_encoder(fresh, part)
            (fresh / RECORD).write_bytes(seal({**key, "version": VERSION, "seconds": time.monotonic() - started}))
    remove_work(work)
    return folder
