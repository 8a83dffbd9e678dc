"""Data of which only sizes are known: recipes forecast from it as from real data, and no memory is taken."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError
from treetop.core.texts import Texts

ID_BYTES = 8  # of a label's id


@dataclass(frozen=True)
class Size:
    """How large the data are."""

    documents: float
    labels: float
    tokens: float  # words of a document
    labels_per_document: float = 5.0
    label_tokens: float = 4.0  # words of a label's name

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name == "label_tokens" else 1
            if not least <= value <= 1e13:
                raise ConfigError(f"--{name.replace('_', '-')}: {value:g} is out of range. Allowed: {least} to 1e13.")

    @property
    def assignments(self) -> float:
        return self.documents * self.labels_per_document


class Imagined(Dataset):
    """A data set without content; what forecasts would sample of it is given instead."""

    described: float  # share of a label's terms that are distinct


def _constant(value: int, n: float, kind: Any) -> NDArray[Any]:
    return np.broadcast_to(np.asarray(value, kind), (int(n),))


def _texts(n: float, size: float) -> Texts:
    texts = Texts.__new__(Texts)
    texts.blob, texts.offsets = _constant(ord("a"), n * size, np.uint8), _constant(0, n + 1, np.int64)
    return texts


def imagined(size: Size, *, bytes_per_token: float, described: float) -> Imagined:
    """Data of this size; text has words of so many bytes, with the blank behind them."""
    ids, names = _texts(size.labels, ID_BYTES), _texts(size.labels, size.label_tokens * bytes_per_token)
    labels = LabelSet(ids, names, names, _constant(0, size.labels, np.uint8))
    shape = (int(size.documents), int(size.labels))
    data = Imagined.__new__(Imagined)
    fields = {
        "texts": _texts(size.documents, size.tokens * bytes_per_token),
        "Y": SimpleNamespace(nnz=int(size.assignments), shape=shape),
        "labels": labels, "ids": None, "roles": None, "features": {}, "relevance": None, "propensity": (0.55, 1.5),
        "filter_pairs": None, "sample": None, "name": "imagined data", "language": "", "described": described,
        "label_counts": _constant(int(size.assignments / size.labels), size.labels, np.int64),
    }  # fmt: skip
    data.__dict__.update(fields)
    return data
