"""InceptionXML's network for short texts: self-attention over words, then convolutions along the embedding dimension.

A text is a rectangle (words x width). Self-attention mixes it in both directions, a linear layer turns words into
filters, and convolutions of three sizes run over the width (not over the words). In the newer form (`routed`) a text
decides how much each size and the plain mean count, and every task has a second convolution of its own; in the older
one (`concat`) the sizes are concatenated and tasks share all convolutions.

Deviations: the products of attention are taken in the order that costs words² x width, never width² x words (the same
numbers); a batch is as wide as its longest text, as padding stays zero up to the linear layer over words; the order
inside a view is position, then filter; the route is a softmax over a linear layer on the mean over the width, which the
paper leaves open. All convolutions have stride 4, so they are matrix products over blocks of four.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.features.words.layers import BatchNorm, Spectral, Task, WordNet
from treetop.tensors.packed import Packed

TASKS = (Task("meta"), Task("extreme"))
KERNELS = (4, 8, 16)
STRIDE = 4
WIDEST = KERNELS[-1]
EDGE = (WIDEST - STRIDE) // 2  # of the ring on either side, so that all kernels give width / 4


@dataclass(frozen=True, kw_only=True)
class InceptionConfig:
    """Shape of the network."""

    filters: int = setting(32, "filters per convolution", low=1, high=1024)
    combine: Literal["routed", "concat"] = setting(
        "routed", "combine kernel sizes by a routing weight per text, or concatenate them"
    )
    attention: bool = setting(True, "self-attention over words and over embedding dimensions before the convolutions")
    dropout: float = setting(0.25, "dropout on words, on filters and before the last layer", low=0.0, high=0.99)
    reduce_to_word_dim: bool = setting(
        False, "reduce views to the word-vector dimension (average pooling as residual of the last layer)"
    )


class LaidOut(NamedTuple):
    """Weights laid out for the matrix products; once for prediction, in every step of training."""

    look_words: Tensor  # (length, length) with its scale
    look_width: Tensor  # (width, width) with its scale
    project: Tensor  # (length, filters)
    bank: Tensor  # (4 filters, 4 x out) or (4 kinds, 4 filters, 4 filters)
    bank_bias: Tensor  # (out,) or (4 kinds, filters)
    second: list[Tensor]  # (4 into, taps x filters)
    last: list[Tensor]  # (view, features)
    norms: list[Callable[[Tensor], Tensor]]  # after the filters, the mix and each second convolution


class Inception(WordNet):
    """Views `meta` and `extreme` of texts, each (rows, filters x positions)."""

    def __init__(self, config: InceptionConfig, n_words: int, width: int, length: int) -> None:
        if width % STRIDE or width < WIDEST:
            raise ConfigError(
                f"encoder.pca_dim: word vectors of dimension {width}; a multiple of 4, at least {WIDEST}, is needed."
            )
        super().__init__(n_words, width)
        self.config, self.length = config, length
        n, routed = config.filters, config.combine == "routed"
        self.look_words, self.look_width = Spectral(length, length), Spectral(width, width)
        self.scales = nn.Parameter(torch.zeros(2))  # attention begins as nothing
        self.project, self.project_norm = nn.Linear(length, n), BatchNorm(n)
        self.experts: Any = nn.ModuleList(nn.Conv1d(n, n, size, stride=STRIDE) for size in KERNELS)
        self.route = nn.Linear(n, len(KERNELS) + 1) if routed else None
        into = n if routed else n * len(KERNELS)
        self.norm = BatchNorm(into)
        positions = width // STRIDE
        self.taps = min(WIDEST // STRIDE, positions // STRIDE)
        self.positions = positions // STRIDE - self.taps + 1
        size = self.taps * STRIDE
        tasks = len(TASKS) if routed else 1
        self.second: Any = nn.ModuleList(nn.Conv1d(into, n, size, stride=STRIDE) for _ in range(tasks))
        self.second_norms = nn.ModuleList(BatchNorm(n) for _ in range(tasks))
        self.last: Any = nn.ModuleList(Spectral(self.width, self.inner, bias=True) for _ in TASKS)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv1d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    module.bias.data.zero_()
        for last in cast(list[Spectral], self.last):
            nn.init.xavier_uniform_(last.weight)
        self._laid: LaidOut | None = None

    @property
    def inner(self) -> int:
        """Dimension before the last layer."""
        return self.positions * self.config.filters

    @property
    def width(self) -> int:
        """Dimension of a view."""
        return int(self.words.shape[1]) if self.config.reduce_to_word_dim else self.inner

    def view_width(self, task: Task) -> int:
        return self.width

    def train(self, mode: bool = True) -> Inception:
        self._laid = None
        super().train(mode)
        return self

    @torch.no_grad()
    def lay_out(self) -> None:
        norms = [cast(BatchNorm, norm).fixed() for norm in self._norms()]
        self._laid = self._lay_out()._replace(norms=norms)

    def forward(self, packed: Packed, poolings: Sequence[Task], detached: Collection[str] = ()) -> dict[str, Tensor]:
        laid = self._laid if self._laid is not None and torch.is_inference_mode_enabled() else self._lay_out()
        x = self._drop(self.rectangle(packed, self.length))
        shared = self._mix(self._filters(self._attend(x, laid), laid), laid)
        views = {}
        for task in poolings:
            t = TASKS.index(task)
            views[task.name] = self._task(shared.detach() if task.name in detached else shared, t, laid)
        return views

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout) if self.training and self.config.dropout else x

    def _attend(self, x: Tensor, laid: LaidOut) -> Tensor:
        """Words, then numbers: a = x + (x xᵀ)(U x), then a + (a Vᵀ)(xᵀ a); the scales lie in U and V."""
        if not self.config.attention:
            return x
        n, turned = x.shape[1], x.mT
        a = torch.baddbmm(x, torch.matmul(torch.bmm(x, turned), laid.look_words[:n, :n]), x)
        return torch.baddbmm(a, torch.bmm(F.linear(a, laid.look_width), turned), a)

    def _filters(self, a: Tensor, laid: LaidOut) -> Tensor:
        """(rows, width, filters)"""
        n = a.shape[1]
        y = torch.baddbmm(self.project.bias, a.mT, laid.project[:n].expand(len(a), -1, -1))
        return laid.norms[0](F.gelu(y))

    def _mix(self, y: Tensor, laid: LaidOut) -> Tensor:
        """(rows, width / 4, out): all kernels are one of 16 taps over a ring; their means are weighed, not outputs."""
        ring = torch.cat([y[:, -EDGE:], y, y[:, :EDGE]], 1)
        blocks = ring.view(len(y), -1, STRIDE * y.shape[2])
        if self.route is None:
            z = shifted(torch.matmul(blocks, laid.bank), WIDEST // STRIDE) + laid.bank_bias
        else:
            share = torch.softmax(self.route(y.mean(1)), 1)
            kernel = torch.matmul(share, laid.bank.flatten(1)).view(len(y), *laid.bank.shape[1:])
            z = shifted(torch.bmm(blocks, kernel), WIDEST // STRIDE) + torch.matmul(share, laid.bank_bias)[:, None]
        return self._drop(laid.norms[1](F.gelu(z)))

    def _task(self, y: Tensor, t: int, laid: LaidOut) -> Tensor:
        """(rows, features) of a task: its second convolution, then h + GELU(R h)."""
        s = min(t, len(self.second) - 1)
        used = (self.positions + self.taps - 1) * STRIDE
        blocks = y[:, :used].reshape(len(y), used // STRIDE, -1)
        z = shifted(torch.matmul(blocks, laid.second[s]), self.taps) + self.second[s].bias
        y = laid.norms[2 + s](F.gelu(z))
        h: Tensor = y.flatten(1)
        view = F.gelu(F.linear(self._drop(h), laid.last[t], self.last[t].bias))
        if not self.config.reduce_to_word_dim:
            return h + view
        return F.adaptive_avg_pool1d(y.mT.flatten(1)[:, None], self.width)[:, 0] + view  # a filter's positions, mostly

    def _lay_out(self) -> LaidOut:
        kernels = [
            F.pad(conv.weight, ((WIDEST - size) // 2,) * 2) for conv, size in zip(self.experts, KERNELS, strict=True)
        ]
        bias = torch.stack([conv.bias for conv in self.experts])
        if self.route is None:
            bank, bank_bias = as_product(torch.cat(kernels)), bias.flatten()
        else:
            bank = torch.stack([as_product(kernel) for kernel in (*kernels, self._mean(kernels[0]))])
            bank_bias = torch.cat([bias, torch.zeros_like(bias[:1])])
        return LaidOut(
            self.scales[0] * self.look_words.normal(),
            self.scales[1] * self.look_width.normal(),
            self.project.weight.T,
            bank,
            bank_bias,
            [as_product(conv.weight) for conv in self.second],
            [last.normal() for last in self.last],
            self._norms(),
        )

    def _norms(self) -> list[Any]:
        return [self.project_norm, self.norm, *self.second_norms]

    def _mean(self, like: Tensor) -> Tensor:
        """The kernel that takes the mean of four neighbours: the residual branch."""
        weight = torch.zeros_like(like)
        weight[:, :, EDGE : EDGE + STRIDE] = (
            torch.eye(len(like), device=like.device, dtype=like.dtype)[..., None] / STRIDE
        )
        return weight


def as_product(kernel: Tensor) -> Tensor:
    """(out, into, 4 taps) as (4 into, taps x out): what a block of four positions adds to `taps` outputs."""
    out, into, size = kernel.shape
    return kernel.view(out, into, size // STRIDE, STRIDE).permute(3, 1, 2, 0).reshape(STRIDE * into, -1)


def shifted(z: Tensor, taps: int) -> Tensor:
    """(rows, blocks - taps + 1, out): output j adds up tap q of block j + q."""
    n = z.shape[1] - taps + 1
    parts = z.view(len(z), z.shape[1], taps, -1)
    total = parts[:, :n, 0]
    for q in range(1, taps):
        total = total + parts[:, q : q + n, q]
    return total
