"""Where a batch's views come from: an encoder that learns too, or vectors computed once by a frozen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.features.encoder import Encoder, Pooling
from treetop.train.batches import Rows, TokenRows


class Inputs(Protocol):
    """Where a batch's views come from."""

    device: torch.device

    def views(self, rows: Rows) -> Mapping[str, Tensor]: ...
    def tokens(self, rows: Rows) -> int: ...


class Encoded:
    """Views computed by an encoder that learns too."""

    def __init__(self, encoder: Encoder, store: TokenRows, poolings: Sequence[Pooling]) -> None:
        self.encoder, self.store, self.poolings = encoder, store, list(poolings)
        self.device = store.device

    def views(self, rows: Rows) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = self.encoder(self.store.gather(rows), self.poolings)
        return made

    def tokens(self, rows: Rows) -> int:
        return self.store.count(rows)


class Cached:
    """Views of a frozen encoder, computed once."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]], lengths: Rows, device: torch.device) -> None:
        self.arrays, self.lengths, self.device = arrays, lengths, device

    def views(self, rows: Rows) -> Mapping[str, Tensor]:
        return {
            name: torch.from_numpy(array[rows].astype(np.float32)).to(self.device)
            for name, array in self.arrays.items()
        }

    def tokens(self, rows: Rows) -> int:
        return int(self.lengths[rows].sum())
