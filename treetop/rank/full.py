"""The full classifier while it learns: every label for every document, logits never kept, updated in the same pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from treetop.kernels.full_bce import Loss, Positives, full_loss
from treetop.train.devices import ALONE, World, compute_type
from treetop.train.optim import AdamConfig

BLOCK = 1 << 27  # logits held at a time
EVERY = 8  # steps between two losses as numbers; gradients do not need them


class FullTable:
    """(n, width) vectors with biases over all labels; over several processes the rows are shared out."""

    def __init__(
        self,
        n: int,
        width: int,
        config: AdamConfig,
        device: torch.device,
        *,
        loss: Loss = "bce",
        world: World = ALONE,
    ) -> None:
        self.n, self.width, self.config, self.loss, self.world = n, width, config, loss, world
        self.low, self.high = world.share(n)
        rows = self.high - self.low
        self.weight, self.bias = torch.zeros(rows, width, device=device), torch.zeros(rows, device=device)
        self.first = [torch.zeros_like(self.weight), torch.zeros_like(self.bias)]
        self.second = [torch.zeros_like(self.weight), torch.zeros_like(self.bias)]
        self.steps = torch.zeros((), device=device)
        self.kind = compute_type(device)
        self.factor, self.fuse, self.updated = 1.0, False, False
        self.grads: list[Tensor] = []  # only while a step consists of several micro-batches
        self._count, self._call = 0, 0  # steps, and losses asked for in this step
        self._last: list[Tensor] = []  # the losses of the last step that computed them

    def fill(self, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        """Start from `weight` (n, width) and `bias` (n,); each process takes its rows."""
        with torch.no_grad():
            if weight is not None:
                self.weight.copy_(weight[self.low : self.high])
            if bias is not None:
                self.bias.copy_(bias[self.low : self.high])

    def score_loss(self, h: Tensor, positives: Positives, scale: float) -> Tensor:
        """`scale` times the summed loss of these vectors; `positives` are those of all processes' rows."""
        made: Tensor = _FullLoss.apply(h, self, positives, scale)  # type: ignore[no-untyped-call]
        return made

    @torch.no_grad()
    def best(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """(margins, labels) of the best `k` of each row, highest first (this process's rows of the table)."""
        h = h.to(self.kind)
        block = max(k, BLOCK // max(1, len(h)))
        found: list[tuple[Tensor, Tensor]] = []
        for start in range(0, len(self.weight), block):
            part = slice(start, start + block)
            z = torch.addmm(self.bias[part].to(self.kind), h, self.weight[part].to(self.kind).T)
            top = torch.topk(z.float(), min(k, z.shape[1]), dim=1)
            found.append((top.values, top.indices + start))
        values, ids = torch.cat([v for v, _ in found], 1), torch.cat([i for _, i in found], 1)
        top = torch.topk(values, min(k, values.shape[1]), dim=1)
        return top.values, ids.gather(1, top.indices) + self.low

    # --- the loop's side ---

    def prepare(self, factor: float, fuse: bool) -> None:
        self.factor, self.fuse = factor, fuse
        self._call = 0

    def remember(self, loss: Tensor) -> Tensor:
        """The loss of this call, or what it was a few steps ago where only the gradient was computed."""
        self._call += 1
        if self.value:
            self._last = [*self._last[: self._call - 1], loss]
            return loss
        return loss + self._last[min(self._call, len(self._last)) - 1]

    @property
    def value(self) -> bool:
        """Whether this step's losses are computed as numbers."""
        return self._count % EVERY == 0 or not self._last

    def forget(self) -> None:
        self.grads.clear()

    def state(self) -> dict[str, Tensor]:
        return {
            "weight": self.weight, "bias": self.bias, "first": self.first[0], "first_bias": self.first[1],
            "second": self.second[0], "second_bias": self.second[1], "steps": self.steps,
        }  # fmt: skip

    def weights(self) -> dict[str, Tensor]:
        return {"weight": self.weight, "bias": self.bias}

    @torch.no_grad()
    def apply(self) -> None:
        if self.grads and not self.updated:
            self._adam(0, len(self.weight), *self.grads)
        if self.grads or self.updated:
            self.steps += 1
            self._count += 1
        self.grads, self.updated = [], False

    def take(self, start: int, stop: int, weight: Tensor, bias: Tensor | None) -> None:
        """The gradient of a block of rows: used at once, or kept until `apply`."""
        slope = torch.zeros_like(self.bias[start:stop]) if bias is None else bias
        if self.updated:  # memory ran out behind an update that was made: not twice
            return
        if self.fuse:
            self._adam(start, stop, weight.float(), slope)
            return
        self.grads[0][start:stop] += weight
        self.grads[1][start:stop] += slope

    def _adam(self, start: int, stop: int, weight: Tensor, bias: Tensor) -> None:
        c = self.config
        now = self.steps + 1
        for i, (held, grad, decay) in enumerate(((self.weight, weight, c.weight_decay), (self.bias, bias, 0.0))):
            torch._fused_adamw_(
                [held[start:stop]], [grad], [self.first[i][start:stop]], [self.second[i][start:stop]], [], [now],
                lr=c.lr * self.factor, beta1=c.beta1, beta2=c.beta2, weight_decay=decay, eps=c.eps,
                amsgrad=False, maximize=False,
            )  # fmt: skip


class _FullLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, table: FullTable, positives: Positives, scale: float) -> Tensor:
        world = table.world
        if not (table.fuse or table.grads):
            table.grads = [torch.zeros_like(table.weight), torch.zeros_like(table.bias)]
        everyone = world.gather(h.detach().to(table.kind))
        shifted = Positives(positives.row, positives.column - table.low, positives.target, positives.strength)
        loss, grad = full_loss(
            everyone, table.weight, table.bias, shifted,
            scale=scale, block=max(1, BLOCK // max(1, len(everyone))), update=table.take,
            loss=table.loss, value=table.value,
        )  # fmt: skip
        table.updated = table.updated or table.fuse
        ctx.save_for_backward(world.sum(grad)[world.rank * len(h) : (world.rank + 1) * len(h)].to(h.dtype))
        return table.remember(loss)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * grads[0], None, None, None
