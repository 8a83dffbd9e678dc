"""Where a batch's views come from: an encoder that is trained too, or vectors computed once by a frozen one.

Where the pooling of windows is learned, a frozen encoder's vectors are those of windows, and pooled in every step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.tensors.handover import send
from treetop.tensors.packed import SPARE, Shape, TokenRows
from treetop.train.batches import Message, Rows


class Inputs(Protocol):
    """Where a batch's views come from."""

    device: torch.device
    pools: nn.Module | None  # what pools windows, where that is learned

    @property
    def lengths(self) -> Rows:
        """(rows,) lengths; batches sorted by them cost least."""
        ...

    def load(self, rows: Rows, static: bool = False) -> Message:
        """The message to the device for these rows."""
        ...

    def views(self, message: Message, detached: Collection[str] = ()) -> Mapping[str, Tensor]:
        """Named views of the rows of a message; gradients of `detached` ones do not reach what views share."""
        ...

    def tokens(self, rows: Rows) -> int: ...


class Encoded:
    """Views computed by an encoder that is trained too."""

    def __init__(
        self, encoder: Any, store: TokenRows, poolings: Sequence[Any], *, compiled: bool = False,
        pools: nn.Module | None = None,
    ) -> None:  # fmt: skip
        """`encoder(packed, poolings, detached)` gives the views: a transformer, or a network over words."""
        self.encoder, self.store, self.poolings, self.pools = encoder, store, list(poolings), pools
        self.device = store.device
        self._compiled = compiled

    @property
    def lengths(self) -> Rows:
        return self.store.lengths if self.store.rows is None else np.diff(self.store.rows)

    def over(self, store: TokenRows) -> Encoded:
        """The views of other texts by the same encoder."""
        return Encoded(self.encoder, store, self.poolings, compiled=self._compiled, pools=self.pools)

    def use_fast_layers(self) -> None:
        """Put faster layers in place for training on a GPU."""
        if self.device.type == "cuda":
            self.encoder.compile_layers() if self._compiled else self.encoder.fuse_layers()

    def load(self, rows: Rows, static: bool = False) -> Message:
        places, shape = self.store.describe(rows, static)
        return Message({"places": send(places, self.device)}, shape)

    def views(self, message: Message, detached: Collection[str] = ()) -> Mapping[str, Tensor]:
        packed = self.store.packed(message["places"], cast(Shape, message.facts))
        return self.encoder(packed, self.poolings, detached)

    def tokens(self, rows: Rows) -> int:
        return self.store.count(rows)


class Cached:
    """Views of a frozen encoder, computed once; several are concatenated in one matrix."""

    pools: nn.Module | None = None

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]], token_counts: Rows, device: torch.device) -> None:
        self.token_counts, self.device = token_counts, device
        self.names, self.arrays = list(arrays), list(arrays.values())

    @property
    def lengths(self) -> Rows:
        return np.zeros(len(self.token_counts), np.int64)

    def load(self, rows: Rows, static: bool = False) -> Message:
        return Message({"views": send(self._gathered(rows), self.device)}, len(rows))

    def views(self, message: Message, detached: Collection[str] = ()) -> Mapping[str, Tensor]:
        parts = torch.split(message["views"], [array.shape[1] for array in self.arrays], dim=1)
        return dict(zip(self.names, parts, strict=True))

    def tokens(self, rows: Rows) -> int:
        return int(self.token_counts[rows].sum())

    def _gathered(self, rows: Rows) -> NDArray[np.float32]:
        return np.concatenate([array[rows].astype(np.float32) for array in self.arrays], axis=1)


@dataclass(frozen=True, eq=False)
class Windows:
    """Which windows belong to a text (`rows`, (texts + 1,)), and what pools them, by view; `unit`: to length 1."""

    rows: Rows
    pools: nn.ModuleDict
    unit: bool = False


class CachedWindows(Cached):
    """Views of windows by a frozen encoder, computed once; the pooling learns."""

    def __init__(
        self, arrays: Mapping[str, NDArray[np.generic]], windows: Windows, token_counts: Rows, device: torch.device
    ) -> None:
        super().__init__(arrays, token_counts, device)
        self.windows, self.pools = windows, windows.pools.to(device)

    def load(self, rows: Rows, static: bool = False) -> Message:
        first, counts = self.windows.rows[rows], self.windows.rows[rows + 1] - self.windows.rows[rows]
        owner = np.repeat(np.arange(len(rows)), counts)
        chosen = first[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        if static:  # few shapes: windows of no row fill up
            spare = -len(owner) % SPARE
            chosen, owner = (
                np.concatenate([part, np.full(spare, fill)]) for part, fill in ((chosen, 0), (owner, len(rows)))
            )
        tensors = {"views": send(self._gathered(chosen), self.device), "owner": send(owner, self.device)}
        return Message(tensors, (len(rows), len(owner)))

    def views(self, message: Message, detached: Collection[str] = ()) -> Mapping[str, Tensor]:
        rows, _ = cast("tuple[int, int]", message.facts)
        found = {}
        for name, vectors in super().views(message).items():
            view = self.windows.pools[name](vectors, message["owner"], rows)
            view = F.normalize(view, dim=1) if self.windows.unit else view
            found[name] = view.detach() if name in detached else view
        return found
