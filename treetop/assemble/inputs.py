"""Where a batch's views come from: an encoder that learns too, or vectors computed once by a frozen one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.train.batches import Rows, TokenRows, send


class Inputs(Protocol):
    """Where a batch's views come from."""

    device: torch.device

    def load(self, rows: Rows, static: bool = False) -> tuple[Tensor, Hashable]:
        """A message to the device, and what the host knows of it."""
        ...

    def views(self, message: Tensor, shape: Any) -> Mapping[str, Tensor]:
        """Named views of the rows a message stands for."""
        ...

    def tokens(self, rows: Rows) -> int: ...


class Encoded:
    """Views computed by an encoder that learns too."""

    def __init__(self, encoder: Any, store: TokenRows, poolings: Sequence[Any], *, compiled: bool = False) -> None:
        """`encoder(packed, poolings)` gives the views: a transformer, or a network over words."""
        self.encoder, self.store, self.poolings = encoder, store, list(poolings)
        self.device = store.device
        self._compiled = compiled

    def hasten(self) -> None:
        """Put faster layers in place for training on a GPU."""
        if self.device.type == "cuda":
            self.encoder.compile_layers() if self._compiled else self.encoder.fuse_layers()

    def load(self, rows: Rows, static: bool = False) -> tuple[Tensor, Hashable]:
        message, shape = self.store.describe(rows, static)
        return send(message, self.device), shape

    def views(self, message: Tensor, shape: Any) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = self.encoder(self.store.packed(message, shape), self.poolings)
        return made

    def tokens(self, rows: Rows) -> int:
        return self.store.count(rows)


class Cached:
    """Views of a frozen encoder, computed once; several lie side by side in one matrix."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]], lengths: Rows, device: torch.device) -> None:
        self.lengths, self.device = lengths, device
        self.names, self.arrays = list(arrays), list(arrays.values())

    def load(self, rows: Rows, static: bool = False) -> tuple[Tensor, Hashable]:
        part = np.concatenate([array[rows].astype(np.float32) for array in self.arrays], axis=1)
        return send(part, self.device), len(rows)

    def views(self, message: Tensor, shape: Any) -> Mapping[str, Tensor]:
        parts = torch.split(message, [array.shape[1] for array in self.arrays], dim=1)
        return dict(zip(self.names, parts, strict=True))

    def tokens(self, rows: Rows) -> int:
        return int(self.lengths[rows].sum())
