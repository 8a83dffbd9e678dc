"""Views that are token sequences: one state per word of a text, which label attention reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.core.types import DeviceView

Rows = NDArray[np.int64]
ROWS, TOKENS = 32, 1 << 14  # texts at a time on a CPU, tokens at a time on a GPU


@dataclass(frozen=True, eq=False)
class Sequences:
    """States of the tokens of some texts, padded with zeros to the longest."""

    states: Tensor  # (rows, tokens, width)
    there: Tensor  # (rows, tokens) False: padding

    def __len__(self) -> int:
        return len(self.states)

    @property
    def means(self) -> Tensor:
        """(rows, width) float32; 0 for a text without tokens."""
        return self.states.float().sum(1) / self.there.sum(1).clamp_min(1)[:, None]


class SequenceRows(DeviceView):
    """Rows of a token-sequence view, computed a few at a time when they are read; as a matrix, the mean of each text.

    A state per word of many texts would not fit into memory.
    """

    def __init__(self, read: Callable[[Rows], Sequences], lengths: Rows, width: int, device: torch.device) -> None:
        self.read, self.lengths, self.width, self.device = read, lengths, width, device
        self.rows = np.arange(len(lengths))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.width

    def __getitem__(self, rows: slice) -> SequenceRows:
        part = SequenceRows(self.read, self.lengths, self.width, self.device)
        part.rows = self.rows[rows]
        return part

    def batches(self) -> list[Rows]:
        """Places of rows to read together: of about the same length, so that little is padded."""
        lengths = self.lengths[self.rows]
        order = np.argsort(lengths, kind="stable")
        if self.device.type == "cpu":
            cuts = np.arange(ROWS, len(order), ROWS)
        else:
            cuts = np.flatnonzero(np.diff(np.cumsum(np.maximum(lengths[order], 1)) // TOKENS)) + 1
        return np.split(order, cuts) if len(order) else []

    def sequences(self, places: Rows) -> Sequences:
        """The states of the rows at these places."""
        with torch.inference_mode():
            return self.read(self.rows[places])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        means = np.zeros(self.shape, dtype or np.float32)
        for places in self.batches():
            means[places] = self.sequences(places).means.cpu().numpy()
        return means
