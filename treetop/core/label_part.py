"""Labels as they lie in a model folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import LabelSet
from treetop.core.store import Part
from treetop.core.texts import Texts


def labels_part(labels: LabelSet, counts: NDArray[np.int64]) -> Part:
    """Labels as data, with their training counts."""
    arrays: dict[str, NDArray[Any]] = {"status": labels.status, "counts": counts}
    for name in ("ids", "names", "texts"):
        texts: Texts = getattr(labels, name)
        arrays |= {f"{name}_blob": texts.blob, f"{name}_ends": texts.offsets}
    return Part("labels.1", {}, arrays)


def labels_from_part(part: Part) -> tuple[LabelSet, NDArray[np.int64]]:
    """What `labels_part` stored, offsets checked."""
    status = part.array("status", "|u1", None)
    columns = []
    for name in ("ids", "names", "texts"):
        blob = part.array(f"{name}_blob", "|u1", None)
        columns.append(Texts(blob, part.pointers(f"{name}_ends", len(status) + 1, len(blob))))
    ids, names, texts = columns
    return LabelSet(ids, names, texts, status), part.array("counts", "<i8", len(status))
