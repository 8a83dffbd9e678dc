"""Products with gathered rows of a large table, and the table's update, at a cost proportional to the gathered rows.

The torch twins gather blocks; the Triton programs read each row in place and never write a gathered copy, and the
update sums a row's gradient and applies Adam to it in one program.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from treetop.kernels.gpu import triton_runs

BLOCK = 1 << 25  # gathered values per block of the torch twins
AdamConstants = tuple[float, float, float, float]
SPLIT = 8  # programs that share one document's candidates


def take(table: Tensor, ids: Tensor) -> Tensor:
    """(ids, width) rows of the table on the device of `ids`; 0 where an id is negative.

    A GPU reads rows of a table in pinned host memory directly, which also works inside a CUDA graph.
    """
    if table.is_cuda or not triton_runs.here(ids):
        return table[ids.clamp_min(0)].masked_fill(ids[:, None] < 0, 0.0)
    from treetop.kernels.gpu import gathered_rows_triton as kernels

    width = table.shape[1]
    rows = torch.empty(len(ids), width, device=ids.device)
    kernels.take[(len(ids),)](table, ids.contiguous(), rows, WIDTH=width, BLOCK=triton_runs.power(width), num_warps=4)
    return rows


def dots(table: Tensor, ids: Tensor, h: Tensor) -> Tensor:
    """(rows, candidates) inner products of h's rows with the table's; 0 where an id is negative."""
    if not triton_runs.here(table):
        products = torch.empty(ids.shape, device=h.device)
        for part in _blocks(ids, h.shape[1]):
            products[part] = torch.bmm(table[ids[part].clamp_min(0)], h[part, :, None])[..., 0]
        return products.masked_fill_(ids < 0, 0.0)
    from treetop.kernels.gpu import gathered_rows_triton as kernels

    (n, width), h = ids.shape, h.contiguous()
    products = torch.empty(ids.shape, device=h.device)
    kernels.dots[(n, -(-width // 32))](
        table, ids.contiguous(), h, products, width, WIDTH=h.shape[1], BLOCK=triton_runs.power(h.shape[1]), num_warps=4
    )
    return products


def weighted_sums(table: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """(rows, width) sums of the gathered rows times `weights`; negative ids are ignored."""
    weights = weights.masked_fill(ids < 0, 0.0)
    if not triton_runs.here(table):
        sums_ = torch.empty(len(ids), table.shape[1], device=table.device)
        for part in _blocks(ids, table.shape[1]):
            sums_[part] = torch.bmm(weights[part, None, :], table[ids[part].clamp_min(0)])[:, 0]
        return sums_
    from treetop.kernels.gpu import gathered_rows_triton as kernels

    n, width = ids.shape
    parts = torch.empty(n, SPLIT, table.shape[1], device=table.device)
    kernels.sums[(n, SPLIT)](
        table, ids.contiguous(), weights, parts, width,
        WIDTH=table.shape[1], BLOCK=triton_runs.power(table.shape[1]), SPLIT=SPLIT, num_warps=4,
    )  # fmt: skip
    return parts.sum(1)


@dataclass(frozen=True, eq=False)
class Rows:
    """A table with Adam's moments per row, on the device or in pinned host memory; the last `plain` columns do not
    decay.
    """

    weight: Tensor
    first: Tensor
    second: Tensor
    count: Tensor  # int32, number of updates of each row
    plain: int


def update(
    table: Rows, ids: Tensor, owner: Tensor, slope: Tensor, h: Tensor, *, rate: Tensor | float, constants: AdamConstants
) -> None:
    """Adam on every row that occurs in `ids`: its gradient is the sum of slope[i] * h[owner[i]] over its positions i.

    `rate` is the learning rate (a tensor inside CUDA graphs), `constants` are decay, beta1, beta2 and eps; `ids`,
    `owner` and `slope` are flat; negative ids are ignored.
    """
    if not triton_runs.here(h):
        _update_plain(table, ids, owner, slope, h, float(rate), constants)
        return
    from treetop.kernels.gpu import gathered_rows_triton as kernels

    sorted_ids, order = torch.sort(ids)
    width = table.weight.shape[1]
    ends = torch.searchsorted(sorted_ids, sorted_ids, right=True)
    kernels.update[(len(ids),)](
        table.weight, table.first, table.second, table.count, sorted_ids, ends, order, owner, slope, h.contiguous(),
        torch.as_tensor(rate, device=h.device), *constants,
        WIDTH=width, DECAYS=width - table.plain, BLOCK=triton_runs.power(width), num_warps=4,
    )  # fmt: skip


def _update_plain(
    table: Rows, ids: Tensor, owner: Tensor, slope: Tensor, h: Tensor, rate: float, constants: AdamConstants
) -> None:
    decay, beta1, beta2, eps = constants
    rows, place = torch.unique(ids, return_inverse=True)
    grad = torch.zeros(len(rows), h.shape[1], device=h.device)
    step = max(1, BLOCK // h.shape[1])
    for i in range(0, len(ids), step):
        part = slice(i, i + step)
        grad.index_add_(0, place[part], slope[part, None] * h[owner[part]])
    skip = int((rows[:1] < 0).sum())  # negative ids sort first
    rows, grad = rows[skip:], grad[skip:]
    table.count[rows] += 1
    steps = table.count[rows].double()
    first = torch.lerp(table.first[rows], grad, 1.0 - beta1)
    second = table.second[rows].mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
    size = (rate / (1.0 - beta1**steps)).float()[:, None]
    root = (second / (1.0 - beta2**steps).float()[:, None]).sqrt_().add_(eps)
    weight = table.weight[rows]
    weight[:, : weight.shape[1] - table.plain] *= 1.0 - rate * decay
    table.first[rows], table.second[rows] = first, second
    table.weight[rows] = weight - size * first / root


def _blocks(ids: Tensor, width: int) -> list[slice]:
    step = max(1, BLOCK // max(1, ids.shape[1] * width))
    return [slice(i, i + step) for i in range(0, len(ids), step)]
