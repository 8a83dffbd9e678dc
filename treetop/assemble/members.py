"""Several models in one: the same recipe with other seeds or encoders, their scores averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from treetop.assemble.held_out.scores import unfitted_fusion
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.features.concatenate import Concatenated
from treetop.features.encoder.transformer import TransformerConfig
from treetop.features.learned import Learned
from treetop.features.tfidf.tfidf import Tfidf
from treetop.model import Model

Member = tuple[Sequence[Learned[Any]], Sequence[list[Level]]]  # its encoders, and the levels that read them


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

    With `words` levels may read the view `fused` of tf-idf and encoder, vectors of length `dense`. Where a member has
    several rankers and documents are held out, the fusion of all is learned.
    """
    transformers: list[Any] = []
    built: list[list[Level]] = []
    for m in range(count_members(members, encoders)):
        member, several = build(m, job_of(job, m))
        transformers += member
        built += several
    features: dict[str, Any] = {transformer.name: transformer for transformer in transformers}
    model = Model.over(
        dataset, features if words is None else {"fused": Concatenated(words, transformers, dense)}, built
    )
    if job.held_out is None or len(built) == count_members(members, encoders):
        return model
    return replace(model, fusion=unfitted_fusion([(1, "average")] * len(built)))


def count_members(members: int, encoders: Sequence[str]) -> int:
    """Members of a model: one for each of `encoders` where they are named."""
    if encoders and members not in (1, len(encoders)):
        raise ConfigError(f"members: {members}, but encoders names {len(encoders)}. Leave members out.")
    return len(encoders) or members


def job_of(job: Job, m: int) -> Job:
    """The first member's stages are the job's own; each further one has its own seed and folder."""
    if m == 0:
        return job
    return replace(job.within(f"member-{m:02d}"), seed=job.seed + m)


def member_name(name: str, m: int) -> str:
    """The name of the m-th member's features."""
    return f"{name}-{m}" if m else name


def encoder_of(config: TransformerConfig, encoders: Sequence[str], m: int) -> TransformerConfig:
    """The encoder of the m-th member."""
    return replace(config, model=encoders[m]) if encoders else config
