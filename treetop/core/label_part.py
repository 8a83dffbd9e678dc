"""Labels as stored in a model folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import LabelSet
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.thesaurus import Thesaurus

STRINGS = ("ids", "names", "texts")


def labels_part(labels: LabelSet, counts: NDArray[np.int64]) -> Part:
    """Labels as data, with their training counts."""
    more = {} if labels.thesaurus is None else _pack_thesaurus(labels.thesaurus)
    return Part("labels.1", {}, {"status": labels.status, "counts": counts, **pack_labels(labels), **more})


def labels_from_part(part: Part) -> tuple[LabelSet, NDArray[np.int64]]:
    """What `labels_part` stored, offsets checked."""
    status = part.indices("status", "|u1", None, 2)
    ids, names, texts = (unpack(part, name, len(status)) for name in STRINGS)
    thesaurus = _unpack_thesaurus(part, len(status)) if "alt_of" in part.arrays else None
    return LabelSet(ids, names, texts, status, thesaurus), part.array("counts", "<i8", len(status))


def _pack_thesaurus(thesaurus: Thesaurus) -> dict[str, NDArray[Any]]:
    pairs = {"broader": thesaurus.broader.reshape(-1), "related": thesaurus.related.reshape(-1)}
    return {"alt_of": thesaurus.owners, **pack("alt", thesaurus.names), **pairs}


def _unpack_thesaurus(part: Part, n: int) -> Thesaurus:
    owners = part.indices("alt_of", "<i4", None, n)
    pairs = [part.indices(name, "<i4", None, n) for name in ("broader", "related")]
    if any(len(each) % 2 for each in pairs):
        raise ModelError(f"{part.kind}: a relation between labels has one side only. {DAMAGED}")
    return Thesaurus(unpack(part, "alt", len(owners)), owners, *(each.reshape(-1, 2) for each in pairs))


def pack_labels(labels: LabelSet) -> dict[str, NDArray[Any]]:
    """The strings of labels as arrays of a part."""
    return {key: array for name in STRINGS for key, array in pack(name, getattr(labels, name)).items()}


def pack(name: str, texts: Texts) -> dict[str, NDArray[Any]]:
    """Strings as arrays of a part."""
    return {f"{name}_blob": texts.blob, f"{name}_ends": texts.offsets}


def unpack(part: Part, name: str, n: int | None = None) -> Texts:
    """What `pack` stored, offsets checked."""
    blob = part.array(f"{name}_blob", "|u1", None)
    n = len(part.array(f"{name}_ends", "<i8", None)) - 1 if n is None else n
    return Texts(blob, part.pointers(f"{name}_ends", n + 1, len(blob)))
