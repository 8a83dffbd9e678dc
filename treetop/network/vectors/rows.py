"""Free label vectors whose rows are gathered, scored and updated at a cost proportional to the candidates.

The gradient exists only for the rows that were candidates, and so does the update (Adam with a step count per row, so a
rare row is treated like a fresh one). Over several processes the rows are shared out: every process scores the
candidates it owns for all documents.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from treetop.kernels.gpu import gathered_rows
from treetop.network.vectors.contract import Free, GivesLogits, GivesRows
from treetop.tensors.devices import ALONE, World
from treetop.train.optim import AdamConfig, Rates


class RowTable(Free, GivesLogits, GivesRows):
    """(n, width) float32 vectors, the last column a bias if asked for; ids of -1 are padding and score 0."""

    module = None
    from_texts = False

    def __init__(
        self,
        n: int,
        width: int,
        config: AdamConfig,
        device: torch.device,
        *,
        bias: bool = False,
        world: World = ALONE,
        host: bool = False,
    ) -> None:
        """`host`: rows and states are in host memory; a GPU reads and writes those of a step there (`take`)."""
        self.n, self.width, self.config, self.has_bias, self.world = n, width, config, bias, world
        self.device = device
        self.low, self.high = world.share(n)
        shape = (self.high - self.low, width + bias)
        where = torch.device("cpu") if host else device
        self.pinned = host and device.type == "cuda"
        tensors = [torch.zeros(shape, device=where, pin_memory=self.pinned) for _ in range(3)]
        self.weight, self.first, self.second = tensors
        self.count = torch.zeros(shape[0], dtype=torch.int32, device=where, pin_memory=self.pinned)
        self.rates = Rates([config.lr], device)
        self.pending: list[tuple[Tensor, Tensor, Tensor]] = []  # vectors, local ids, gradients of scores

    @torch.no_grad()
    def init(self, vectors: Tensor, bias: Tensor | None = None) -> None:
        self.weight[:, : self.width] = vectors[self.low : self.high]
        if self.has_bias and bias is not None:
            self.weight[:, -1] = bias[self.low : self.high]

    def whole(self) -> tuple[Tensor, Tensor]:
        """(n, width) vectors and (n,) biases, of all processes, on the device; biases it has none of are 0."""
        rows = self.world.rows(self.weight, self.n).to(self.device)  # in one piece: behind what the GPU still writes
        return rows[:, : self.width], rows[:, -1] if self.has_bias else rows.new_zeros(self.n)

    def logits(self, h: Tensor, ids: Tensor | None) -> Tensor:
        if ids is None:
            ids = torch.arange(self.n, device=h.device).expand(len(h), self.n)
        if self.has_bias:
            h = torch.cat([h, h.new_ones(len(h), 1)], 1)
        if torch.is_grad_enabled() and not h.requires_grad:
            h = h.detach().requires_grad_()  # the table learns even where its input does not
        return _Score.apply(h.float(), ids, self)  # type: ignore[no-untyped-call]

    def vectors(self, ids: Tensor) -> Tensor:
        return self.take(ids)[:, : self.width]

    def take(self, ids: Tensor) -> Tensor:
        """(ids, width) the rows with their biases, for a pool all rows of a batch share; every process gets all."""
        anchor = torch.zeros((), device=ids.device, requires_grad=torch.is_grad_enabled())
        return _Take.apply(anchor, ids, self)  # type: ignore[no-untyped-call]

    @property
    def table(self) -> RowTable:
        return self

    # --- the loop's side ---

    def prepare(self, factor: float, *, fuse: bool, value: bool) -> None:
        self.rates.set(factor)

    def forget(self) -> None:
        self.pending.clear()

    def state(self) -> dict[str, Tensor]:
        if self.pinned:  # what the GPU writes here lands later than the calls say
            torch.cuda.synchronize()
        return {"weight": self.weight, "first": self.first, "second": self.second, "count": self.count}

    def weights(self) -> dict[str, Tensor]:
        return {"weight": self.weight}

    def divided(self) -> dict[str, int]:
        return dict.fromkeys(("weight", "first", "second", "count"), self.n)

    @torch.no_grad()
    def apply(self) -> None:
        if not self.pending:
            return
        base = 0
        owners = []
        for h, ids, _ in self.pending:
            rows = torch.arange(base, base + len(h), device=h.device)
            owners.append(rows.repeat_interleave(ids.shape[1], output_size=ids.numel()))
            base += len(h)
        c = self.config
        gathered_rows.update(
            gathered_rows.Rows(self.weight, self.first, self.second, self.count, int(self.has_bias)),
            torch.cat([ids.reshape(-1) for _, ids, _ in self.pending]),
            torch.cat(owners),
            torch.cat([slope.reshape(-1) for _, _, slope in self.pending]),
            torch.cat([h for h, _, _ in self.pending]),
            rate=self.rates.now[0],
            constants=(c.weight_decay, c.beta1, c.beta2, c.eps),
        )
        self.pending.clear()

    # --- the gathered products ---

    def local(self, ids: Tensor) -> Tensor:
        """Ids inside this process's rows, -1 for padding and foreign ones."""
        return torch.where((ids >= self.low) & (ids < self.high), ids - self.low, -1)


class _Score(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, ids: Tensor, table: RowTable) -> Tensor:
        world = table.world
        everyone, local = world.gather(h), table.local(world.gather(ids))
        ctx.table, ctx.n = table, len(h)
        ctx.save_for_backward(everyone, local)
        scores = gathered_rows.dots(table.weight, local, everyone)
        return _own(world, world.sum(scores), len(h))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        table: RowTable = ctx.table
        everyone, local = ctx.saved_tensors
        slope = table.world.gather(grads[0]).masked_fill(local < 0, 0.0)
        table.pending.append((everyone, local, slope))
        grad_h = gathered_rows.weighted_sums(table.weight, local, slope)
        return _own(table.world, table.world.sum(grad_h), ctx.n), None, None


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, ids: Tensor, table: RowTable) -> Tensor:
        ctx.table, ctx.local = table, table.local(ids)
        return table.world.sum(gathered_rows.take(table.weight, ctx.local))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        # All processes have the whole gradient; each keeps that of its own rows.
        local = ctx.local[:, None]
        ctx.table.pending.append((grads[0].float().contiguous(), local, torch.ones_like(local, dtype=torch.float32)))
        return None, None, None


def _own(world: World, everyone: Tensor, n: int) -> Tensor:
    return everyone[world.rank * n : (world.rank + 1) * n]
