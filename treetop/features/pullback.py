"""Functions of an encoder's vectors with their gradients: what a label's margin becomes behind each layer in front.

Integrated gradients (`integrated.py`) start from such a gradient over the pooled vectors and go on through the network.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treetop.core.types import Floats

Pullback = Callable[[Floats], tuple[Floats, Floats]]  # (rows, width) -> (rows,) values, (rows, width) gradients
LEAST = np.float32(1e-12)  # length


def linear(weights: Floats) -> Pullback:
    """The inner product with `weights`."""
    return lambda H: (H @ weights, np.broadcast_to(weights, H.shape))


def normalised(outer: Pullback) -> Pullback:
    """`outer` of the rows at length 1."""

    def whole(H: Floats) -> tuple[Floats, Floats]:
        length = np.maximum(np.linalg.norm(H, axis=1, keepdims=True), LEAST)
        unit = H / length
        values, G = outer(unit)
        return values, (G - (G * unit).sum(1, keepdims=True) * unit) / length

    return whole


def scaled(outer: Pullback, factor: float) -> Pullback:
    """`outer` of the rows times a number."""

    def whole(H: Floats) -> tuple[Floats, Floats]:
        values, G = outer(H * np.float32(factor))
        return values, G * np.float32(factor)

    return whole


def affine(outer: Pullback, weight: Floats | None, bias: Floats | None, *, tanh: bool) -> Pullback:
    """`outer` behind a linear layer and a tanh, where there are any."""

    def whole(H: Floats) -> tuple[Floats, Floats]:
        projected = H if weight is None else H @ weight.T
        projected = projected if bias is None else projected + bias
        projected = np.tanh(projected) if tanh else projected
        values, G = outer(projected)
        G = G * (1 - projected**2) if tanh else G
        return values, G if weight is None else G @ weight

    return whole
