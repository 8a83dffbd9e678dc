"""Training and test data: documents, labels and everything that belongs to them; shapes are checked here.

`Y` (documents x labels) is scipy csr with float32 values.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import registry
from treetop.core.errors import InputError, LabelError, did_you_mean
from treetop.core.texts import Texts
from treetop.core.thesaurus import Thesaurus

Csr: TypeAlias = Any  # scipy.sparse.csr_matrix with float32 values; scipy ships no types
Ints = NDArray[np.int64]

DOCUMENT, LABEL_TEXT, SYNTHETIC = 0, 1, 2  # roles of rows
ROLES = ("document", "label", "synthetic")
ACTIVE, RETIRED = 0, 1  # status of labels
AT_HAND = 1 << 15  # labels whose id and name are kept as strings, some 300 bytes each
FEW = 20_000  # labels up to which the nearest spelling is suggested


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Labels in column order: unique ids, names (need not be unique), texts, status, and other names and relations.

    >>> LabelSet.of(["n1", "n2"], names=["cat", "dog"]).find("dog")
    1
    """

    ids: Texts
    names: Texts
    texts: Texts
    status: NDArray[np.uint8]
    thesaurus: Thesaurus | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        if not len(self.names) == len(self.texts) == len(self.status) == n:
            raise InputError(f"labels: {n} ids but {len(self.names)} names, {len(self.texts)} texts.")

    @classmethod
    def of(cls, ids: Sequence[str], names: Sequence[str] | None = None, texts: Sequence[str] | None = None) -> LabelSet:
        """Labels from plain strings; a missing name is the text, or else the id; a missing text stays empty."""
        packed = Texts.of(ids)
        texts_ = Texts.of(texts) if texts is not None else Texts.of([""] * len(packed))
        if names is None:
            names = [text or id_ for text, id_ in zip(texts_, packed, strict=True)]
        labels = cls(packed, Texts.of(names), texts_, np.zeros(len(packed), np.uint8))
        if len(labels.columns) != len(packed):
            twice = next(id_ for column, id_ in enumerate(packed) if labels.columns[id_] != column)
            raise LabelError(f"labels: id '{twice}' appears twice. Label ids must be unique; names need not be.")
        return labels

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelSet)
            and all(getattr(self, field) == getattr(other, field) for field in ("ids", "names", "texts", "thesaurus"))
            and np.array_equal(self.status, other.status)
        )

    @cached_property
    def columns(self) -> dict[str, int]:
        """Id -> column"""
        return {id_: column for column, id_ in enumerate(self.ids)}

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for column, name in enumerate(self.names):
            table.setdefault(name, []).append(column)
        return table

    def shown(self, column: int) -> tuple[str, str]:
        """Id and name of a label; those asked for most often are at hand."""
        if (found := self._shown.get(column)) is None:
            if len(self._shown) >= AT_HAND:
                self._shown.clear()
            found = self._shown[column] = (self.ids[column], self.names[column])
        return found

    @cached_property
    def _shown(self) -> dict[int, tuple[str, str]]:
        return {}

    def find(self, key: str) -> int:
        """The column of an id, or of a name that only one label carries."""
        column = self.columns.get(key)
        if column is not None:
            return column
        columns = self._by_name.get(key, [])
        if len(columns) == 1:
            return columns[0]
        if columns:
            ids = ", ".join(self.ids[column] for column in columns[:5])
            raise LabelError(f"label '{key}': {len(columns)} labels have this name. Use an id: {ids}.", label=key)
        near = did_you_mean(key, dict.fromkeys([*self._by_name, *self.ids])) if len(self) <= FEW else ""
        raise LabelError(f"label '{key}': unknown id or name.{near} `treetop labels list` shows all.", label=key)

    def extended(self, new_ids: Sequence[str]) -> LabelSet:
        """These labels followed by `new_ids`, which have no name or text yet."""
        if not new_ids:
            return self
        new = LabelSet.of(new_ids)
        return LabelSet(
            Texts.concat([self.ids, new.ids]),
            Texts.concat([self.names, new.names]),
            Texts.concat([self.texts, new.texts]),
            np.concatenate([self.status, new.status]),
            self.thesaurus,
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts with their labels, and everything that belongs to them.

    `Y` holds targets in (0, 1]; a stored value > 0 is a hit. Trees, PIFA, propensities and validation use all rows with
    role "document", and no others. `filter_pairs` are (row, column) pairs that may be neither predicted nor negatives.
    Rows outside `sample` count there too but are not trained on. `Y` becomes float32 in place.
    """

    texts: Texts
    Y: Csr  # (n_documents, n_labels)
    labels: LabelSet
    ids: Texts | None = None  # document ids where the source had them
    roles: NDArray[np.uint8] | None = None  # (n_documents,) None: all documents
    features: Mapping[str, Csr] = dataclasses.field(default_factory=dict)  # precomputed views
    relevance: Csr | None = None  # weights with exactly Y's pattern
    propensity: tuple[float, float] = (0.55, 1.5)  # constants A, B
    filter_pairs: Ints | None = None  # (n_pairs, 2)
    sample: NDArray[np.bool_] | None = None  # (n_documents,) rows to train on; None: all
    name: str = "data"
    language: str = ""  # of the texts, where it is known: fi, or finnish

    def __post_init__(self) -> None:
        n, n_labels = self.Y.shape
        if len(self.texts) != n or len(self.labels) != n_labels:
            raise InputError(
                f"{self.name}: {len(self.texts)} texts and {len(self.labels)} labels, but targets of {n} x {n_labels}."
            )
        if self.Y.dtype != np.float32:
            self.Y.data = self.Y.data.astype(np.float32)
        self.Y.sum_duplicates()
        if self.Y.nnz and not (np.isfinite(self.Y.data).all() and self.Y.data.min() >= 0 and self.Y.data.max() <= 1):
            raise InputError(f"{self.name}: targets must be numbers from 0 to 1. Put weights into `relevance` instead.")
        if self.roles is not None and len(self.roles) != n:
            raise InputError(f"{self.name}: {len(self.roles)} roles for {n} rows.")
        if self.sample is not None and len(self.sample) != n:
            raise InputError(f"{self.name}: a sample of {len(self.sample)} rows for {n} rows.")
        if self.ids is not None and len(self.ids) != n:
            raise InputError(f"{self.name}: {len(self.ids)} ids for {n} rows.")
        for key, X in self.features.items():
            if X.shape[0] != n:
                raise InputError(f"{self.name}: features '{key}' have {X.shape[0]} rows for {n} texts.")
            _check_features(f"{self.name}: features '{key}'", X)
        if self.relevance is not None and (
            self.relevance.shape != self.Y.shape
            or not np.array_equal(self.relevance.indptr, self.Y.indptr)
            or not np.array_equal(self.relevance.indices, self.Y.indices)
        ):
            raise InputError(f"{self.name}: relevance weights must have exactly the sparsity pattern of the targets.")
        if self.relevance is not None and not ((self.relevance.data >= 0) & np.isfinite(self.relevance.data)).all():
            raise InputError(f"{self.name}: relevance weights must be finite numbers, 0 or more. Fix or drop them.")
        pairs = self.filter_pairs
        if pairs is not None and len(pairs) and (pairs.min() < 0 or (pairs.max(0) >= (n, n_labels)).any()):
            raise InputError(f"{self.name}: a filter pair lies outside the {n} rows and {n_labels} labels.")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def n_labels(self) -> int:
        return len(self.labels)

    @property
    def documents(self) -> NDArray[np.bool_]:
        """(n_documents,) True where the row is a real document."""
        return np.ones(len(self), bool) if self.roles is None else self.roles == DOCUMENT

    @property
    def learned(self) -> NDArray[np.bool_]:
        """(n_documents,) True where the row is trained on."""
        return np.ones(len(self), bool) if self.sample is None else self.sample

    @property
    def ignored(self) -> Csr | None:
        """(n_documents, n_labels) 1 for filter pairs, which are neither positives nor negatives; None: no pairs."""
        pairs = self.filter_pairs
        if pairs is None or len(pairs) == 0:
            return None
        matrix = sparse.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), self.Y.shape)
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        return matrix

    @property
    def most_filtered(self) -> int:
        """The largest number of filter pairs of one row: how much deeper to rank, so that enough labels are left."""
        pairs = self.filter_pairs
        return 0 if pairs is None or len(pairs) == 0 else int(np.bincount(pairs[:, 0]).max())

    @cached_property
    def label_counts(self) -> Ints:
        """(n_labels,) documents that carry each label."""
        Y = self.Y if self.roles is None else self.Y[self.documents]
        return np.bincount(Y.indices[Y.data > 0], minlength=self.n_labels).astype(np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that training depends on."""
        digest = hashlib.sha256()

        def add(*arrays: Any) -> None:
            for array in arrays:
                digest.update(memoryview(np.ascontiguousarray(array)).cast("B") if len(array) else b"")
                digest.update(b"|")

        for texts in (self.texts, self.labels.ids, self.labels.names, self.labels.texts):
            add(texts.blob, texts.offsets)
        add(self.labels.status, np.array(self.propensity))
        if (more := self.labels.thesaurus) is not None:
            add(more.names.blob, more.names.offsets, *(array.reshape(-1) for array in more.arrays()))
        for name, matrix in (("", self.Y), ("relevance", self.relevance), *sorted(self.features.items())):
            if matrix is not None:
                digest.update(f"{name}|".encode())
                add(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
        for extra in (self.roles, self.filter_pairs, *(() if self.sample is None else (self.sample,))):
            add(() if extra is None else extra.reshape(-1))
        return digest.hexdigest()[:32]

    @classmethod
    def read(cls, path: object, split: str = "train", *, strict: bool = False, **options: Any) -> Dataset:
        """Read a folder, a file or a bundled name; see `docs/formats.md` for the formats.

        `options` give what a file cannot say itself: one_based, separator (of labels in a cell), fields (joined to
        the text, such as title and content), label_field, language (of SKOS names), text_language, sheet (of a
        spreadsheet), join_labels, and skip (a `treetop.Skipped` that collects bad rows instead of stopping at one).
        """
        return registry.find("data", "read")(path, split, strict=strict, **options)

    @classmethod
    def from_frame(
        cls, frame: Any, text: str = "text", labels: str = "labels", separator: str | None = None
    ) -> Dataset:
        """A Dataset from a pandas (or similar) frame: one column of strings, one of lists of labels.

        Where labels are strings such as "cat|dog", `separator` says where to split them.
        """
        return registry.find("data", "frame")(frame, text, labels, separator)

    def take(self, rows: NDArray[np.integer]) -> Dataset:
        """The rows at `rows`, in that order and possibly repeated; labels are unchanged."""
        rows = np.asarray(rows, dtype=np.int64)
        pairs = self.filter_pairs
        if pairs is not None:
            excluded = sparse.csr_matrix((np.ones(len(pairs), bool), pairs.T), self.Y.shape)
            pairs = np.column_stack(excluded[rows].nonzero()).astype(np.int64)
        return dataclasses.replace(
            self,
            texts=self.texts.take(rows),
            Y=self.Y[rows],
            ids=None if self.ids is None else self.ids.take(rows),
            roles=None if self.roles is None else self.roles[rows],
            features={key: X[rows] for key, X in self.features.items()},
            relevance=None if self.relevance is None else self.relevance[rows],
            filter_pairs=pairs,
            sample=None if self.sample is None else self.sample[rows],
        )

    def align(self, labels: LabelSet) -> Dataset:
        """The same rows with columns in the order of `labels`; labels unknown there are appended and stay misses."""
        if labels.ids == self.labels.ids:
            return dataclasses.replace(self, labels=labels)
        known = labels.columns
        used = np.zeros(self.n_labels, bool)
        used[self.Y.indices] = True
        if self.filter_pairs is not None:
            used[self.filter_pairs[:, 1]] = True
        new = [id_ for id_, here in zip(self.labels.ids, used, strict=True) if here and id_ not in known]
        wide = labels.extended(new)
        column = np.array([wide.columns.get(id_, 0) for id_ in self.labels.ids], dtype=np.int64)

        def moved(matrix: Csr) -> Csr:
            aligned = sparse.csr_matrix((matrix.data, column[matrix.indices], matrix.indptr), (len(self), len(wide)))
            aligned.sort_indices()
            return aligned

        pairs = self.filter_pairs
        return dataclasses.replace(
            self,
            Y=moved(self.Y),
            labels=wide,
            relevance=None if self.relevance is None else moved(self.relevance),
            filter_pairs=None if pairs is None else np.column_stack([pairs[:, 0], column[pairs[:, 1]]]),
        )


def _check_features(where: str, X: Csr) -> None:
    """Refuse NaN, infinite values, and rows whose sum of squares overflows float32."""
    largest = max(abs(float(X.data.min())), abs(float(X.data.max()))) if X.data.size else 0.0  # NaN propagates
    if not np.isfinite(largest):
        raise InputError(f"{where} have a value that is NaN or infinite. Allowed: finite numbers; fix or drop the row.")
    lengths = np.diff(X.indptr)
    limit = float(np.finfo(np.float32).max)
    if largest * largest * int(lengths.max(initial=0)) <= limit:
        return
    rows = np.repeat(np.arange(X.shape[0]), lengths)
    with np.errstate(over="ignore"):
        squares = np.bincount(rows, X.data.astype(np.float64) ** 2, minlength=X.shape[0])
    if (squares > limit).any():
        raise InputError(
            f"{where} are too large: the squares in row {int(np.argmax(squares > limit))} add up to more than float32 "
            "holds. Scale the features, for example each row to length 1."
        )
