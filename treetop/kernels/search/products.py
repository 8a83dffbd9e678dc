"""The largest inner products of vectors with all rows of a table, block by block, on a CPU or a GPU; exact."""

from __future__ import annotations

import torch
from torch import Tensor

from treetop.kernels.runtime import threads

BLOCK = 1 << 27  # products held at a time on a GPU
QUERIES, ROWS = 256, 1 << 15  # of one block of work on the CPU


def best(queries: Tensor, table: Tensor, k: int, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(products, rows) of the `k` largest of each query, highest first; all of them where the table has fewer."""
    k = min(k, len(table))
    if queries.is_cuda:
        step = max(1, min(len(queries), BLOCK // max(1, len(table))))
        step = max(step, min(len(queries), 64))
        ranges = threads.blocks(len(queries), step)
        blocks_ = [_best(queries[a:b], table, k, bias, max(k, BLOCK // step)) for a, b in ranges]
    else:
        ranges = threads.blocks(len(queries), QUERIES)
        blocks_ = threads.run(lambda a, b: _best(queries[a:b], table, k, bias, ROWS), ranges)
    if not blocks_:
        return queries.new_zeros(0, k), torch.zeros(0, k, dtype=torch.int64, device=queries.device)
    return torch.cat([values for values, _ in blocks_]), torch.cat([rows for _, rows in blocks_])


def _best(queries: Tensor, table: Tensor, k: int, bias: Tensor | None, block: int) -> tuple[Tensor, Tensor]:
    values: list[Tensor] = []
    rows: list[Tensor] = []
    for start in range(0, len(table), block):
        part = slice(start, start + block)
        z = queries @ table[part].T
        z = z if bias is None else z + bias[part]
        top = torch.topk(z, min(k, z.shape[1]), dim=1)
        values.append(top.values)
        rows.append(top.indices + start)
    if len(values) == 1:
        return values[0], rows[0]
    together = torch.cat(values, 1)
    top = torch.topk(together, k, dim=1)
    return top.values, torch.cat(rows, 1).gather(1, top.indices)
