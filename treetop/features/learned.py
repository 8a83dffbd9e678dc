"""Views of texts by a network that learns: tokens in, one vector per text and view out.

Texts run through the network packed by length; on the CPU in float32, one thread to a batch, so that bits do not
depend on the number of threads. On a GPU training uses bfloat16, prediction float32, which gives the scores of the CPU
to the last digits; its vectors stay there.
"""

from __future__ import annotations

import contextvars
import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core import deadline
from treetop.core.abilities import CutsTexts, Gradient, HasFastForm, MovesToDevice, Shares, SharesOut
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
from treetop.tensors.rows import DeviceRows

CPU_BATCH, GPU_BATCH = 32, 2048  # sequences at a time
GPU_TOKENS = 1 << 17  # tokens at a time in prediction on a GPU


class Named(Protocol):
    """A view of a network."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


class Learned(MovesToDevice, HasFastForm, SharesOut, CutsTexts, Generic[P]):
    """Interface of such networks to levels and to training; `name` distinguishes those of one model.

    `encoder(packed, poolings)` gives view name -> (rows, width); it knows `view_width(pooling)` and `lay_out()`, which
    makes prediction on a CPU fast.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        encoder: Any,
        tokenizer: Tokenizer,
        poolings: Sequence[P],
        *,
        l2: bool = False,
        name: str = "encoder",
        device: torch.device | None = None,
    ) -> None:
        self.encoder, self.tokenizer, self.poolings = encoder, tokenizer, tuple(poolings)
        self.l2, self.name = l2, name
        self.device = device or torch.device("cpu")
        self._packed = False  # whether its layers are laid out for a CPU
        self.keeps_views = False  # whether views stay on the device

    @property
    def window_pools(self) -> torch.nn.ModuleDict | None:
        """What pools the windows of a text, by view, where that is learned."""
        return None

    def view_name(self, pooling: P) -> str:
        """What a level calls this view."""
        return f"{self.name}/{pooling.name}"

    def named(self, name: str) -> Self:
        """The same under another name."""
        copy_ = copy.copy(self)
        copy_.name = name
        return copy_

    def views(self, texts: Texts) -> Mapping[str, Any]:
        """Arrays; on a device that it was moved to for prediction `DeviceRows`, for which tokenising begins at once."""
        views_: dict[str, Any] = {}
        begun = _in_background(self.tokenizer.encode, texts) if self.keeps_views and len(texts) else None

        def get(name: str) -> Any:
            if not views_:
                tokens = self.tokenizer.encode(texts) if begun is None else begun.result()
                views_.update(self.device_vectors(tokens) if self.keeps_views else self.vectors(tokens))
            return views_[name]

        names = [self.view_name(pooling) for pooling in self.poolings]
        return Views({name: partial(get, name) for name in names})

    def cut(self, texts: Texts) -> Mapping[int, NDArray[np.bool_]]:
        return self.tokenizer.cut(texts)

    def vectors(self, tokens: Tokens, *, say: str | None = None) -> dict[str, NDArray[np.float32]]:
        """(rows, width) per view for tokenised texts; `say` is the title of the progress bar."""
        size = CPU_BATCH if self.device.type == "cpu" else GPU_BATCH
        if tokens.rows is not None:
            size = max(1, size // int(np.diff(tokens.rows).max(initial=1)))
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
                deadline.check("encoding")
        return views_

    def device_vectors(self, tokens: Tokens) -> dict[str, DeviceRows]:
        """The same, left on the device; batches hold about as many tokens each."""
        order = np.argsort(tokens.lengths, kind="stable")
        store = TokenRows(tokens.ids, tokens.offsets, self.device, tokens.rows)
        ends = np.cumsum(tokens.lengths[order]) // GPU_TOKENS
        self.encoder.eval()
        with torch.inference_mode(), devices.full_precision(), progress("encoding", len(tokens)) as bar:
            views_ = {p.name: torch.empty(len(tokens), self.encoder.view_width(p), device=self.device)
                      for p in self.poolings}  # fmt: skip
            for rows in np.split(order, np.flatnonzero(np.diff(ends)) + 1) if len(order) else []:
                places = torch.from_numpy(rows).to(self.device)
                for name, vector in self._run(store.gather(rows)).items():
                    views_[name][places] = self._scaled(vector)
                bar.step(len(rows))
            for vectors in views_.values():
                self._check_finite(bool(torch.isfinite(vectors).all()))
        return {self.view_name(p): DeviceRows(views_[p.name]) for p in self.poolings}

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
        return self._scaled(vector).cpu().numpy()

    def _scaled(self, vector: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(vector.float(), dim=1) if self.l2 else vector.float()

    def _finite(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        self._check_finite(bool(np.isfinite(vectors).all()))
        return vectors

    def _check_finite(self, finite: bool) -> None:
        if not finite:
            raise ModelError(
                f"{self.kind}: it turns a text into a vector with NaN or infinite values, so its weights are damaged "
                "or too large. Copy or train it again."
            )

    def move(self, device: torch.device) -> Self:
        """Itself on another device, for training: in the number type that suits it there."""
        self.encoder.to(device=device, dtype=devices.compute_type(device))
        self.device, self.keeps_views = device, False
        return self

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        for pooling in self.poolings:
            if self.view_name(pooling) == view:
                width = self.encoder.view_width(pooling)
                return self.shares_of(text, pooling, [linear(g.dense(width)) for g in gradients])
        return None

    def shares_of(self, text: str, pooling: P, outers: Sequence[Pullback]) -> list[Shares]:
        """What words add to functions of a view, by integrated gradients.

        The weights ask for no gradient: threads that share a leaf of the graph can wait for each other for ever (one
        holds the leaf's lock and wants the GIL, the other holds the GIL and wants the lock; torch 2.13).
        """
        pieces = Pieces(*self.tokenizer.places(text))
        if self.encoder.training:
            self.encoder.eval()
        self.encoder.requires_grad_(False)
        outers = [normalised(outer) for outer in outers] if self.l2 else outers
        blank = self.encoder.blank(self.tokenizer.blank)
        return shared(text, pieces, integrated(self.encoder, pieces, blank, pooling, outers, self.device))

    def fast(self) -> Self:
        """Itself: a network of its own kind says otherwise."""
        return self

    def to(self, device: torch.device) -> Self:
        """A copy on another device for prediction, in float32."""
        return self if self.device == device else self.copied(device, keeps_views=device.type != "cpu")

    def copied(self, device: torch.device, *, keeps_views: bool) -> Self:
        """A copy on a device, whose views stay there or not."""
        copy_ = type(self).from_part(self.to_part())
        copy_.encoder.to(device=device)
        copy_.device, copy_.keeps_views = device, keeps_views
        return copy_

    def to_part(self) -> Part:
        """The component as data."""
        raise NotImplementedError

    @classmethod
    def from_part(cls, part: Part) -> Self:
        """The component from checked data."""
        raise NotImplementedError


def _in_background(work: Callable[[Texts], Tokens], texts: Texts) -> Future[Tokens]:
    """Start some work on another thread, which keeps to the same number of threads (`threads.limited`)."""
    pool = ThreadPoolExecutor(1, "tokenise")
    begun = pool.submit(contextvars.copy_context().run, work, texts)
    pool.shutdown(wait=False)
    return begun


def _call(function: Any) -> Any:
    return lambda span: function(*span)
