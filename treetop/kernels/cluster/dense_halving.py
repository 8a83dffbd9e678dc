"""Dense vectors halved recursively into clusters of equal size, on a CPU or a GPU (`halving.py`: sparse rows).

All clusters of a level are halved at once: the rows of a cluster are a line of one padded table.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

MOST = 50  # turns of one level
GAIN = 1e-4  # of the mean cosine, below which a cluster rests


def leaves(vectors: Tensor, depth: int, *, seed: int) -> Tensor:
    """(rows,) int32 which of 2**depth clusters, whose sizes differ by at most one, a row belongs to.

    A half is the rows nearer to one of two centres than to the other; centres start at two random rows.
    """
    n, rng = len(vectors), np.random.default_rng(seed)
    X = F.pad(F.normalize(vectors.float(), dim=1), (0, 0, 0, 1))  # the last row is padding
    rows, sizes = torch.arange(n, device=X.device)[None], np.array([n])
    for _ in range(depth):
        place = rng.integers(0, sizes)
        other = (place + 1 + rng.integers(0, sizes - 1)) % sizes
        rows = _halved(X, rows, sizes, np.stack([place, other], 1))
        sizes = np.stack([(sizes + 1) // 2, sizes // 2], 1).ravel()
    leaf = torch.empty(n + 1, dtype=torch.int32, device=X.device)
    leaf[rows] = torch.arange(len(sizes), dtype=torch.int32, device=X.device)[:, None].expand_as(rows)
    return leaf[:n]


def _halved(X: Tensor, rows: Tensor, sizes: NDArray[np.int64], start: NDArray[np.int64]) -> Tensor:
    """(2 * clusters, places) the rows of each half, ascending, from those of the (clusters, places) in `rows`."""
    size = torch.from_numpy(sizes).to(X.device)[:, None]
    half, place = (size + 1) // 2, torch.arange(rows.shape[1], device=X.device)[None]
    order = _ordered(X[rows], size, torch.from_numpy(start).to(X.device))
    found, half_wide = rows.gather(1, order), (rows.shape[1] + 1) // 2
    place = place[:, :half_wide]
    left = torch.where(place < half, found[:, :half_wide], len(X) - 1)
    behind = (place + half).clamp_max(rows.shape[1] - 1)
    right = torch.where(place + half < size, found.gather(1, behind), len(X) - 1)
    return torch.stack([left, right], 1).view(-1, half_wide).sort(1).values


def _ordered(V: Tensor, size: Tensor, start: Tensor) -> Tensor:
    """(clusters, places) the order of each cluster's rows from its left end to its right one, padding last."""
    place = torch.arange(V.shape[1], device=V.device)[None].expand(len(V), -1)
    real, among_left = place < size, place < (size + 1) // 2
    centres = V.gather(1, start[:, :, None].expand(-1, -1, V.shape[2]))
    order, best = place, torch.full((len(V), 1), -torch.inf, device=V.device)
    for _ in range(MOST):
        s = torch.bmm(V, centres.transpose(1, 2))  # (clusters, places, 2)
        gap = (s[..., 0] - s[..., 1]).masked_fill(~real, -torch.inf)
        turn = torch.sort(gap, dim=1, descending=True, stable=True).indices
        left = torch.zeros_like(real).scatter(1, turn, among_left)
        mean = torch.where(left, s[..., 0], s[..., 1]).masked_fill(~real, 0.0).sum(1, keepdim=True) / size
        moves = mean - best >= GAIN
        if not moves.any():
            break
        order, best = torch.where(moves, turn, order), torch.where(moves, mean, best)
        sums = torch.bmm(torch.stack([left, real & ~left], 1).to(V.dtype), V)
        centres = torch.where(moves[:, :, None], F.normalize(sums, dim=2), centres)
    return order
