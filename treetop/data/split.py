"""Train and validation rows by a hash of the text: equal texts stay together, whatever the other rows."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import ConfigError, InputError

WORDLESS = re.compile(r"\W+")


def normalise(text: str) -> str:
    """Lower case, runs of non-word characters as one blank, stripped; texts equal in this form are equal.

    >>> normalise("  The CAT, again! ")
    'the cat again'
    """
    return WORDLESS.sub(" ", text.lower()).strip()


def holdout(
    dataset: Dataset, fraction: float = 0.1, seed: int = 0, never: NDArray[np.bool_] | None = None
) -> tuple[Ints, Ints]:
    """(rows to train on, rows to validate on), about `fraction` of the documents in the second.

    Label texts and synthetic rows are never validated on; those equal to a validation text are in neither. Rows marked
    in `never`, and texts equal to theirs, are all trained on.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"fraction: {fraction} is out of range. Allowed: between 0 and 1, for example 0.1.")
    place = places(dataset, seed)
    if never is not None and never.any():
        place[np.isin(place, place[never])] = 1.0
    documents = dataset.documents
    chosen = place < fraction
    if len(np.unique(place[documents])) < 2:
        raise InputError(f"{dataset.name}: a split needs at least two different texts. Add rows.")
    if not chosen[documents].any():
        chosen = place == place[documents].min()
    elif chosen[documents].all():
        chosen = place < place[documents].max()
    return np.flatnonzero(~chosen), np.flatnonzero(chosen & documents)


def places(dataset: Dataset, seed: int) -> NDArray[np.float64]:
    """(n_rows,) a number in [0, 1) for each row, the same for equal texts; rows without a text use their features."""
    X = dataset.features.get("given")
    key = str(seed).encode()
    hashes = np.empty(len(dataset), np.float64)
    for i, text in enumerate(dataset.texts):
        content = (normalise(text) or text).encode("utf-8", "replace")
        if not content and X is not None:
            span = slice(X.indptr[i], X.indptr[i + 1])
            content = X.indices[span].astype("<i8").tobytes() + X.data[span].astype("<f4").tobytes()
        digest = hashlib.blake2b(content, digest_size=8, key=key[:64]).digest()
        hashes[i] = (int.from_bytes(digest, "little") >> 11) / 2**53
    return hashes
