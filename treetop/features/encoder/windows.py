"""From the tokens of windows to one vector of a text: the mean of its windows, or a pooling learned with the heads.

Windows do not attend to each other: a window's weight depends on its own vector alone.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from treetop.core.types import Floats
from treetop.tensors.packed import Packed

START = -2.0  # logit of the share of the largest values: 0.12 at first


class WindowPool(nn.Module):
    """(1 - m) · Σ softmax(w · direction of v)ᵢ vᵢ + m · maxᵢ vᵢ over the windows v of a text.

    One weight vector w and, for each dimension, one share m are learned. They start as a mean of the windows with a
    small share of the largest values. A text of one window keeps its vector, whatever was learned.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.share = nn.Parameter(torch.full((width,), START))

    def forward(self, vectors: Tensor, owner: Tensor, rows: int) -> Tensor:
        """(rows, width) of the windows (sequences, width); those whose owner is `rows` fill up and are dropped."""
        shape = (rows + 1, vectors.shape[1])
        lengths = vectors.norm(dim=1).clamp_min(1e-12)
        scores = (vectors @ self.weight.to(vectors.dtype)) / lengths
        top = scores.detach().new_full((rows + 1,), -torch.inf)
        top = top.scatter_reduce(0, owner, scores.detach(), "amax")
        weights = (scores - top[owner]).exp()
        total = weights.new_zeros(rows + 1).index_add(0, owner, weights).clamp_min(1e-30)
        weighed = vectors.new_zeros(shape).index_add(0, owner, (weights / total[owner])[:, None] * vectors)
        largest = vectors.new_zeros(shape).scatter_reduce(
            0, owner[:, None].expand_as(vectors), vectors, "amax", include_self=False
        )
        return torch.lerp(weighed, largest, self.share.to(vectors.dtype).sigmoid())[:rows]


def of_sequences(states: Tensor, packed: Packed, kind: str) -> Tensor:
    """(sequences, width) float32 from (tokens, width): the first token of a window (`cls`), or the mean of all."""
    starts, shape = packed.starts, packed.shape
    if kind == "cls":
        return states.index_select(0, starts[:-1].long().clamp_max(shape.tokens - 1)).float()
    total = torch.zeros(shape.sequences, states.shape[1], device=states.device)
    total = total.index_add(0, packed.sequence, states.float())
    return total / (starts[1:] - starts[:-1]).clamp_min(1)[:, None]


def averaged(vectors: Tensor, owner: Tensor, rows: int) -> Tensor:
    """(rows, width) the mean of each text's windows."""
    total = torch.zeros(rows + 1, vectors.shape[1], device=vectors.device).index_add(0, owner, vectors)
    counts = torch.zeros(rows + 1, device=vectors.device).index_add(0, owner, vectors.new_ones(len(owner)))
    return (total / counts.clamp_min(1.0)[:, None])[:rows]


def pooled_slowly(windows: Floats, weight: Floats, share: Floats) -> Floats:
    """The vector of one text from its windows (n, width): the slow twin of `WindowPool`."""
    scores = np.array([float(weight @ v) / max(float(np.linalg.norm(v)), 1e-12) for v in windows])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    m = 1.0 / (1.0 + np.exp(-share.astype(np.float64)))
    weighed = sum(w * v.astype(np.float64) for w, v in zip(weights, windows, strict=True))
    result: Floats = ((1.0 - m) * weighed + m * windows.max(0)).astype(np.float32)
    return result
