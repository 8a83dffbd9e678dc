"""Spherical k-means: each row is compared with all centres at once, feature by feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.executor import executor
from treetop.kernels.linear.lanes import WIDTH, add_line
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import U32, Local, Rows, gather, read_only, rows_of

A = NDArray[Any]


@tight
def _add_to(centres: Any, c: Any, local: Local, row: Any) -> None:
    for p in range(local.indptr[row], local.indptr[row + np.uint32(1)]):
        centres[local.indices[p], c] += local.values[p]


@tight
def _assign(local: Local, centres: Any, numbers: Any, assigned: Any) -> float:
    """Give each row to its nearest centre (the lower of equal ones); returns the summed similarity."""
    alone, scale, sums = numbers
    total, groups = 0.0, centres.shape[1] // WIDTH
    for i in range(len(assigned)):
        row = np.uint32(i)
        for c in range(len(sums)):
            sums[c] = np.float32(0)
        for p in range(local.indptr[row], local.indptr[row + np.uint32(1)]):
            add_line(centres, local.indices[p], local.values[p], groups, sums)
        if assigned[i] >= 0:  # features no other row has lie in the centre of the row's own group only
            sums[assigned[i]] += alone[i] * scale[assigned[i]]
        best = 0
        for c in range(1, len(scale)):
            if sums[c] > sums[best]:
                best = c
        assigned[i] = best
        total += sums[best]
    return total


@tight
def _means(local: Local, centres: Any, numbers: Any, assigned: Any) -> None:
    """Centres of length 1 in the direction of each group's sum; an empty group's stays zero."""
    alone, scale = numbers
    for f in range(centres.shape[0]):
        for c in range(centres.shape[1]):
            centres[f, c] = np.float32(0)
    for c in range(len(scale)):
        scale[c] = np.float32(0)
    for i in range(len(assigned)):
        _add_to(centres, assigned[i], local, np.uint32(i))
        scale[assigned[i]] += alone[i]
    for f in range(centres.shape[0]):
        for c in range(len(scale)):
            scale[c] += centres[f, c] * centres[f, c]
    for c in range(len(scale)):
        scale[c] = np.float32(1.0 / np.sqrt(scale[c])) if scale[c] > 0 else np.float32(0)
    for f in range(centres.shape[0]):
        for c in range(len(scale)):
            centres[f, c] *= scale[c]


@kernel
def group(Z: Rows, members: U32, start: Any, limits: tuple[int, float], counts: U32) -> Any:
    """(members,) group of each row by spherical k-means; the first centres are the members `start`.

    `limits` = (most iterations, smallest gain of the mean similarity).
    """
    local = gather(Z, members, counts)
    n, k, width = len(members), len(start), len(local.features)
    centres = np.zeros((width, (k + WIDTH - 1) // WIDTH * WIDTH), np.float32)
    alone, assigned = np.zeros(n, np.float32), np.full(n, -1, np.int32)
    for i in range(n):
        for p in range(local.alone_indptr[i], local.alone_indptr[i + 1]):
            alone[i] += local.alone_values[p] ** 2
    for c in range(k):
        assigned[start[c]] = c
        _add_to(centres, c, local, np.uint32(start[c]))
    scale, sums, before = np.ones(k, np.float32), np.zeros(centres.shape[1], np.float32), -np.inf
    for step in range(limits[0]):
        mean = _assign(local, centres, (alone, scale, sums), assigned) / max(n, 1)
        if step > 0 and mean - before < limits[1]:
            break
        before = mean
        _means(local, centres, (alone, scale), assigned)
    return assigned


def grouped(Z: Any, nodes: list[A], k: int, *, seed: int, max_iter: int = 20, eps: float = 1e-4) -> list[list[A]]:
    """Each node's rows in at most `k` groups by spherical k-means, empty groups dropped; `Z` is csr."""
    here = executor.current()
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, len(nodes)).tolist()
    sizes = np.array([len(node) for node in nodes])
    shards = [(nodes[a:b], seeds[a:b]) for a, b in executor.cut(sizes, here.pieces)]
    return [
        groups
        for part in here.stream(_grouped, shards, read_only(rows_of(Z)), Z.shape[1], k, (max_iter, eps))
        for groups in part
    ]


def _grouped(
    shard: tuple[list[A], list[int]], rows: Rows, width: int, k: int, limits: tuple[int, float]
) -> list[list[A]]:
    """The groups of some nodes, each with a seed of its own."""
    counts, parts = np.zeros(width, np.uint32), []
    for node, seed in zip(*shard, strict=True):
        first = np.random.default_rng(seed).permutation(len(node))[:k]
        found = group(rows, node.astype(np.uint32), first, limits, counts)
        parts.append([node[found == c] for c in range(k) if (found == c).any()])
    return parts
