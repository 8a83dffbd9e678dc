"""Stand-ins for training texts that a model does not keep, drawn from the functions it learned of them.

The texts below a node have labels in proportion to the training counts of its children; a text with a label has words
that weigh much in the label's function, and words that all texts have. A stand-in is drawn so: a child by its count, a
length as those of real rows, a share of its words by the child's weights, the others by how many real rows have them.
What a word is worth is the mean over the real rows. As negatives of a new label they take the place of the texts of its
siblings (benchmarks/choices/labels_added.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Ints
from treetop.core.types import Floats
from treetop.kernels.tree import chunks
from treetop.rank.linear import Linear

SHARE = 0.3  # of a stand-in's words that come from the function of its label
MOST = 10_000  # stand-ins of one node


class Language(NamedTuple):
    """What rows look like: how many words they have, how often each word occurs and what it is worth."""

    lengths: Ints
    words: Csr  # (1, features) rows that have each
    value: Floats  # (features,)
    norm: float


def language_of(X: Csr) -> Language:
    """What some real rows look like; a word that none of them has is worth what rare ones are."""
    lengths, counts = np.diff(X.indptr), np.bincount(X.indices, minlength=X.shape[1])
    value = np.zeros(X.shape[1], np.float32)
    np.divide(np.bincount(X.indices, X.data, X.shape[1]), counts, out=value, where=counts > 0, casting="unsafe")
    rare = value[counts == 1] if (counts == 1).any() else value[counts > 0]
    value[counts == 0] = rare.mean() if len(rare) else 1.0
    filled = lengths > 0
    squares = np.bincount(np.repeat(np.arange(X.shape[0]), lengths), X.data.astype(np.float64) ** 2, X.shape[0])
    norm = float(np.sqrt(squares[filled]).mean()) if filled.any() else 1.0
    return Language(lengths[filled].astype(np.int64), sparse.csr_matrix(counts[None].astype(np.float64)), value, norm)


def stand_ins(
    rank: Linear, counts: Ints, there: Mapping[int, int], language: Language, seed: int
) -> tuple[Csr, NDArray[np.int32], NDArray[np.int32]]:
    """(stand-ins, the node and the label of each) for nodes {node: negatives that are there}.

    There are as many as a node's labels have texts, by `counts`, less the negatives.
    """
    rng, rows, nodes, labels = np.random.default_rng(seed), [], [], []
    for node, negatives in there.items() if len(language.lengths) else ():
        children = rank.weights.ids[rank.weights.slot_ptr[node] : rank.weights.slot_ptr[node + 1]]
        functions = _positive(rank, node, len(children))
        texts = np.where(np.diff(functions.indptr) > 0, counts[children], 0).astype(np.float64)
        n = int(min(texts.sum() - negatives, MOST))
        if n > 0:
            chosen = rng.choice(len(children), n, p=texts / texts.sum())
            rows.append(_drawn(functions, chosen, language, rng))
            nodes.append(np.full(n, node, np.int32))
            labels.append(children[chosen])
    if not rows:
        nothing = np.zeros(0, np.int32)
        return sparse.csr_matrix((0, rank.n_features), dtype=np.float32), nothing, nothing
    return sparse.vstack(rows, "csr", np.float32), np.concatenate(nodes), np.concatenate(labels)


def _positive(rank: Linear, node: int, n: int) -> Csr:
    """(children, features) the positive weights of a node's children."""
    w, here = rank.weights, slice(int(rank.weights.entry_ptr[node]), int(rank.weights.entry_ptr[node + 1]))
    features, slots = chunks.features_in(w, node), w.slots[here].astype(np.int64)
    weights = chunks.plain_weights(w.weights[here])
    if len(w.scale):
        weights = weights * w.scale[slots + int(w.slot_ptr[node])]
    kept = (features < rank.n_features) & (weights > 0)
    pairs = (slots[kept], features[kept])
    return sparse.csr_matrix((weights[kept].astype(np.float64), pairs), (n, rank.n_features))


def _drawn(functions: Csr, chosen: Ints, language: Language, rng: np.random.Generator) -> Csr:
    """A row for each chosen function."""
    lengths = rng.choice(language.lengths, len(chosen))
    own = np.maximum(1, np.rint(SHARE * lengths)).astype(np.int64)
    nothing = np.zeros(len(chosen), np.int64)
    special = _draw(functions, chosen, own, rng)
    common = _draw(language.words, nothing, lengths - np.minimum(own, lengths), rng)
    rows, words = (np.concatenate(side) for side in zip(special, common, strict=True))
    made = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, words)), (len(chosen), functions.shape[1]))
    made.sum_duplicates()
    made.data = language.value[made.indices]
    squares = np.bincount(np.repeat(np.arange(len(chosen)), np.diff(made.indptr)), made.data**2, len(chosen))
    scale = language.norm / np.sqrt(np.where(squares > 0, squares, 1.0))
    made.data *= np.repeat(scale, np.diff(made.indptr)).astype(np.float32)
    return made


def _draw(weights: Csr, chosen: Ints, times: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """(place in `chosen`, column) of so many draws from each chosen row, by weight and with repetition."""
    running = np.concatenate([np.zeros(1), np.cumsum(weights.data)])
    who = np.repeat(np.arange(len(chosen)), times)
    low, high = running[weights.indptr[chosen[who]]], running[weights.indptr[chosen[who] + 1]]
    at = np.searchsorted(running, low + rng.random(len(who)) * (high - low), side="right") - 1
    return who, weights.indices[np.minimum(at, weights.nnz - 1)]
