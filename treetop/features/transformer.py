"""A text as the hidden states of a transformer: the first token or the mean, of one layer or several side by side.

Texts run through the encoder packed by length; on the CPU in float32, one thread to a batch, so that bits do not
depend on the number of threads; on a GPU in bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core.config import setting
from treetop.core.errors import ConfigError, ModelError
from treetop.core.log import progress
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.features.encoder import Encoder, Pooling, plain_settings
from treetop.features.sources import DEFAULT, find_encoder, from_part
from treetop.features.tokens import Long, Tokenizer, Tokens
from treetop.features.views import Views
from treetop.kernels import threads
from treetop.train import devices
from treetop.train.batches import TokenRows
from treetop.train.checkpoint import to_array

CPU_BATCH, GPU_BATCH = 32, 2048  # sequences at a time


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Settings of `Transformer`."""

    encoder: str = setting(DEFAULT, "folder, treetop model, offline package or hub name of the encoder")
    max_length: int = setting(128, "tokens of a text that are read, the special ones included", low=1)
    long: Long = setting("truncate", "longer texts: cut them, or average windows of max_length")
    pooling: Literal["cls", "mean"] = setting("mean", "a text is its first token, or the mean of all")
    layers: tuple[int, ...] = setting((-1,), "layers side by side; -1 is the last, 0 the embedding output")
    l2: bool = setting(False, "scale each vector to length 1")

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("layers: empty. Name at least one layer, such as [-1].")


class Transformer:
    """Views of texts by a transformer; `name` keeps apart the encoders of one model."""

    kind: ClassVar[str] = "features.transformer.1"

    def __init__(
        self, encoder: Encoder, tokenizer: Tokenizer, poolings: Sequence[Pooling], *, l2: bool = False,
        name: str = "encoder", device: torch.device | None = None,
    ) -> None:  # fmt: skip
        if tokenizer.size > encoder.vocabulary:
            raise ConfigError(
                f"encoder: its tokenizer knows {tokenizer.size:,} tokens but the encoder only "
                f"{encoder.vocabulary:,}; they do not belong together. Copy both from one source."
            )
        if tokenizer.max_length > encoder.room:
            raise ConfigError(f"max_length: {tokenizer.max_length} is too long; this encoder reads {encoder.room}.")
        self.encoder, self.tokenizer = encoder, tokenizer
        self.read(poolings)
        self.l2, self.name = l2, name
        self.device = device or torch.device("cpu")
        self._packed = False  # whether its layers are laid out for a CPU

    @classmethod
    def load(cls, config: TransformerConfig, **options: Any) -> Transformer:
        """An encoder as it comes, before any training."""
        source = find_encoder(config.encoder)
        tokenizer = Tokenizer(source.tokenizer, config.max_length, config.long)
        return cls(Encoder(source, **options), tokenizer, [Pooling(config.pooling, config.layers)], l2=config.l2)

    def read(self, poolings: Sequence[Pooling]) -> None:
        """Give these views from now on."""
        for pooling in poolings:
            for layer in pooling.layers:
                self.encoder.layer(layer)
        self.poolings = tuple(poolings)

    def view_name(self, pooling: Pooling) -> str:
        """What a level calls this view."""
        return f"{self.name}/{pooling.name}"

    def views(self, texts: Texts) -> Mapping[str, NDArray[np.float32]]:
        made: dict[str, NDArray[np.float32]] = {}

        def get(name: str) -> NDArray[np.float32]:
            if not made:
                made.update(self.vectors(self.tokenizer.encode(texts)))
            return made[name]

        names = [self.view_name(pooling) for pooling in self.poolings]
        return Views({name: lambda name=name: get(name) for name in names})  # type: ignore[misc]

    def vectors(self, tokens: Tokens, *, say: str | None = None) -> dict[str, NDArray[np.float32]]:
        """(rows, width) per view for token sequences already made; `say` shows progress under this title."""
        size = CPU_BATCH if self.device.type == "cpu" else GPU_BATCH
        order = np.argsort(tokens.lengths, kind="stable")
        store = TokenRows(tokens.ids, tokens.offsets, self.device, tokens.rows)
        made = {
            self.view_name(p): np.empty((len(tokens), self.encoder.width * len(p.layers)), np.float32)
            for p in self.poolings
        }
        if self.encoder.training:
            self.encoder.eval()
        if self.device.type == "cpu" and not self._packed:
            self.encoder.lay_out()
            self._packed = True

        def block(start: int, stop: int) -> tuple[Any, dict[str, NDArray[np.float32]]]:
            rows = order[start:stop]
            with torch.inference_mode():
                found = self.encoder(store.gather(rows), self.poolings)
                return rows, {name: self._finish(vector) for name, vector in found.items()}

        ranges = threads.blocks(len(tokens), size)
        with devices.cpu_threads(1), progress(say or "encoding", len(tokens)) as bar:
            for rows, found in (
                threads.stream(block, ranges) if self.device.type == "cpu" else map(_call(block), ranges)
            ):
                for pooling in self.poolings:
                    made[self.view_name(pooling)][rows] = found[pooling.name]
                bar.step(len(rows))
        return made

    def _finish(self, vector: torch.Tensor) -> NDArray[np.float32]:
        if self.l2:
            vector = torch.nn.functional.normalize(vector.float(), dim=1)
        made: NDArray[np.float32] = vector.float().cpu().numpy()
        return made

    def to(self, device: torch.device) -> Transformer:
        """The same on another device, in the number type that suits it."""
        self.encoder.to(device=device, dtype=devices.compute_type(device))
        self.device = device
        return self

    def to_part(self) -> Part:
        weights = {key: to_array(value.float()) for key, value in self.encoder.body.state_dict().items()}
        config = {
            "encoder": plain_settings(self.encoder.settings),
            "max_length": self.tokenizer.max_length,
            "long": self.tokenizer.long,
            "poolings": [[pooling.kind, *pooling.layers] for pooling in self.poolings],
            "l2": self.l2,
            "name": self.name,
        }
        return Part(self.kind, config, weights, files={"tokenizer.json": self.tokenizer.raw})

    @classmethod
    def from_part(cls, part: Part) -> Transformer:
        source = from_part(part, "the model's encoder")
        poolings = [_pooling(item) for item in part.setting("poolings", list)]
        long = part.setting("long", str)
        if long not in ("truncate", "windows"):
            raise ModelError(f"{part.kind}: setting 'long' is {long!r}, expected 'truncate' or 'windows'.")
        tokenizer = Tokenizer(source.tokenizer, part.setting("max_length", int), long)
        l2, name = part.setting("l2", bool), part.setting("name", str)
        return cls(Encoder(source), tokenizer, poolings, l2=l2, name=name)


def _call(function: Any) -> Any:
    return lambda span: function(*span)


def _pooling(item: Any) -> Pooling:
    sound = isinstance(item, list) and len(item) > 1 and item[0] in ("cls", "mean")
    if not sound or any(type(layer) is not int for layer in item[1:]):
        raise ModelError(f"features.transformer.1: {item!r} does not describe a view. The model is damaged.")
    return Pooling(item[0], tuple(item[1:]))
