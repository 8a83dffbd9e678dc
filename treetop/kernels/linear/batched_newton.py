"""Newton steps for many squared-hinge problems at once over the same rows, as matrix products (CPU or GPU).

The rules are those of `newton.py`; here a weight vector is a column, margins are a matrix (rows x problems), and a
solved problem is frozen while the others continue. Columns are [words ; dense ; constant].
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.kernels.linear.newton import Penalty, Rules


class Features(NamedTuple):
    """Rows x features with the products that a step needs."""

    words: Tensor  # csr (rows, words)
    words_t: Tensor  # csr (words, rows)
    squares_t: Tensor  # the same with squared values
    dense: Tensor  # (rows, width)

    @classmethod
    def of(cls, X: Any, dense: NDArray[np.float32], device: torch.device) -> Features:
        """From a scipy csr matrix of words and a matrix."""
        turned = X.T.tocsr()
        squares = turned.copy()
        squares.data = squares.data**2
        words, words_t, squares_t = (_csr(matrix).to(device) for matrix in (X, turned, squares))
        return cls(words, words_t, squares_t, torch.from_numpy(dense).to(device))

    @property
    def size(self) -> int:
        return self.words.shape[1] + self.dense.shape[1] + 1

    def margins(self, W: Tensor) -> Tensor:
        """(rows, problems)."""
        n = self.words.shape[1]
        return self.words @ W[:n] + self.dense @ W[n:-1] + W[-1]

    def pulled(self, R: Tensor) -> Tensor:
        """Features^T R: (size, problems)."""
        return torch.cat([self.words_t @ R, self.dense.T @ R, R.sum(0, keepdim=True)])

    def squared(self, R: Tensor) -> Tensor:
        """The same with every feature squared."""
        return torch.cat([self.squares_t @ R, self.dense.square().T @ R, R.sum(0, keepdim=True)])


def _csr(matrix: Any) -> Tensor:
    indptr, indices = (torch.from_numpy(np.asarray(part, np.int64)) for part in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        tensor = torch.sparse_csr_tensor(
            indptr, indices, torch.from_numpy(matrix.data), matrix.shape, check_invariants=False
        )
    return tensor


class Solved(NamedTuple):
    """Weights (size, problems), and the gradient norm of each problem with its target norm."""

    W: Tensor
    gradient: Tensor
    tolerance: Tensor
    steps: int


def solve(
    X: Features,
    side: Tensor,
    penalty: Penalty,
    *,
    eps: float = 0.01,
    start: Tensor | None = None,
    rules: Rules | None = None,
) -> Solved:
    """The minima. `side` (rows, problems): its sign is the target, its size the cost of an error (0: absent).

    A problem is solved when its gradient has fallen to eps * (its smaller class's share of the rows) of that at zero.
    """
    chosen = rules or Rules(max_steps=50)
    scales = _scales(X, penalty)
    W = torch.zeros(X.size, side.shape[1], device=side.device) if start is None else start.clone()
    at_zero = X.pulled(-2.0 * side).norm(dim=0)
    counts = (side != 0).sum(0)
    fewer = torch.minimum((side > 0).sum(0), (side < 0).sum(0)).clamp_min(1)
    tolerance = eps * fewer / counts.clamp_min(1) * at_zero
    M, step, norm = X.margins(W), 0, at_zero
    for step in range(chosen.max_steps + 1):
        slack = (1.0 - side.sign() * M).clamp_min(0.0) * (side != 0)
        gradient = scales * W - X.pulled(2.0 * side * slack)
        norm = gradient.norm(dim=0)
        going = norm > tolerance
        if step == chosen.max_steps or not bool(going.any()):
            break
        D = _directions(X, side.abs() * (slack > 0), gradient, scales, going, chosen)
        M, moved = _move(X, side, (W, D, M), gradient, scales, chosen)
        if not moved:
            break
    return Solved(W, norm, tolerance, step)


def _scales(X: Features, penalty: Penalty) -> Tensor:
    scales = torch.full((X.size, 1), penalty.sparse, device=X.dense.device)
    scales[X.words.shape[1] : -1] = penalty.dense
    scales[-1] = penalty.bias
    return scales


def _directions(X: Features, cost: Tensor, gradient: Tensor, scales: Tensor, going: Tensor, rules: Rules) -> Tensor:
    """Per problem an approximate d with H d = -gradient, by preconditioned conjugate gradients; 0 where solved."""
    shape = 1.0 - rules.blend + rules.blend * (scales + X.squared(2.0 * cost))
    directions, residual = torch.zeros_like(gradient), -gradient * going
    look = residual / shape
    slope = (residual * look).sum(0)
    tolerance = slope.sqrt().sqrt().clamp_max(rules.inner)
    model, open_ = torch.zeros_like(slope), going & (slope > 0)
    for k in range(1, 1000):
        bent = scales * look + X.pulled(2.0 * cost * X.margins(look))
        curve = (look * bent).sum(0)
        open_ = open_ & (curve > 1e-16)
        alpha = torch.where(open_, slope / curve.clamp_min(1e-16), 0.0)
        directions = directions + alpha * look
        residual = residual - alpha * bent
        better = -0.5 * (directions * (residual - gradient)).sum(0)  # the quadratic model at d, below zero
        open_ = open_ & ~((better > model) | (k * (better - model) >= tolerance * better))
        if not bool(open_.any()):
            return directions
        fresh = (residual.square() / shape).sum(0)
        look = torch.where(open_, residual / shape + fresh / slope.clamp_min(1e-30) * look, 0.0)
        model, slope = better, fresh
    return directions


def _move(
    X: Features, side: Tensor, state: tuple[Tensor, Tensor, Tensor], gradient: Tensor, scales: Tensor, rules: Rules
) -> tuple[Tensor, bool]:
    """Halve each problem's step until its objective falls enough, and move W. Returns margins, and if any moved."""
    W, D, M = state
    along = X.margins(D)
    fall, across = (gradient * D).sum(0), (scales * W * D).sum(0)
    own = 0.5 * (scales * D * D).sum(0)
    cost, y = side.abs(), side.sign()
    slack = (1.0 - y * M).clamp_min(0.0)
    length = torch.ones_like(fall)
    for _ in range(rules.halvings):
        there = (1.0 - y * (M + length * along)).clamp_min(0.0)
        # row by row, and then in double: two large sums would hide a small difference
        gained = (cost * (there - slack) * (there + slack)).sum(0, dtype=torch.float64)
        change = length * across + length * length * own + gained
        short = change > rules.armijo * length * fall
        if not bool(short.any()):
            break
        length = torch.where(short, 0.5 * length, length)
    else:
        length = torch.where(short, 0.0, length)
    W += length * D
    return M + length * along, bool((length * fall < 0).any())
