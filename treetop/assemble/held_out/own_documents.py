"""Documents that carry their own label, where most labels have one: new documents are of another kind.

In a taxonomy whose concepts are documents and labels at once (wordnet-taxonomy: 17,945 of 18,815 labels), the labels'
own documents are all there already, so a new document is not a label. Held out, they would make sources that read label
texts look better than they are on new documents (P@1 of `unidec` on wordnet-taxonomy 97 instead of 91), so they are
always trained on. Where few labels have a document of their own (finna-yso-en-25k: 1.6 %), new documents may be labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, Ints
from treetop.data.split import holdout
from treetop.predict.self_pairs import self_pairs

MOST = 0.5  # fraction of the labels that have a document of their own, from which new documents are taken to be others


def own_documents(dataset: Dataset) -> NDArray[np.bool_]:
    """(rows,) documents that carry their own label; none if fewer than half of the labels have such a document."""
    chosen = np.zeros(len(dataset), bool)
    pairs = self_pairs(dataset)
    if not len(pairs):
        return chosen
    pairs = pairs[np.asarray(dataset.Y[pairs[:, 0], pairs[:, 1]]).ravel() > 0]
    if len(np.unique(pairs[:, 1])) >= MOST * dataset.n_labels:
        chosen[pairs[:, 0]] = True
    return chosen


def hold_out(dataset: Dataset, fraction: float, seed: int, most: float = 1.0) -> tuple[Ints, Ints]:
    """(rows to train on, rows held out), about `fraction` of the documents, none of them a label's own document.

    Others are held out instead, as long as they are at most the fraction `most` of the documents that are not.
    """
    own = own_documents(dataset)
    n = int(dataset.documents.sum())
    others = n - int((own & dataset.documents).sum())
    if others == n or others < 2:
        return holdout(dataset, fraction, seed)
    return holdout(dataset, min(fraction * n / others, most), seed, never=own)
