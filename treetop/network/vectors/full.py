"""The full classifier in training: every label for every document, no stored logits, updated in the same pass."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.kernels.gpu.full_bce import Loss, Positives, full_loss
from treetop.network.vectors.contract import Free, GivesRows
from treetop.tensors.devices import ALONE, World, compute_type
from treetop.train.optim import AdamConfig, Rates
from treetop.train.task import Table

BLOCK = 1 << 27  # logits held at a time
ALIGN = 64  # rows are rounded up to this: matrix units are slow on odd sizes
VOID = -3e4  # bias of such a row: no probability, no gradient


class EveryLabel(Free):
    """(n, width) vectors with biases over all labels; over several processes the rows are sharded.

    Subclasses say what a step does and which states they keep. Their loss is a one-pass twin of `losses/bce.py` (or
    `losses/squared_hinge.py`) over `candidates/everything.py`: no logit is ever kept.
    """

    module = None
    from_texts = False

    def __init__(
        self, n: int, width: int, device: torch.device, *, rate: float, bias: bool, world: World, kind: torch.dtype
    ) -> None:
        self.n, self.width, self.world, self.learns_bias = n, width, world, bias
        self.low, self.high = world.share(n)
        self.rows = self.high - self.low
        rows = -(-self.rows // ALIGN) * ALIGN
        self._weight = torch.zeros(rows, width, device=device, dtype=kind)
        self._bias = torch.zeros(rows, device=device)
        self._bias[self.rows :] = VOID
        self.kind = compute_type(device)
        self.rates = Rates([rate], device)
        self.value, self.updated = True, False  # whether the loss is wanted, whether this step's update is made

    @torch.no_grad()
    def init(self, vectors: Tensor, bias: Tensor | None = None) -> None:
        self.weight.copy_(vectors[self.low : self.high])
        if self.learns_bias and bias is not None:
            self.bias.copy_(bias[self.low : self.high])

    def score_loss(self, h: Tensor, positives: Positives, scale: float, count: int | None = None) -> Tensor:
        """`scale` times the summed loss of these vectors; `positives` are those of all processes' rows.

        Only the first `count` rows of all processes count, where it is given.
        """
        return _FullLoss.apply(h, self, positives, scale, count)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def best(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """(margins, labels) of the best `k` of each row, highest first; all processes ask for the same rows."""
        h = h.float()  # logits of low precision tie
        block = max(k, BLOCK // max(1, len(h)))
        found: list[tuple[Tensor, Tensor]] = []
        for start in range(0, len(self.weight), block):
            part = slice(start, start + block)
            z = torch.addmm(self.bias[part], h, self.weight[part].float().T)
            top = torch.topk(z, min(k, z.shape[1]), dim=1)
            found.append((top.values, top.indices + start))
        values, ids = torch.cat([v for v, _ in found], 1), torch.cat([i for _, i in found], 1)
        values, ids = _highest(values, ids + self.low, k)
        if self.world.size > 1:  # parts may differ in width: fill up, then lay them side by side
            more = k - values.shape[1]
            values, ids = F.pad(values, (0, more), value=float("-inf")), F.pad(ids, (0, more))
            values, ids = (torch.cat(self.world.gather(x).chunk(self.world.size), 1) for x in (values, ids))
            values, ids = _highest(values, ids, min(k, self.n))
        return values, ids

    @property
    def weight(self) -> Tensor:
        """(rows of this process, width)"""
        return self._weight[: self.rows]

    @property
    def bias(self) -> Tensor:
        """(rows of this process,)"""
        return self._bias[: self.rows]

    @property
    def table(self) -> Table:
        return cast(Table, self)  # subclasses are: they say what the loop's calls do

    def weights(self) -> dict[str, Tensor]:
        return {"weight": self.weight, "bias": self.bias}

    def divided(self) -> dict[str, int]:
        return dict.fromkeys(("weight", "bias", "first", "first_bias", "second", "second_bias"), self.n)

    def whole(self) -> tuple[Tensor, Tensor]:
        """(n, width) vectors as they are held and (n,) biases, of all processes."""
        if self.world.size == 1:
            return self.weight, self.bias
        return self.world.rows(self.weight.float(), self.n), self.world.rows(self.bias, self.n)

    @abstractmethod
    def learn(self, h: Tensor, positives: Positives, scale: float) -> tuple[Tensor, Tensor]:
        """(loss, gradient over h) of all processes' vectors with this one's rows, which learn from it."""


class FullTable(EveryLabel, GivesRows):
    """Float32 vectors with Adam's two moments: 12 bytes per parameter."""

    def __init__(
        self,
        n: int,
        width: int,
        config: AdamConfig,
        device: torch.device,
        *,
        loss: Loss = "bce",
        bias: bool = True,
        world: World = ALONE,
        separate: bool = False,
    ) -> None:
        """`separate`: gradients also come from elsewhere (`vectors`), so that none is used at once."""
        super().__init__(n, width, device, rate=config.lr, bias=bias, world=world, kind=torch.float32)
        self.config, self.loss, self.separate = config, loss, separate
        self.first = [torch.zeros_like(self._weight), torch.zeros_like(self._bias)]
        self.second = [torch.zeros_like(self._weight), torch.zeros_like(self._bias)]
        self.steps = torch.zeros((), device=device)
        self.fuse = False
        self.grads: list[Tensor] = []  # only while a step consists of several micro-batches

    def learn(self, h: Tensor, positives: Positives, scale: float) -> tuple[Tensor, Tensor]:
        if not (self.fuse or self.grads):
            self.grads = [torch.zeros_like(self._weight), torch.zeros_like(self._bias)]
        loss = full_loss(
            h,
            self._weight,
            self._bias,
            positives,
            scale=scale,
            block=max(ALIGN, BLOCK // max(1, len(h)) // ALIGN * ALIGN),
            update=self.take,
            loss=self.loss,
            value=self.value,
        )
        self.updated = self.updated or self.fuse
        return loss

    def vectors(self, ids: Tensor) -> Tensor:
        """For additional losses; needs `separate`, in one process."""
        anchor = torch.zeros((), device=self._weight.device, requires_grad=torch.is_grad_enabled())
        return _RowsAt.apply(anchor, ids, self)  # type: ignore[no-untyped-call]

    # --- the loop's side ---

    def prepare(self, factor: float, *, fuse: bool, value: bool) -> None:
        self.rates.set(factor)
        self.fuse, self.value = fuse and not self.separate, value

    def forget(self) -> None:
        self.grads.clear()

    def state(self) -> dict[str, Tensor]:
        names = ("weight", "bias", "first", "first_bias", "second", "second_bias")
        tensors = (self._weight, self._bias, *self.first, *self.second)
        return {name: tensor[: self.rows] for name, tensor in zip(names, tensors, strict=True)} | {"steps": self.steps}

    @torch.no_grad()
    def apply(self) -> None:
        if self.grads and not self.updated:
            self._adam(0, len(self._weight), *self.grads)
        if self.grads or self.updated:
            self.steps += 1
        self.grads, self.updated = [], False

    def take(self, start: int, stop: int, weight: Tensor, bias: Tensor | None) -> None:
        """The gradient of a block of rows: used at once, or kept until `apply`."""
        slope = torch.zeros_like(self._bias[start:stop]) if bias is None else bias
        if self.updated:  # memory ran out after the update: do not update twice
            return
        if self.fuse:
            self._adam(start, stop, weight.float(), slope)
            return
        self.grads[0][start:stop] += weight
        self.grads[1][start:stop] += slope

    def _adam(self, start: int, stop: int, weight: Tensor, bias: Tensor) -> None:
        c = self.config
        now = self.steps + 1
        groups = ((self._weight, weight, c.weight_decay), (self._bias, bias, 0.0))
        for i, (held, grad, decay) in enumerate(groups if self.learns_bias else groups[:1]):
            torch._fused_adamw_(
                [held[start:stop]], [grad], [self.first[i][start:stop]], [self.second[i][start:stop]], [], [now],
                lr=self.rates.now[0], beta1=c.beta1, beta2=c.beta2, weight_decay=decay, eps=c.eps,
                amsgrad=False, maximize=False,
            )  # fmt: skip


def _highest(values: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    top = torch.topk(values, min(k, values.shape[1]), dim=1)
    return top.values, ids.gather(1, top.indices)


class _FullLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, table: EveryLabel, positives: Positives, scale: float, count: int | None
    ) -> Tensor:
        world = table.world
        everyone = world.gather(h.detach().to(table.kind))[:count]
        # Labels of other processes are moved out of reach; -1 is void.
        column = positives.column - table.low
        column = torch.where((positives.column >= 0) & (column < table.rows), column, -1)
        loss, grad = table.learn(
            everyone, Positives(positives.row, column, positives.target, positives.strength), scale
        )
        own = world.sum(grad)[world.rank * len(h) : (world.rank + 1) * len(h)].to(h.dtype)
        ctx.save_for_backward(F.pad(own, (0, 0, 0, len(h) - len(own))))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        return ctx.saved_tensors[0] * grads[0], None, None, None, None


class _RowsAt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, ids: Tensor, table: FullTable) -> Tensor:
        ctx.table, ctx.ids = table, ids
        return table._weight[ids]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        ctx.table.grads[0].index_add_(0, ctx.ids, grads[0].float())
        return None, None, None
