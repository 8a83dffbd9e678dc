"""The types of the pipeline and the protocols of its stages; shapes are checked once, here (and in `dataset.py`).

Matrices keep the letters of the papers: X documents x features, Y documents x labels, Z labels x features, W features x
labels, C nodes x parents. Sparse ones are scipy csr with float32 values.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Ints
from treetop.core.errors import ConfigError, InputError, ModelError, choose, did_you_mean
from treetop.core.texts import Texts

if TYPE_CHECKING:
    from treetop.core.store import Part

Floats = NDArray[np.float32]
Combine = Literal["own", "parent", "path"]
KeepBy = Literal["score", "own"]
WIDEST = 2**31 - 1  # beam


@dataclass(frozen=True, eq=False)
class LabelTree:
    """Levels of nodes from coarse to fine; the last level is the labels in column order.

    `parents[t][i]` is the parent (a node of level t - 1; 0 = the root at t = 0) of node i of level t. A shallow leaf
    is padded by nodes marked in `copies[t]`, which pass on their parent's own and combined score.
    """

    parents: tuple[NDArray[np.int32], ...]
    copies: tuple[NDArray[np.bool_] | None, ...] = ()

    def __post_init__(self) -> None:
        above = 1
        for t, parent in enumerate(self.parents):
            if len(parent) and (parent.min() < 0 or parent.max() >= above):
                raise InputError(f"tree: level {t} names a parent outside the {above} nodes above.")
            above = len(parent)
        if self.copies and len(self.copies) != len(self.parents):
            raise InputError(f"tree: {len(self.copies)} copy masks for {len(self.parents)} levels.")

    @property
    def sizes(self) -> list[int]:
        return [len(parent) for parent in self.parents]

    def children(self, level: int) -> tuple[Ints, NDArray[np.int32]]:
        """(indptr over the nodes above, nodes of `level` grouped by parent in ascending order)."""
        parent = self.parents[level]
        above = 1 if level == 0 else len(self.parents[level - 1])
        indptr = np.zeros(above + 1, np.int64)
        np.cumsum(np.bincount(parent, minlength=above), out=indptr[1:])
        return indptr, np.argsort(parent, kind="stable").astype(np.int32)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Which nodes or labels deserve a score, per document; `ids is None` means all `n` of them.

    Carries the parents' own and combined score, so that a level can join its own with them.
    """

    n_documents: int
    n: int
    indptr: Ints | None = None  # (n_documents + 1,)
    ids: NDArray[np.int32] | None = None
    parent_own: Floats | None = None
    parent_score: Floats | None = None
    scores: Floats | None = None  # of the shortlist itself

    @classmethod
    def all(cls, n_documents: int, n: int) -> Candidates:
        return cls(n_documents, n)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Per document the best ids with combined `score` and `own` score, sorted by score, then id; absent is absent."""

    indptr: Ints  # (n_documents + 1,)
    ids: NDArray[np.int32]
    score: Floats
    own: Floats

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def sorted(cls, indptr: Ints, ids: NDArray[np.int32], score: Floats, own: Floats | None = None) -> Ranking:
        """A ranking from unsorted rows."""
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        order = np.lexsort((ids, -score, rows))
        score = score[order]
        return cls(indptr, ids[order].astype(np.int32), score, score if own is None else own[order])

    @classmethod
    def concat(cls, parts: Sequence[Ranking]) -> Ranking:
        if not parts:
            return cls(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32))
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        return cls(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.own for part in parts]),
        )

    def top(self, k: int) -> Ranking:
        """At most the first `k` of each document."""
        lengths = np.diff(self.indptr)
        if len(lengths) == 0 or lengths.max(initial=0) <= k:
            return self
        place = np.arange(len(self.ids)) - np.repeat(self.indptr[:-1], lengths)
        return self.where(place < k)

    def distinct(self) -> Ranking:
        """Each id of a document once, at its first place."""
        rows = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.indptr))
        _, first = np.unique(rows * (int(self.ids.max(initial=0)) + 1) + self.ids, return_index=True)
        kept = np.zeros(len(self.ids), bool)
        kept[first] = True
        return self if kept.all() else self.where(kept)

    def take(self, rows: Ints) -> Ranking:
        """The documents at `rows`, in that order."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][rows] - indptr[:-1], lengths)
        return Ranking(indptr, self.ids[entries], self.score[entries], self.own[entries])

    def where(self, kept: NDArray[np.bool_]) -> Ranking:
        """The entries marked in `kept`."""
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        return Ranking(running[self.indptr], self.ids[kept], self.score[kept], self.own[kept])

    def padded(self, k: int) -> NDArray[np.int32]:
        """(n_documents, k) ids, -1 where a document has fewer."""
        top = self.top(k)
        table = np.full((len(self), k), -1, np.int32)
        lengths = np.diff(top.indptr)
        rows = np.repeat(np.arange(len(self)), lengths)
        table[rows, np.arange(len(top.ids)) - np.repeat(top.indptr[:-1], lengths)] = top.ids
        return table

    def to_csr(self, n_labels: int) -> Csr:
        """(n_documents, n_labels) scores as a matrix for other libraries; a stored zero still means "present"."""
        return sparse.csr_matrix((self.score, self.ids, self.indptr), shape=(len(self), n_labels))


TRANSFORMS = ("noop", "sigmoid", "log_sigmoid", *(f"{log}hinge{p}" for log in ("", "log_") for p in (1, 2, 3, 4)))


@dataclass(frozen=True)
class Join:
    """How a margin becomes a score: own = transform(margin), then joined with the parent's own or combined score."""

    transform: str = "noop"
    combine: Combine = "own"

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise ConfigError(
                f"transform: unknown value '{self.transform}'. Choose one of {', '.join(TRANSFORMS)}."
                f"{did_you_mean(self.transform, TRANSFORMS)}"
            )
        choose("combine", self.combine, get_args(Combine))
        if self.transform == "noop" and self.combine != "own":
            raise ConfigError(f"combine: '{self.combine}' needs a transform; raw margins (noop) allow only 'own'.")

    @property
    def adds(self) -> bool:
        """Log scores add up along the path, others multiply."""
        return self.transform.startswith("log_")

    def own(self, margin: Floats) -> Floats:
        """Transformed margins, float32 in and out."""
        name = self.transform.removeprefix("log_")
        if name == "noop":
            return margin
        if name == "sigmoid":
            log = -np.logaddexp(np.float32(0), -margin)
        else:
            log = -(np.maximum(np.float32(0), np.float32(1) - margin) ** np.float32(int(name[-1])))
        return (log if self.adds else np.exp(log)).astype(np.float32)

    def score(self, own: Floats, candidates: Candidates) -> Floats:
        """Combined scores; `own` as it is on the first level, where there is no parent."""
        parent = {"own": None, "parent": candidates.parent_own, "path": candidates.parent_score}[self.combine]
        if parent is None:
            return own
        return own + parent if self.adds else own * parent


@dataclass(frozen=True)
class Scores:
    """Metrics in percent with 95 % intervals, shares per frequency bin, F1 at thresholds (`evaluate/`)."""

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    bins: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    thresholds: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # of a calibrated model

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]

    def to_dict(self) -> dict[str, Any]:
        """What `treetop evaluate --json` prints."""
        more = {"thresholds": self.thresholds} if self.thresholds else {}
        return {**self.values, "intervals": self.intervals, "bins": self.bins, "counts": self.counts, **more}


class Stored(Protocol):
    """Anything stored in a model folder: `to_part` returns it as data, `from_part` checks and rebuilds it."""

    kind: ClassVar[str]  # registry question and name with a version: "rank.neighbours.1"

    def to_part(self) -> Part: ...
    @classmethod
    def from_part(cls, part: Part) -> Any: ...


View = Any  # a csr matrix, a dense array or a DeviceView: one row per document
# A view (n_texts,) of features that can tell: the share of each text's words they know. NaN: it has none, or terms are
# not words. A falling share is a sign of drift.
KNOWN_WORDS = "known words"


class DeviceView(ABC):
    """A dense view whose rows lie on a device; slices of rows stay there, `np.asarray` copies them to the host."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...
    @abstractmethod
    def __getitem__(self, rows: slice) -> DeviceView: ...
    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...

    def __len__(self) -> int:
        return self.shape[0]


def check_view(kind: str, view: View, width: int, *, dense: bool) -> None:
    """Refuse a view of another form or width than the component `kind` was trained on."""
    if isinstance(view, np.ndarray | DeviceView) != dense or len(view.shape) != 2:
        wanted = "vectors" if dense else "sparse rows"
        raise ModelError(f"{kind}: reads {wanted}, got {type(view).__name__}. The model is damaged; copy it again.")
    if view.shape[1] != width:
        raise ModelError(f"{kind}: got a view of {view.shape[1]} columns, was trained on {width}.")


class Features(Stored, Protocol):
    """How does a text become numbers?"""

    def views(self, texts: Texts) -> Mapping[str, View]:
        """Named views of a batch, computed when first asked for."""
        ...


class Partition(Protocol):
    """Which labels belong together? The settings of a partition, which grow its trees."""

    def grow(self, Z: Any, *, seed: int) -> LabelTree:
        """A tree over the rows of Z (labels x features, csr or dense)."""
        ...


class Shortlist(Stored, Protocol):
    """Which labels deserve a score?"""

    n: int  # nodes or labels it can name

    def candidates(self, view: View, above: Ranking | None) -> Candidates: ...


class Rank(Stored, Protocol):
    """How good is each candidate?"""

    n: int  # nodes or labels it can rank

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        """The best `keep` candidates of each document, sorted; never n_documents x n_labels in memory."""
        ...


@dataclass(frozen=True, eq=False)
class Level:
    """One step of the descent: read a view, shortlist, rank, keep the best `beam` by `keep_by`."""

    view: str
    shortlist: Shortlist
    rank: Rank
    join: Join = Join()
    beam: int = 10
    keep_by: KeepBy = "score"

    def __post_init__(self) -> None:
        choose("keep_by", self.keep_by, get_args(KeepBy))
        if not 1 <= self.beam <= WIDEST:
            raise ConfigError(f"beam: {self.beam} is out of range. Allowed: 1 to {WIDEST}.")
