"""Several models in one: the same recipe with other seeds or encoders, their scores averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.features.fuse import Fuse
from treetop.features.learned import Learned
from treetop.features.tfidf import Tfidf
from treetop.features.transformer import TransformerConfig
from treetop.model import Model
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig

LEAST = 16  # rows of a batch
Memory = Literal["full", "low"]
MEMORY = "label vectors: float32 with Adam's moments (12 bytes a number), or bfloat16 by plain descent (2)"
Member = tuple[Sequence[Learned[Any]], Sequence[list[Level]]]  # its encoders, and the levels that read them


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How the networks of all recipes are trained."""

    encoder_dropout: float | None = setting(None, "dropout inside the encoder; null: its own", low=0.0, high=0.99)
    learn_encoder: AdamConfig = setting(AdamConfig(lr=3e-4), "how the encoder learns")
    learn_heads: AdamConfig = setting(AdamConfig(lr=3e-3), "how the heads learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=5, batch=1024, schedule=ScheduleConfig(kind="linear", warmup=0.05)),
        "the loop; its epochs are those of all levels together",
    )
    steps: int = setting(100, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)
    compile: bool = setting(False, "let torch compile the encoder's layers on a GPU (10 to 20 s once; long runs only)")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(LearningConfig):
    """The same of heads over an encoder's own view."""

    length: float = setting(10.0, "length of a text's vector while training where encoder.l2 is set", low=0.1)


def no_average(name: str, training: TrainConfig) -> None:
    """Refuse averages of vectors that are kept in two bytes a number: these could not follow them."""
    if training.average != "none":
        raise ConfigError(f"{name}: 'low' holds no averages of weights. Use train.average=none, or memory=full.")


def fit_members(
    dataset: Dataset,
    members: int,
    encoders: Sequence[str],
    job: Job,
    build: Callable[[int, Job], Member],
    *,
    words: Tfidf | None = None,
    dense: float = 1.0,
) -> Model:
    """One model of `members` members, or of one for each of `encoders`; `build(m, job)` trains the m-th.

    With `words` levels may read the view `fused` of tf-idf and encoder, vectors of length `dense`.
    """
    transformers: list[Any] = []
    made: list[list[Level]] = []
    for m in range(count_members(members, encoders)):
        found, several = build(m, job_of(job, m))
        transformers += found
        made += several
    features: dict[str, Any] = {transformer.name: transformer for transformer in transformers}
    return Model.over(dataset, features if words is None else {"fused": Fuse(words, transformers, dense)}, made)


def count_members(members: int, encoders: Sequence[str]) -> int:
    """Members of a model: one for each of `encoders` where they are named."""
    if encoders and members not in (1, len(encoders)):
        raise ConfigError(f"members: {members}, but encoders names {len(encoders)}. Leave members out.")
    return len(encoders) or members


def job_of(job: Job, m: int) -> Job:
    """The first member's stages are the job's own; each further one has a seed and a folder to itself."""
    if m == 0:
        return job
    work = None if job.work is None else job.work / f"member-{m:02d}"
    if work is not None:
        work.mkdir(exist_ok=True)
    return replace(job, seed=job.seed + m, work=work)


def encoder_of(config: TransformerConfig, encoders: Sequence[str], m: int) -> TransformerConfig:
    """The encoder of the m-th member."""
    return replace(config, encoder=encoders[m]) if encoders else config


def small_batches(dataset: Dataset, training: TrainConfig, steps: int) -> TrainConfig:
    """At least `steps` updates an epoch: five passes over a thousand texts in batches of a thousand would be five."""
    return replace(training, batch=min(training.batch, max(LEAST, int(dataset.learned.sum()) // steps)))
