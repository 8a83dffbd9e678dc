"""Memory and time of training an encoder with heads, computed from shapes.

`benchmarks/gpu/heads.py` checks the peak memory of a GPU on a card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core import forecast
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.features.encoder.sources import local_config, read_encoder_config
from treetop.features.words.vectors import WordsConfig
from treetop.kernels.gpu.full_bce_low import CHUNK, HELD
from treetop.network.head import HeadPlan
from treetop.network.init import SAMPLE
from treetop.network.inputs import Encoded
from treetop.network.settings import small_batches
from treetop.network.vectors.attention import AttentionPlan
from treetop.network.vectors.full import ALIGN, BLOCK
from treetop.tensors import devices
from treetop.train.batches import Rows
from treetop.train.task import TrainConfig

BYTES, SIZED = 4.4, 20_000  # bytes of a token (3.8 to 5.2 on five data sets); texts whose length is looked at
MARGIN = 1.07  # of memory (benchmarks/results/forecasts.jsonl, encoder-memory.json)
ON_GPU = 1.6e9  # memory that a GPU's libraries take of the host (peak_rss in benchmarks/results/gpu/)
WORKSPACE = 1.0e8  # matrix library, and what the recorder holds
STEP = 7.2  # bytes a CPU takes for every saved activation: itself, attention, and gradients
FILE_WIDTH = 300  # of word vectors in a file that was not looked at yet
ENCODING = 2.0e8  # programs and room of a CPU's matrix library, never given back
SHAPES, MANY = 6.0e8, 6.0e4  # what it keeps for the shapes of batches, from so many tokens on
# Seconds before and after training, on a CPU and on a GPU, and how much faster than training a CPU reads texts alone.
START, START_GPU, READING = 6.0, 20.0, 2.2  # benchmarks/results/forecasts.jsonl


@dataclass(frozen=True)
class EncoderSize:
    """The sizes of a transformer that determine memory and time."""

    depth: int = 6
    width: int = 384
    inner: int = 1536
    vocabulary: int = 30522
    positions: int = 512

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> EncoderSize:
        """From a `config.json`, whichever names it uses; missing values are those of MiniLM."""

        def read(default: int, *names: str) -> int:
            found = [config[name] for name in names if isinstance(config.get(name), int)]
            return int(found[0]) if found else default

        width = read(cls.width, "hidden_size", "dim", "d_model")
        return cls(
            read(cls.depth, "num_hidden_layers", "n_layers"),
            width,
            read(4 * width, "intermediate_size", "hidden_dim", "d_ff"),
            read(cls.vocabulary, "vocab_size"),
            read(cls.positions, "max_position_embeddings"),
        )

    @property
    def layers(self) -> float:
        """Weights that every token is multiplied with."""
        return float(self.depth * (4 * self.width**2 + 2 * self.width * self.inner + 13 * self.width))

    @property
    def kept(self) -> float:
        """Activations saved for the backward pass of a token: inputs of the linear layers, query, key, value, norms."""
        return float(self.depth * (9 * self.width + 2 * self.inner) + 6 * self.width)

    @property
    def parameters(self) -> float:
        return self.layers + float((self.vocabulary + self.positions + 4) * self.width)


def size_of_words(config: WordsConfig) -> EncoderSize:
    """A network over word vectors, counted as a transformer of one small layer."""
    found = local_config(config.model)
    here = EncoderSize.of(found) if found else EncoderSize(1, FILE_WIDTH, 0, config.vocab_size)
    return EncoderSize(1, config.pca_dim or here.width, 0, here.vocabulary, 0)


@dataclass(frozen=True, kw_only=True)
class ParameterCounts:
    """What heads add to an encoder."""

    vectors: float  # numbers in all label and cluster vectors
    scored: float  # of them multiplied with one text in a step
    low: float = 0.0  # of the vectors' numbers, those of two bytes without optimiser states
    frozen: float = 0.0  # numbers in a text's kept views; 0: the encoder learns
    label_texts: float = 1.0  # how often these are encoded too
    pool: int = 0  # label texts read in every step
    composed: float = 0.0  # numbers in label vectors that are composed of parts in every step, all parts counted
    sampled: int = 0  # documents that are read once more, before or after training


def count(plans: Sequence[HeadPlan], batch: int = 1) -> ParameterCounts:
    """The numbers of these heads; `batch` rows share the composing of vectors."""
    vectors = scored = composed = 0.0
    for above, plan in zip([None, *plans], plans, strict=False):
        whole = float(plan.n * plan.width * (1 if plan.attention is None else plan.attention.tables))
        share = 1.0 if above is None or not plan.keep else min(1.0, plan.keep / above.n)
        share = plan.pool / plan.n if plan.pool else share
        tokens = 1.0 if plan.attention is None else 2.0 * plan.attention.tokens  # each is weighed and read
        vectors, scored = vectors + whole, scored + tokens * share * whole
        composed += 0.0 if plan.parts is None else plan.parts.count * min(whole, batch * share * whole)
    return ParameterCounts(vectors=vectors, scored=scored, composed=composed, label_texts=float(composed > 0))


def forecast_member(
    dataset: Dataset, size: EncoderSize, counts: ParameterCounts, training: TrainConfig, most_tokens: float
) -> Forecast:
    """Encoder, tokens and vectors with their optimiser states; time on two CPU cores, or on the GPU.

    `training` has the batches that are really taken (`small_batches`).
    """
    n, epochs, device = len(dataset), training.epochs, devices.pick(forecast.device())
    speed = devices.training_speed(device)
    tokens = expected_tokens(dataset.texts, most_tokens)
    weights = 4.0 * size.parameters
    states = 16.0 * (counts.vectors - counts.low) + 2.0 * counts.low + (0.0 if counts.frozen else 4.0 * weights)
    model = weights + 4.0 * counts.vectors + len(dataset.labels.names.blob) * 2.0
    memory, kept = 8e8 + 2 * weights + states + 6.0 * tokens, 0.0
    memory += ON_GPU if device.type == "cuda" else 0.0
    if size.inner and not counts.frozen and device.type == "cpu":  # on a GPU they lie there
        step = min(n, training.batch_size) / max(1, n) * tokens + counts.pool * tokens_of_label(dataset, most_tokens)
        kept = STEP * size.kept * step / training.accumulate
    if counts.frozen:  # all views in single precision and as they are kept, and what the matrix library holds
        memory += 6.0 * counts.frozen * n + ENCODING + SHAPES * min(1.0, tokens / MANY)
    reads = tokens * (float(bool(counts.frozen)) + min(1.0, counts.sampled / max(1, n)))
    reads += counts.label_texts * dataset.n_labels * tokens_of_label(dataset, most_tokens)
    reads, start = (reads / READING, START) if device.type == "cpu" else (reads, START_GPU)
    time = start + 2.0 * reads * size.layers / speed + learning_time(n, tokens, epochs, size, counts)
    # A part's block and its place in attention are two square matrices; some fifteen activations are saved.
    memory += 60.0 * counts.composed
    time += 12.0 * epochs * n / training.batch_size * counts.composed * size.width / speed
    memory += kept + 4.0 * training.batch_size * dataset.n_labels
    return Forecast(
        memory=MARGIN * memory,
        model=model,
        time=time,
        step=kept,
        parts=training.accumulate,
    )


def expected_tokens(texts: Texts, most: float) -> float:
    """Tokens that are read of all texts, by the bytes of a sample of them; `most` is the limit for each."""
    n = len(texts)
    rows = np.linspace(0, max(0, n - 1), min(n, SIZED)).astype(np.int64)
    lengths = texts.offsets[rows + 1] - texts.offsets[rows]
    if not lengths.any():  # imagined data, which have bytes but no single texts
        lengths = np.full(1, len(texts.blob) / max(1, n))
    return float(n * np.minimum(lengths / BYTES + 2.0, most).mean())


def tokens_of_label(dataset: Dataset, most: float) -> float:
    """Tokens of a label's text, or of its name where that is longer, on average."""
    found = max(expected_tokens(texts, most) for texts in (dataset.labels.texts, dataset.labels.names))
    return found / max(1, dataset.n_labels)


def batch_mean(lengths: NDArray[np.integer]) -> float:
    """Tokens of a text in the largest batch of clustered texts, whose lengths are alike: a deviation above the mean."""
    return float(lengths.mean() + lengths.std()) if len(lengths) else 0.0


def learning_time(rows: int, tokens: float, epochs: float, size: EncoderSize, counts: ParameterCounts) -> float:
    """Seconds in which heads, and the encoder unless it is frozen, learn from so many rows."""
    encoder = 0.0 if counts.frozen else 6.0 * tokens * size.layers
    speed = devices.training_speed(devices.pick(forecast.device()))
    return epochs * (encoder + 6.0 * rows * counts.scored) / speed


def forecast_encoders(
    dataset: Dataset, config: Any, heads: Callable[[EncoderSize], Sequence[HeadPlan]], *, frozen: bool = False
) -> Forecast:
    """Members of one encoder each, by a recipe's settings and its heads over an encoder of a size."""
    needs, training = [], small_batches(dataset, config.train, config.min_steps_per_epoch)
    for name in config.encoders or (config.encoder.model,) * config.members:
        size = EncoderSize.of(read_encoder_config(name))
        plans = heads(size)
        kept = plans[-1].view_width * config.encoder.kept_windows(dataset.texts) if frozen else 0.0
        again = SAMPLE if config.init != "zero" and not frozen else 0
        counts = replace(count(plans), frozen=kept, label_texts=float(config.init != "zero"), sampled=again)
        needs.append(forecast_member(dataset, size, counts, training, config.encoder.most_tokens))
    return forecast_members(needs)


def forecast_words(
    dataset: Dataset, config: Any, training: TrainConfig, heads: Callable[[EncoderSize], Sequence[HeadPlan]]
) -> Forecast:
    """The same for networks over word vectors."""
    size = size_of_words(config.encoder)
    counts = count(heads(size), training.batch_size)
    need = forecast_member(dataset, size, counts, training, config.encoder.max_length)
    return forecast_members([need] * config.members)


def forecast_members(needs: Sequence[Forecast]) -> Forecast:
    """Members are trained one after the other; those that are done stay in memory."""
    largest = max(needs, key=lambda need: need.memory)
    return replace(
        largest,
        memory=largest.memory + sum(need.model for need in needs[1:]),
        model=sum(need.model for need in needs),
        time=sum(need.time for need in needs),
    )


def gpu_memory(
    size: EncoderSize, plans: Sequence[HeadPlan], *, rows: int, tokens: float, data: float, low: bool = False
) -> float:
    """Peak bytes of a training step of `rows` texts with `tokens` tokens; `data` bytes are on the GPU all the time.

    `low`: label vectors of two bytes a number.
    """
    # Float32 master, gradient and two moments, bfloat16 weight and gradient.
    states = 20.0 * size.parameters
    activations = 2.0 * tokens * size.kept  # bfloat16, with one byte of dropout
    view = max(size.width, plans[-1].view_width)
    pooled = 8.0 * tokens * size.width + 16.0 * rows * view
    if plans[-1].attention is not None:
        head = _attended(plans[-1], plans[-1].attention, rows)
    else:
        head = _tree(plans[-2], plans[-1], rows, view) if len(plans) > 1 else _flat(plans[-1].n, rows, view, low)
    return WORKSPACE + states + activations + pooled + head + data


def micro_batches(
    training: TrainConfig, inputs: Encoded, plans: Sequence[HeadPlan], *, rows: Rows, batch: int, low: bool
) -> TrainConfig:
    """The number of micro-batches that fits the GPU's free memory, logged before the first step."""
    size = EncoderSize.of(inputs.encoder.settings)
    held = 8.0 * len(inputs.store.ids)  # and what the targets take
    mean = inputs.store.count(rows) / max(1, len(rows))

    def needed(micro: int) -> float:
        part = -(-batch // micro)
        return gpu_memory(size, plans, rows=part, tokens=part * mean, data=held, low=low)

    return within_room(training, batch, inputs.device, needed)


def within_room(training: TrainConfig, batch: int, device: torch.device, needed: Callable[[int], float]) -> TrainConfig:
    """The number of micro-batches that fits the GPU's free memory; `needed(micro)` are the bytes of so many."""
    micro, room = training.accumulate, float(devices.room(device))
    logger.info("about %.1f GiB of GPU memory, %.1f GiB are available", needed(micro) / 2**30, room / 2**30)
    while needed(micro) > room and micro < batch:
        micro *= 2
    return replace(training, accumulate=min(micro, batch))


def _flat(labels: int, rows: int, view: int, low: bool) -> float:
    n = -(-labels // ALIGN) * ALIGN
    if low:
        return n * (2.0 * view + 4.0) + min(n, CHUNK, HELD // max(1, rows)) * (2.0 * rows + 4.0)
    block = min(n, max(ALIGN, BLOCK // max(1, rows)))
    return 12.0 * n * (view + 1) + block * (8.0 * view + 4.0 * rows)


def _tree(clusters: HeadPlan, labels: HeadPlan, rows: int, view: int) -> float:
    b = labels.dimension or view
    candidates = rows * labels.keep * -(-labels.n // clusters.n)
    nodes = 16.0 * clusters.n * view + 40.0 * rows * clusters.n
    squeeze = 16.0 * b * view if labels.dimension else 0.0
    return nodes + squeeze + labels.n * (12.0 * (b + 1) + 12.0) + 80.0 * candidates


def _attended(plan: HeadPlan, attention: AttentionPlan, rows: int) -> float:
    """Label attention: of every candidate its gathered vectors, what it reads and hidden layers, with gradients."""
    candidates = rows * float(attention.candidates or plan.n)
    kept = 8.0 * (attention.tables + 2) * plan.width + 12.0 * sum(attention.hidden) + 12.0 * attention.tokens
    return 12.0 * plan.n * attention.tables * plan.width + candidates * kept
