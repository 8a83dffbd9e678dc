"""Documents by an encoder's vectors: eight bits a value, compared in whole numbers, so that bits never differ.

Half of what float16 takes, and no slower conversion on the way: 250,000 documents are compared in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED
from treetop.core.store import Part
from treetop.core.types import Floats, View, check_view
from treetop.kernels.search.int8_dots import int8_dots

MOST = 127  # the largest value of a vector
WIDEST = 100_000  # a product of two such vectors fits into 32 bits


class Vectors:
    """Cosines of dense rows with all documents."""

    kind: ClassVar[str] = "documents.vectors.1"

    def __init__(self, table: NDArray[np.int8]) -> None:
        self.table = table  # (documents, width)

    @classmethod
    def of(cls, blocks: Iterable[Any]) -> Vectors:
        """An index of the rows of some blocks, in their order."""
        return cls(np.concatenate([_rounded(np.asarray(block, np.float32)) for block in blocks]))

    def similarities(self, view: View) -> Floats:
        """(documents,) cosines with the one row of a view."""
        check_view(self.kind, view, self.table.shape[1], dense=True)
        return int8_dots(self.table, _rounded(np.asarray(view, np.float32))[0])

    def to_part(self) -> Part:
        return Part(self.kind, {}, {"table": self.table})

    @classmethod
    def from_part(cls, part: Part, n: int) -> Vectors:
        """What `to_part` stored of `n` documents."""
        table = part.array("table", "|i1", n, None)
        if table.shape[1] > WIDEST:
            raise ModelError(f"{part.kind}: vectors of {table.shape[1]} values, allowed: {WIDEST}. {DAMAGED}")
        return cls(table)


def _rounded(rows: Floats) -> NDArray[np.int8]:
    """Each row scaled so that its largest value is MOST; cosines do not depend on the scale."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    scale = np.float32(MOST) / np.where(largest > 0, largest, np.float32(1))
    return np.rint(rows * scale[:, None]).astype(np.int8)
