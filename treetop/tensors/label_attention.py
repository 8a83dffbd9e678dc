"""Label attention: every label reads a text in its own way, then layers that all labels share give its logit.

Label l weighs the states h_t of a text by a_t = softmax_t(u_l . h_t), reads m = sum of a_t h_t, and scores it by shared
layers f; where labels have weights of their own, too: z = f(m) + w_l . m + b_l. A text without words has m = 0. The
slow twin is in `tests/tensors/test_label_attention.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.tensors.sequences import Sequences


class LabelVectors(NamedTuple):
    """Of some labels: (labels, ...) for all rows alike, or (rows, labels, ...)."""

    attention: Tensor  # u
    weights: Tensor | None  # w
    bias: Tensor | None  # b


Layers = Sequence[tuple[Tensor, Tensor]]  # weight and bias; the last one gives a single number


def attention(texts: Sequences, u: Tensor) -> Tensor:
    """(rows, labels, tokens) weights that sum to 1; all 0 for a text without tokens."""
    scores = torch.matmul(u.to(texts.states.dtype), texts.states.mT).float()
    there = texts.there[:, None]
    return torch.softmax(scores.masked_fill(~there, float("-inf")), 2).masked_fill(~there, 0.0)


def logits(texts: Sequences, labels: LabelVectors, layers: Layers) -> Tensor:
    """(rows, labels) float32"""
    weights = attention(texts, labels.attention)
    return scored(torch.matmul(weights.to(texts.states.dtype), texts.states).float(), labels, layers)


def scored(m: Tensor, labels: LabelVectors, layers: Layers) -> Tensor:
    """(rows, labels) logits of what labels have read, (rows, labels, width)."""
    h = m
    for i, (weight, bias) in enumerate(layers):
        h = F.linear(F.relu(h) if i else h, weight, bias)
    found: Tensor = h[..., 0]
    if labels.weights is not None:
        found = found + (m * labels.weights).sum(-1)
    return found if labels.bias is None else found + labels.bias
