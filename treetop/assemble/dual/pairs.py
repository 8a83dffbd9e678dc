"""Known (text, label) pairs of a data set: positives, ignored pairs, labels with equal texts."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr, Dataset
from treetop.core.texts import Texts
from treetop.labels.text import first_of_text, label_words
from treetop.network.samplers.pools import PoolTargets

CROWD = 50  # beyond this many, equal texts are not informative


def known_of(dataset: Dataset) -> PoolTargets:
    """Positives without ignored pairs; labels that only an equal text has are ignored too."""
    Y = dataset.Y.copy()
    Y.data = np.where(Y.data > 0, Y.data, 0).astype(np.float32)
    ignored = dataset.ignored
    if ignored is not None:
        Y = (Y - Y.multiply(ignored)).tocsr()
    Y.eliminate_zeros()
    Y.sort_indices()
    equal = _of_equal_texts(dataset.texts, Y)
    left_out = equal if ignored is None else (ignored if equal is None else (equal + ignored).tocsr())
    text = first_of_text(label_words(dataset.labels))
    shared = np.bincount(text, minlength=len(text))[text] > 1
    return PoolTargets(
        dataset.n_labels,
        Y.indptr.astype(np.int64),
        Y.indices.astype(np.int64),
        Y.data.astype(np.float32),
        None if left_out is None else left_out.indptr.astype(np.int64),
        None if left_out is None else left_out.indices.astype(np.int64),
        np.where(shared, text, -1) if shared.any() else None,
    )


def _of_equal_texts(texts: Texts, Y: Csr) -> Csr | None:
    """(documents, labels) pairs that are positive for an equal text only."""
    first = first_of_text(texts)
    counts = np.bincount(first, minlength=len(first))[first]
    members = np.flatnonzero((counts > 1) & (counts <= CROWD))
    if len(members) == 0:
        return None
    groups, place = np.unique(first[members], return_inverse=True)
    ones = np.ones(len(members), np.float32)
    belongs = sparse.csr_matrix((ones, (members, place)), (len(first), len(groups)))
    positives = Y.copy()
    positives.data[:] = 1.0
    every = (belongs @ (belongs.T @ positives)).tocsr()
    every.data[:] = 1.0
    others = (every - every.multiply(positives)).tocsr()
    others.eliminate_zeros()
    return others
