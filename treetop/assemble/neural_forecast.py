"""Peak memory of a GPU in a training step, counted from shapes; `benchmarks/gpu/heads.py` checks it on a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treetop.rank.full import ALIGN, BLOCK

WORKSPACE = 1.0e8  # matrix library, and what the recorder holds


@dataclass(frozen=True)
class EncoderSize:
    """The numbers of a transformer that decide about memory and time."""

    depth: int = 6
    width: int = 384
    inner: int = 1536
    vocabulary: int = 30522
    positions: int = 512

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> EncoderSize:
        """From a `config.json`, whichever names it uses; what it lacks is as in MiniLM."""

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
    def parameters(self) -> float:
        return self.layers + float((self.vocabulary + self.positions + 4) * self.width)


@dataclass(frozen=True)
class Levels:
    """Labels, clusters above them (0: none) and how vectors are compared."""

    labels: int
    clusters: int = 0
    keep: int = 0
    bottleneck: int = 0
    view_layers: int = 1


def gpu_memory(size: EncoderSize, levels: Levels, *, rows: int, tokens: float, data: float) -> float:
    """Peak bytes of a training step of `rows` texts with `tokens` tokens; `data` lie on the card all the time."""
    # Float32 master, gradient and two moments, bfloat16 weight and gradient.
    states = 20.0 * size.parameters
    # Kept for the way back, bfloat16: inputs of the linear layers, query, key, value, norms; one byte of dropout.
    activations = tokens * (size.depth * (18.0 * size.width + 4.0 * size.inner) + 12.0 * size.width)
    view = size.width * levels.view_layers
    pooled = 8.0 * tokens * size.width + 16.0 * rows * view
    head = _tree(levels, rows, view) if levels.clusters else _flat(levels.labels, rows, view)
    return WORKSPACE + states + activations + pooled + head + data


def _flat(labels: int, rows: int, view: int) -> float:
    n = -(-labels // ALIGN) * ALIGN
    block = min(n, max(ALIGN, BLOCK // max(1, rows)))
    return 12.0 * n * (view + 1) + block * (8.0 * view + 4.0 * rows)


def _tree(levels: Levels, rows: int, view: int) -> float:
    b = levels.bottleneck or view
    candidates = rows * levels.keep * -(-levels.labels // levels.clusters)
    nodes = 16.0 * levels.clusters * view + 40.0 * rows * levels.clusters
    squeeze = 16.0 * b * view if levels.bottleneck else 0.0
    return nodes + squeeze + levels.labels * (12.0 * (b + 1) + 12.0) + 80.0 * candidates
