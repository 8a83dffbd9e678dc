"""Labels all of whose documents are held out, so that none is left for training.

If every label of the data has a document, labels without a training document do not occur on new documents, but they do
occur on held-out ones (8.7 % of the labels on msdocs-seealso, 2.0 % on metamath-premises-30k; on test documents 0.2 %
and 0.1 %). If a fusion or a calibration were fitted on them, sources that read label texts would look better than they
are on new documents, so these labels are left out. If the data have labels without any document, described by their
texts alone, the held-out ones are the only evidence of how well such labels are found, and are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, Ints
from treetop.core.types import Ranking


def emptied(held_out: Dataset, counts: Ints) -> NDArray[np.bool_]:
    """(columns,) whether a label is left out; `counts`: training documents of the model's labels, the first columns."""
    has_held_out = np.bincount(held_out.Y.indices, minlength=held_out.n_labels)[: len(counts)] > 0
    untrained = counts == 0
    left_out = np.zeros(held_out.n_labels, bool)
    left_out[: len(counts)] = untrained & ((untrained & ~has_held_out).sum() < (untrained & has_held_out).sum())
    return left_out


def leave_out(
    labels: NDArray[np.bool_], held_out: Dataset, rankings: Sequence[Ranking]
) -> tuple[Dataset, list[Ranking]]:
    """Held-out documents and their rankings without these labels, and without documents that carry no others.

    A new document has a label of the label set, so a document that is left with none says nothing about new ones.
    """
    if not labels.any():
        return held_out, list(rankings)
    Y = held_out.Y.copy()
    Y.data[labels[Y.indices]] = 0
    Y.eliminate_zeros()
    rest = replace(held_out, Y=Y, relevance=None)
    rankings = [ranking.where(~labels[ranking.ids]) for ranking in rankings]
    rows = np.flatnonzero((np.diff(Y.indptr) > 0) | (np.diff(held_out.Y.indptr) == 0))
    if len(rows) == len(rest):
        return rest, rankings
    return rest.take(rows), [ranking.take(rows) for ranking in rankings]
