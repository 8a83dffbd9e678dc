"""A text as the hidden states of a transformer: the first token or the mean, of one layer or several concatenated."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch

from treetop.core.config import setting
from treetop.core.errors import ConfigError, ModelError
from treetop.core.part_checks import floats, whole
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.features.encoder.encoder import Encoder, Pooling, plain_settings
from treetop.features.encoder.sources import DEFAULT, find_encoder, from_part
from treetop.features.encoder.tokens import Long, Tokenizer
from treetop.features.encoder.windows import WindowPool
from treetop.features.learned import Learned
from treetop.tensors.handover import to_array

WindowPooling = Literal["mean", "learned"]
LEARNED = "learned windows"  # how a model says so; versions that know no learned pooling refuse it
POOLS = "windows."  # before the names of arrays that pool windows


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Settings of `Transformer`."""

    model: str = setting(
        DEFAULT, "folder, treetop model, offline package, or name on a hub (owner/name, owner/name@revision)"
    )
    max_length: int = setting(128, "maximum tokens per text, special tokens included", low=1)
    long_texts: Long = setting("truncate", "longer texts: truncate, or average over windows of max_length tokens")
    max_windows: int = setting(8, "windows of a text: the first, and others spread evenly over it; 0: all", low=0)
    window_pooling: WindowPooling = setting(
        "mean", "embedding of a text with several windows: their mean, or a pooling learned with the heads"
    )
    pooling: Literal["cls", "mean"] = setting("mean", "pooling: first token (cls), or mean over tokens")
    layers: tuple[int, ...] = setting((-1,), "encoder layers to concatenate; -1: last, 0: embedding layer")
    l2: bool = setting(False, "L2-normalise each embedding")

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("layers: empty. Name at least one layer, such as [-1].")
        if self.window_pooling == "learned" and self.long_texts != "windows":
            raise ConfigError(
                "window_pooling: 'learned' needs windows. Set long_texts=windows, or window_pooling=mean."
            )

    @property
    def most_tokens(self) -> float:
        """The most tokens of a text that are read."""
        windows = 1 if self.long_texts == "truncate" else self.max_windows or math.inf
        return self.max_length * windows

    def kept_windows(self, texts: Texts) -> float:
        """Vectors kept for a text on average where the encoder is frozen: one, or those of all windows."""
        if self.window_pooling == "mean" or self.long_texts == "truncate" or len(texts) == 0:
            return 1.0
        windows = np.ceil(texts.lengths() / (4.0 * self.max_length))  # a token has about four bytes
        return float(np.clip(windows, 1, self.max_windows or None).mean())


class Transformer(Learned[Pooling]):
    """Views of texts by a transformer; `name` distinguishes the encoders of one model."""

    kind: ClassVar[str] = "features.transformer.1"
    encoder: Encoder

    def __init__(
        self, encoder: Encoder, tokenizer: Tokenizer, poolings: Sequence[Pooling], *, l2: bool = False,
        name: str = "encoder", device: torch.device | None = None, window_pooling: WindowPooling = "mean",
    ) -> None:  # fmt: skip
        if tokenizer.size > encoder.vocabulary:
            raise ConfigError(
                f"encoder: its tokenizer knows {tokenizer.size:,} tokens but the encoder only "
                f"{encoder.vocabulary:,}; they do not belong together. Copy both from one source."
            )
        if tokenizer.max_length > encoder.room:
            raise ConfigError(f"max_length: {tokenizer.max_length} is too long; this encoder reads {encoder.room}.")
        super().__init__(encoder, tokenizer, poolings, l2=l2, name=name, device=device)
        self.window_pooling = window_pooling
        self.read(poolings)

    @classmethod
    def load(cls, config: TransformerConfig, *, name: str = "encoder", **options: Any) -> Transformer:
        """A pretrained encoder, before any training."""
        source = find_encoder(config.model)
        tokenizer = Tokenizer(source.tokenizer, config.max_length, config.long_texts, config.max_windows)
        poolings = [Pooling(config.pooling, config.layers)]
        encoder = Encoder(source, **options)
        return cls(encoder, tokenizer, poolings, l2=config.l2, name=name, window_pooling=config.window_pooling)

    def read(self, poolings: Sequence[Pooling]) -> None:
        """Set the views to compute."""
        for pooling in poolings:
            for layer in pooling.layers:
                self.encoder.layer(layer)
        self.poolings = tuple(poolings)
        if self.window_pooling == "learned":
            pools = self.encoder.windows
            for pooling in poolings:
                if pooling.name not in pools:
                    pools[pooling.name] = WindowPool(self.encoder.view_width(pooling))

    @property
    def window_pools(self) -> torch.nn.ModuleDict | None:
        return self.encoder.windows if self.window_pooling == "learned" else None

    def fast(self) -> Self:
        """With the layers in ONNX Runtime, int8 products; itself where the encoder has another architecture."""
        if self.device.type != "cpu" or (encoder := self.encoder.in_runtime()) is None:
            return self
        quick = copy.copy(self)
        quick.encoder, quick._packed = encoder, True
        return quick

    def to_part(self) -> Part:
        weights = {key: to_array(value.float()) for key, value in self.encoder.body.state_dict().items()}
        for name, pool in (self.window_pools or {}).items():
            weights |= {f"{POOLS}{name}.{key}": to_array(value.float()) for key, value in pool.state_dict().items()}
        config = {
            "encoder": plain_settings(self.encoder.settings),
            "max_length": self.tokenizer.max_length,
            "long": LEARNED if self.window_pooling == "learned" else self.tokenizer.long,
            "max_windows": self.tokenizer.max_windows,
            "poolings": [[pooling.kind, *pooling.layers] for pooling in self.poolings],
            "l2": self.l2,
            "name": self.name,
        }
        config |= {"source": self.encoder.commit} if self.encoder.commit else {}
        return Part(self.kind, config, weights, files={"tokenizer.json": self.tokenizer.raw})

    @classmethod
    def from_part(cls, part: Part, **options: Any) -> Transformer:
        """`options` are those of its `Encoder`, which are not stored."""
        source = from_part(part, "the model's encoder")
        poolings = [_pooling(item) for item in part.setting("poolings", list)]
        if not poolings:
            raise ModelError(f"{part.kind}: it gives no views. The model is damaged; copy it again.")
        long = part.setting("long", str)
        if long not in ("truncate", "windows", LEARNED):
            raise ModelError(f"{part.kind}: setting 'long' is {long!r}, expected 'truncate', 'windows' or '{LEARNED}'.")
        pooling: WindowPooling = "learned" if long == LEARNED else "mean"
        windows = whole(part, "max_windows", 0) if "max_windows" in part.config else 0  # models of old read all
        cut: Long = "truncate" if long == "truncate" else "windows"
        tokenizer = Tokenizer(source.tokenizer, part.setting("max_length", int), cut, windows)
        l2, name = part.setting("l2", bool), part.setting("name", str)
        made = cls(Encoder(source, **options), tokenizer, poolings, l2=l2, name=name, window_pooling=pooling)
        for view, pool in (made.window_pools or {}).items():
            for key, weight in pool.named_parameters():
                weight.data = torch.from_numpy(np.array(floats(part, f"{POOLS}{view}.{key}", len(weight))))
        return made


def _pooling(item: Any) -> Pooling:
    sound = isinstance(item, list) and len(item) > 1 and item[0] in ("cls", "mean")
    if not sound or any(type(layer) is not int for layer in item[1:]):
        raise ModelError(f"features.transformer.1: {item!r} does not describe a view. The model is damaged.")
    return Pooling(item[0], tuple(item[1:]))
