"""Views of texts by a network that learns: tokens in, one vector per text and view out.

Texts run through the network packed by length; on the CPU in float32, one thread to a batch, so that bits do not
depend on the number of threads; on a GPU in bfloat16.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core.abilities import Gradient, MovesToDevice, Shares, SharesOut
from treetop.core.errors import ModelError
from treetop.core.log import progress
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.features.encoder.tokens import Tokenizer, Tokens
from treetop.features.integrated import Pieces, integrated, shared
from treetop.features.pullback import Pullback, linear, normalised
from treetop.features.views import Views
from treetop.kernels.runtime import threads
from treetop.tensors import devices
from treetop.tensors.packed import Packed, TokenRows

CPU_BATCH, GPU_BATCH = 32, 2048  # sequences at a time


class Named(Protocol):
    """A view of a network."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


class Learned(MovesToDevice, SharesOut, Generic[P]):
    """Interface of such networks to levels and to training; `name` distinguishes those of one model.

    `encoder(packed, poolings)` gives view name -> (rows, width); it knows `view_width(pooling)` and `lay_out()`, which
    makes prediction on a CPU fast.
    """

    kind: ClassVar[str]

    def __init__(
        self, encoder: Any, tokenizer: Tokenizer, poolings: Sequence[P], *, l2: bool = False, name: str = "encoder",
        device: torch.device | None = None,
    ) -> None:  # fmt: skip
        self.encoder, self.tokenizer, self.poolings = encoder, tokenizer, tuple(poolings)
        self.l2, self.name = l2, name
        self.device = device or torch.device("cpu")
        self._packed = False  # whether its layers are laid out for a CPU

    def view_name(self, pooling: P) -> str:
        """What a level calls this view."""
        return f"{self.name}/{pooling.name}"

    def named(self, name: str) -> Self:
        """The same under another name."""
        copy_ = copy.copy(self)
        copy_.name = name
        return copy_

    def views(self, texts: Texts) -> Mapping[str, NDArray[np.float32]]:
        views_: dict[str, NDArray[np.float32]] = {}

        def get(name: str) -> NDArray[np.float32]:
            if not views_:
                views_.update(self.vectors(self.tokenizer.encode(texts)))
            return views_[name]

        names = [self.view_name(pooling) for pooling in self.poolings]
        return Views({name: partial(get, name) for name in names})

    def vectors(self, tokens: Tokens, *, say: str | None = None) -> dict[str, NDArray[np.float32]]:
        """(rows, width) per view for tokenised texts; `say` is the title of the progress bar."""
        size = CPU_BATCH if self.device.type == "cpu" else GPU_BATCH
        order = np.argsort(tokens.lengths, kind="stable")
        store = TokenRows(tokens.ids, tokens.offsets, self.device, tokens.rows)
        views_ = {
            self.view_name(p): np.empty((len(tokens), self.encoder.view_width(p)), np.float32) for p in self.poolings
        }
        if self.encoder.training:
            self.encoder.eval()
        if self.device.type == "cpu" and not self._packed:
            self.encoder.lay_out()
            self._packed = True

        def block(start: int, stop: int) -> tuple[Any, dict[str, NDArray[np.float32]]]:
            rows = order[start:stop]
            with torch.inference_mode():
                found = self._run(store.gather(rows))
                return rows, {name: self._finish(vector) for name, vector in found.items()}

        ranges = threads.blocks(len(tokens), size)
        with devices.one_cpu_thread(), progress(say or "encoding", len(tokens)) as bar:
            for rows, found in (
                threads.stream(block, ranges) if self.device.type == "cpu" else map(_call(block), ranges)
            ):
                for pooling in self.poolings:
                    views_[self.view_name(pooling)][rows] = self._finite(found[pooling.name])
                bar.step(len(rows))
        return views_

    def _run(self, packed: Packed) -> dict[str, torch.Tensor]:
        try:
            views_: dict[str, torch.Tensor] = self.encoder(packed, self.poolings)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            raise ModelError(
                f"{self.kind}: its network cannot read a text ({reason}). Its settings do not fit its weights; copy it "
                "again."
            ) from error
        return views_

    def _finish(self, vector: torch.Tensor) -> NDArray[np.float32]:
        if self.l2:
            vector = torch.nn.functional.normalize(vector.float(), dim=1)
        return vector.float().cpu().numpy()

    def _finite(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.isfinite(vectors).all():
            raise ModelError(
                f"{self.kind}: it turns a text into a vector with NaN or infinite values, so its weights are damaged "
                "or too large. Copy or train it again."
            )
        return vectors

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        for pooling in self.poolings:
            if self.view_name(pooling) == view:
                width = self.encoder.view_width(pooling)
                return self.shares_of(text, pooling, [linear(g.dense(width)) for g in gradients])
        return None

    def shares_of(self, text: str, pooling: P, outers: Sequence[Pullback]) -> list[Shares]:
        """What words add to functions of a view, by integrated gradients."""
        pieces = Pieces(*self.tokenizer.places(text))
        if self.encoder.training:
            self.encoder.eval()
        outers = [normalised(outer) for outer in outers] if self.l2 else outers
        blank = self.encoder.blank(self.tokenizer.blank)
        return shared(text, pieces, integrated(self.encoder, pieces, blank, pooling, outers, self.device))

    def to(self, device: torch.device) -> Self:
        """The same on another device, in the number type that suits it."""
        self.encoder.to(device=device, dtype=devices.compute_type(device))
        self.device = device
        return self

    def to_part(self) -> Part:
        """The component as data."""
        raise NotImplementedError

    @classmethod
    def from_part(cls, part: Part) -> Self:
        """The component from checked data."""
        raise NotImplementedError


def _call(function: Any) -> Any:
    return lambda span: function(*span)
