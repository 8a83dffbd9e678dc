"""Label co-occurrence: rows of Yᵀ Y counted label by label, with a threshold applied immediately.

A block of labels counts into one dense array and notes which places it touched, so that memory is that array and what
the threshold leaves, never Yᵀ Y itself; a head label's row may be as long as there are labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.runtime.threads import blocks, stream
from treetop.kernels.sparse import U32, Rows, grown

BLOCK = 1024  # labels counted at a time
ROOM = 16  # entries a label is given at first


class Rule(NamedTuple):
    """Keeps entries with share > delta; a share is count / (label count + shrink), or the mean of both directions."""

    delta: float
    shrink: float
    symmetric: bool


@kernel
def _count_block(texts: Rows, labels: Rows, counts: U32, first: Any, end: Any, rule: Rule) -> Any:
    """(entries of each row, ids, shares) of the labels first..end, ids ascending; the diagonal is always there, 1."""
    n_labels = len(counts)
    seen, touched = np.zeros(n_labels, np.uint32), np.empty(n_labels + 1, np.uint32)
    sizes, used = np.zeros(end - first, np.int64), 0
    ids, shares = np.empty(ROOM * (end - first), np.uint32), np.empty(ROOM * (end - first), np.float32)
    for label in range(np.uint64(first), np.uint64(end)):
        n = 0
        for p in range(texts.indptr[label], texts.indptr[label + np.uint64(1)]):
            text = np.uint64(texts.indices[p])
            for q in range(labels.indptr[text], labels.indptr[text + np.uint64(1)]):
                other = labels.indices[q]
                if seen[other] == np.uint32(0):
                    touched[n] = other
                    n += 1
                seen[other] += np.uint32(1)
        own, kept = counts[label] + rule.shrink, 0
        for i in range(n):
            other = touched[i]
            share = seen[other] / own
            if rule.symmetric:
                share = 0.5 * (share + seen[other] / (counts[other] + rule.shrink))
            if share > rule.delta and np.uint64(other) != label:
                touched[kept] = other
                kept += 1
            else:
                seen[other] = np.uint32(0)
        touched[kept] = np.uint32(label)
        kept += 1
        touched[:kept].sort()
        ids, shares = grown(ids, used + kept), grown(shares, used + kept)
        for i in range(kept):
            other = touched[i]
            share = 1.0
            if np.uint64(other) != label:
                share = seen[other] / own
                if rule.symmetric:
                    share = 0.5 * (share + seen[other] / (counts[other] + rule.shrink))
            ids[used + i], shares[used + i] = other, share
            seen[other] = np.uint32(0)
        sizes[label - np.uint64(first)] = kept
        used += kept
    return sizes, ids[:used].copy(), shares[:used].copy()


def shares(texts: Rows, labels: Rows, rule: Rule, first: int = 0, end: int | None = None) -> Rows:
    """Rows first..end of the label graph: of the texts with a label, the share that has another one too.

    `texts` (labels x texts) and `labels` (texts x labels) are the same targets read both ways.
    """
    n = len(texts.indptr) - 1
    end = n if end is None else end
    counts = np.diff(texts.indptr.view(np.int64)).astype(np.uint32)
    ranges = [(first + a, first + b) for a, b in blocks(end - first, BLOCK)]
    blocks_ = list(stream(lambda a, b: _count_block(texts, labels, counts, a, b, rule), ranges))
    indptr = np.zeros(end - first + 1, np.int64)
    if not blocks_:
        return Rows(indptr.view(np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.float32))
    np.cumsum(np.concatenate([sizes for sizes, _, _ in blocks_]), out=indptr[1:])
    ids, values = np.concatenate([ids for _, ids, _ in blocks_]), np.concatenate([part for _, _, part in blocks_])
    return Rows(indptr.view(np.uint64), ids, values)
