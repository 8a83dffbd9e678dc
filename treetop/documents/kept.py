"""The training documents as a model keeps them: texts, labels, and an index that finds the nearest ones.

A model has them only where the user asked for it (`keep_texts`): training texts may be private, and models are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr, Ints
from treetop.core.errors import ModelError
from treetop.core.label_part import pack, unpack
from treetop.core.part_checks import DAMAGED, MOST_DOCUMENTS
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Floats, View
from treetop.documents.terms import Terms
from treetop.documents.vectors import Vectors

Index = Terms | Vectors
KINDS: dict[str, type[Index]] = {index.kind: index for index in (Terms, Vectors)}


class NearDocument(NamedTuple):
    """A training text that resembles the text at hand."""

    row: int  # in the training data, from 0
    similarity: float  # cosine
    text: str
    labels: tuple[str, ...]  # ids


@dataclass(frozen=True, eq=False)
class Documents:
    """Texts and labels of the training documents, and an index over one view of them."""

    kind: ClassVar[str] = "documents.1"

    view: str  # what the index reads of a text
    index: Index
    texts: Texts
    rows: Ints  # (documents,) of the training data
    Y: Csr  # documents x labels; columns as they were trained

    @classmethod
    def of(cls, view: str, blocks: Iterable[Any], texts: Texts, rows: Ints, Y: Csr) -> Documents:
        """Documents whose views come in `blocks`; sparse ones are indexed by term."""
        found = list(blocks)
        index: Index = Terms.of(found) if sparse.issparse(found[0]) else Vectors.of(found)
        Y = sparse.csr_matrix(Y)
        Y.eliminate_zeros()
        return cls(view, index, texts, rows.astype(np.int64), Y)

    def __len__(self) -> int:
        return len(self.texts)

    def similarities(self, views: Mapping[str, View]) -> Floats:
        """(documents,) cosines with a text, given its views."""
        if self.view not in views:
            raise ModelError(f"{self.kind}: reads the view '{self.view}', which no features make. {DAMAGED}")
        found = self.index.similarities(views[self.view])
        if not np.isfinite(found).all():
            raise ModelError(f"{self.index.kind}: a similarity is not finite. {DAMAGED}")
        return found

    def carrying(self, column: int) -> Ints:
        """Documents that carry a label."""
        places = np.flatnonzero(self.Y.indices == column)
        return np.searchsorted(self.Y.indptr, places, side="right") - 1

    def columns(self, document: int) -> list[int]:
        """The labels of a document."""
        found: list[int] = self.Y.indices[self.Y.indptr[document] : self.Y.indptr[document + 1]].tolist()
        return found

    def to_part(self) -> Part:
        arrays = {"rows": self.rows, "y_ptr": self.Y.indptr.astype(np.int64), "y_col": self.Y.indices.astype(np.int32)}
        return Part(
            self.kind, {"view": self.view}, {**arrays, **pack("texts", self.texts)}, {"index": self.index.to_part()}
        )

    @classmethod
    def from_part(cls, part: Part, n_labels: int) -> Documents:
        """What `to_part` stored in a model of so many labels, checked."""
        texts = unpack(part, "texts")
        n, inner = len(texts), part.parts.get("index")
        if n < 1 or inner is None or inner.kind not in KINDS:
            raise ModelError(f"{part.kind}: no documents, or no index of them. {DAMAGED}")
        column = part.indices("y_col", "<i4", None, n_labels)
        ends = part.pointers("y_ptr", n + 1, len(column))
        Y = sparse.csr_matrix((np.ones(len(column), np.float32), column, ends), (n, n_labels))
        rows = part.indices("rows", "<i8", n, MOST_DOCUMENTS)
        return cls(part.setting("view", str), KINDS[inner.kind].from_part(inner, n), texts, rows, Y)


def nearest(similarities: Floats, k: int, among: Ints | None = None) -> Ints:
    """The `k` documents that are most similar, of all or of some; equal ones by number, unlike ones never."""
    found = np.flatnonzero(similarities > 0) if among is None else among[similarities[among] > 0]
    if len(found) > k:
        least = np.partition(similarities[found], len(found) - k)[len(found) - k]
        found = found[similarities[found] >= least]
    return found[np.lexsort((found, -similarities[found]))][:k]
