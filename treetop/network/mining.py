"""Retrieval with the current network on pools: top labels of held-out texts, hard negatives of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from treetop.kernels.search import products
from treetop.network.inputs import Inputs
from treetop.network.pool_heads import FreeHead, PoolHead
from treetop.network.samplers.pools import without_positives
from treetop.train.batches import Rows

if TYPE_CHECKING:
    from treetop.network.pool import PoolNetwork


def top_labels(task: PoolNetwork, rows: Rows, k: int, inputs: Inputs | None = None) -> NDArray[np.int64]:
    """(rows, k) labels by the sum of the heads, for rows of the network's inputs or of others."""
    with task.eval_mode():
        sides, bias = [], None
        for head in task.heads:
            vectors, offset = _labels(task, head)
            bias = bias if offset is None else offset
            sides.append((head.query_scale * task.read(rows, head.name, inputs), vectors))
        q, v = (torch.cat([side[i] for side in sides], 1) for i in (0, 1))
        return products.best(q, v, k, bias)[1].cpu().numpy()


def mine(task: PoolNetwork, rows: Rows, *, negatives: int, depth: int) -> tuple[Tensor, Tensor | None]:
    """Vectors of documents, and `negatives` hard negatives of each: the labels liked best less the true ones.

    Both are by the head that reads label texts, where there is one. Each process searches for its share of documents.
    """
    head = task.heads[0]
    with task.eval_mode():
        queries = task.read(rows, head.name)
        vectors = queries if head.reads_labels else F.normalize(queries, dim=1)
        if negatives == 0:
            return vectors, None
        labels, bias = _labels(task, head)
        low, high = task.world.share(len(rows))
        score, top = products.best(queries[low:high], labels, max(depth, negatives), _seen(task, bias))
        likely = torch.where(torch.isfinite(score), top, -1)
        found = without_positives(likely, rows[low:high], task.known, negatives)
        return vectors, task.world.rows(found, len(rows)).cpu()


def _labels(task: PoolNetwork, head: PoolHead) -> tuple[Tensor, Tensor | None]:
    """(vectors, biases) of all labels by one head, as its logits want them."""
    return head.label_rows() if isinstance(head, FreeHead) else (task.read(task.names, head.name), None)


def _seen(task: PoolNetwork, bias: Tensor | None) -> Tensor:
    """(labels,) the bias, -inf for labels no text carries: they would only ever be pushed away."""
    counts = np.bincount(task.known.indices, minlength=task.n_labels)
    seen = torch.from_numpy(counts > 0).to(task.device)
    return torch.where(seen, torch.zeros(task.n_labels, device=task.device) if bias is None else bias, -torch.inf)
