"""Labels of the nearest training texts by a frozen sentence encoder, exact: a baseline for trained dual encoders.

Features: transformer, mean of the last layer, of length 1. Tree: flat. Shortlist: everything. Rank: dense neighbours:
the k training texts with the largest cosine vote for their labels with weight cosine ** power. Key idea: nothing is
trained, so this is what an encoder knows as it comes; texts that say the same in other words are near. k and power were
chosen on held-out parts of train of four data sets (`benchmarks/results/sentence-neighbours-choice.jsonl`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.features.encoder.sources import read_encoder_config
from treetop.features.encoder.transformer import TransformerConfig
from treetop.model import Model
from treetop.network.forecast import EncoderSize, ParameterCounts, forecast_member
from treetop.network.prepare import prepare
from treetop.rank.dense_neighbours import DenseNeighbours
from treetop.shortlist.everything import Everything
from treetop.train.task import TrainConfig

GROUP = "embeddings"
REFITS = True  # texts are read once, so training again on all documents costs little
TUNES = {"k": [10, 30, 100, 300], "power": [1.0, 3.0, 10.0, 20.0]}  # settings that `treetop tune` tries


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `sentence_neighbours`."""

    k: int = setting(30, "nearest training texts that vote", low=1)
    power: float = setting(3.0, "vote weight: cosine to this power", low=0.0)
    encoder: TransformerConfig = setting(TransformerConfig(l2=True), "pretrained encoder, as it comes")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """The encoder, and a vector for each text: as float16 in the model, as float32 while it searches."""
    size = EncoderSize.of(read_encoder_config(config.encoder.model))
    width = size.width * len(config.encoder.layers)
    counts = ParameterCounts(vectors=0.0, scored=0.0, frozen=float(width), label_texts=0.0)
    needs = forecast_member(dataset, size, counts, TrainConfig(batch_size=1), config.encoder.most_tokens)
    vectors = len(dataset) * float(width)
    return replace(needs, memory=needs.memory + 4.0 * vectors, model=needs.model + 2.0 * vectors + 8.0 * dataset.Y.nnz)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Read every text once and keep its vector."""
    prepared = prepare(dataset, config.encoder, job, frozen=True)
    views = prepared.frozen(job, pooled=True)
    vectors, documents = np.concatenate(views.arrays, axis=1).astype(np.float16), dataset.documents
    rank = DenseNeighbours.fit(vectors[documents], dataset.Y[documents], k=config.k, power=config.power)
    level = Level(prepared.features.view_name(prepared.features.poolings[0]), Everything(dataset.n_labels), rank)
    return Model.over(dataset, {prepared.features.name: prepared.features}, [[level]])
