"""Which predictions hit: the one place that handles filter pairs, row roles and soft targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from treetop.core.card import Card
from treetop.core.dataset import Csr, Dataset, Ints, LabelSet
from treetop.core.errors import InputError
from treetop.core.log import logger
from treetop.core.texts import folded
from treetop.core.types import Floats, Ranking
from treetop.evaluate.propensity import inverse_propensity
from treetop.kernels.metrics import Doubles, Ids, find_hits, first_allowed, grouped, row_sums
from treetop.kernels.runtime import threads

DEPTH = 10  # bins and curves look this deep whatever cuts are asked for
BLOCK = 4096  # rows per block; sums are added in block order


class HasThreshold(Protocol):
    """What evaluation needs of a calibration."""

    def threshold_for_f1(self) -> float: ...


class Ranks(Protocol):
    """What evaluation needs of a model."""

    @property
    def labels(self) -> LabelSet: ...
    @property
    def counts(self) -> Ints: ...
    @property
    def n_train(self) -> int: ...
    @property
    def card(self) -> Card: ...
    @property
    def calibration(self) -> HasThreshold | None: ...
    @property
    def fusion(self) -> object | None: ...
    def rank_dataset(self, dataset: Dataset, k: int) -> Ranking: ...
    def log_remarks(self, dataset: Dataset, name: str) -> None: ...
    def unknown_in(self, dataset: Dataset) -> NDArray[np.bool_]: ...
    def probabilities(self, ranking: Ranking, unknown: NDArray[np.bool_] | None = None) -> Floats | None: ...


@dataclass(frozen=True, eq=False)
class Matches:
    """Top predictions of every document with its true labels."""

    top: Ids  # (n_documents, depth) -1: fewer predictions
    hits: NDArray[np.bool_]  # (n_documents, depth)
    true_indptr: Ints  # (n_documents + 1,)
    true: Ids  # columns of true labels, ascending inside a row
    counts: Ints  # (n_labels,) training documents per label, 0 for labels the model does not know
    weights: Doubles  # (n_labels,) inverse propensities
    labels: LabelSet
    n_known: int  # labels from this column on are unknown to the model
    n_filtered: int = 0
    probability: Floats | None = None  # (n_documents, depth) of a calibrated model; 0 where there is no prediction
    f1_threshold: float | None = None  # where F1 was best on the documents of the calibration

    @classmethod
    def of(
        cls, ranking: Ranking, dataset: Dataset, counts: Ints, n_train: int, *, depth: int = DEPTH,
        probabilities: Floats | None = None, f1_threshold: float | None = None,
    ) -> Matches:  # fmt: skip
        """Match a ranking with a dataset whose first columns are the model's (`Dataset.align`).

        `counts` (training documents per label of the model) and `n_train` give propensities and frequency bins;
        `probabilities` are those of the ranking's entries.
        """
        _check(ranking, dataset, counts, depth)
        rows = np.flatnonzero(dataset.documents)
        if len(rows) == 0:
            raise InputError(f"{dataset.name}: no documents to evaluate on. Give a split that has rows.")
        pairs = dataset.filter_pairs if dataset.filter_pairs is not None else np.zeros((0, 2), np.int64)
        top = np.empty((len(rows), depth), np.int32)
        first_allowed(ranking.indptr, ranking.ids, rows, *grouped(pairs, len(dataset)), top)
        indptr, true = _true_labels(dataset, rows)
        hits = np.empty(top.shape, np.bool_)
        find_hits(top, indptr, true, hits)
        wide = np.zeros(dataset.n_labels, np.int64)
        wide[: len(counts)] = counts
        weights = inverse_propensity(wide, n_train, *dataset.propensity)
        sure = None if probabilities is None else _probability_of(top, rows, ranking, probabilities, dataset.n_labels)
        return cls(
            top, hits, indptr, true, wide, weights, dataset.labels, len(counts), len(pairs), sure, f1_threshold
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.top)

    @property
    def depth(self) -> int:
        return int(self.top.shape[1])

    @cached_property
    def positives(self) -> Ints:
        """(n_labels,) documents that truly carry each label."""
        return np.bincount(self.true, minlength=len(self.labels))

    def predicted(self, k: int) -> Ints:
        """(n_labels,) how often each label is in the top k."""
        top = self.top[:, :k]
        return np.bincount(top[top >= 0], minlength=len(self.labels))

    def correct(self, k: int) -> Ints:
        """(n_labels,) how often each label is a hit in the top k."""
        return np.bincount(self.top[:, :k][self.hits[:, :k]], minlength=len(self.labels))

    def table(self, start: int, stop: int, cuts: Ints) -> Doubles:
        """Per document the sums all row-wise metrics are made of, columns as in `kernels.metrics.row_sums`."""
        sums = np.empty((stop - start, 8 * len(cuts) + 1))
        indptr = self.true_indptr[start : stop + 1]
        row_sums(self.top[start:stop], self.hits[start:stop], indptr, self.true, self.weights, cuts, sums)
        return sums

    def sums(self, cuts: Ints) -> Doubles:
        """Column sums of `table` over all documents; those of two shards add up to those of the whole."""
        parts = threads.run(lambda a, b: self.table(a, b, cuts).sum(0), threads.blocks(len(self), BLOCK))
        return np.sum(parts, axis=0)


def hits(top: NDArray[np.integer], Y: Csr) -> NDArray[np.bool_]:
    """(rows, k) whether labels (rows, k) are targets of their rows; -1: no label."""
    n, rows = np.int64(Y.shape[1]), np.arange(Y.shape[0], dtype=np.int64)
    true = np.repeat(rows, np.diff(Y.indptr)) * n + Y.indices
    return np.isin(rows[:, None] * n + top, true) & (top >= 0)


def match(model: Ranks, dataset: Dataset, *, depth: int = DEPTH, strict: bool = False, name: str = "") -> Matches:
    """Rank the documents of `dataset` deep enough to survive its filter pairs, and match them.

    Labels the model does not know and rows without labels stay in and count as misses; `strict` refuses them. `name`
    tells models apart in messages.
    """
    _warn_seen(model, dataset, name or "the model")
    dataset = dataset.align(model.labels)
    if not dataset.documents.all():
        dataset = dataset.take(np.flatnonzero(dataset.documents))
    _check_truth(dataset, len(model.labels), name or "the model", strict=strict)
    _warn_excluded(dataset)
    model.log_remarks(dataset, name or "the model")
    ranking = model.rank_dataset(dataset, max(depth, DEPTH) + dataset.most_filtered)
    threshold, probabilities = None, None
    if model.calibration is not None:
        threshold = model.calibration.threshold_for_f1()
        probabilities = model.probabilities(ranking, model.unknown_in(dataset))
    return Matches.of(
        ranking, dataset, model.counts, model.n_train, depth=max(depth, DEPTH),
        probabilities=probabilities, f1_threshold=threshold,
    )  # fmt: skip


def _probability_of(top: Ids, rows: Ints, ranking: Ranking, probabilities: Floats, n_labels: int) -> Floats:
    """(rows, depth) probabilities of the labels in `top`, each that of its first place in the ranking."""
    n = np.int64(n_labels)
    keys = np.repeat(np.arange(len(ranking), dtype=np.int64), np.diff(ranking.indptr)) * n + ranking.ids
    order = np.argsort(keys, kind="stable")
    table, present = np.zeros(top.shape, np.float32), top >= 0
    asked = (rows[:, None] * n + top)[present]
    table[present] = probabilities[order[np.searchsorted(keys[order], asked)]]
    return table


def _check(ranking: Ranking, dataset: Dataset, counts: Ints, depth: int) -> None:
    if len(ranking) != len(dataset):
        raise InputError(f"evaluate: the ranking has {len(ranking)} rows, {dataset.name} has {len(dataset)}.")
    if len(counts) > dataset.n_labels:
        raise InputError(
            f"evaluate: {len(counts)} training counts for {dataset.n_labels} labels. "
            "Align the dataset with the model's labels first (Dataset.align)."
        )
    if len(ranking.ids) and not 0 <= ranking.ids.min() <= ranking.ids.max() < dataset.n_labels:
        raise InputError(f"evaluate: the ranking names a label outside the {dataset.n_labels} columns.")
    if depth < DEPTH:
        raise InputError(f"evaluate: depth is {depth}; at least {DEPTH} are needed for bins and curves.")


def _true_labels(dataset: Dataset, rows: Ints) -> tuple[Ints, Ids]:
    """(indptr, columns) of targets above 0 in the given rows."""
    Y = dataset.Y if len(rows) == len(dataset) else dataset.Y[rows]
    indptr, columns = Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False)
    positive = Y.data > 0
    if not positive.all():
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(positive)])[indptr]
        columns = columns[positive]
    return indptr, columns


def _spelled_otherwise(labels: LabelSet, unknown: Ids, n_known: int) -> int:
    """How many unknown labels differ from a known one only in case or spaces."""
    if not len(unknown):
        return 0
    known = {folded(labels.ids[column]) for column in range(n_known)}
    return sum(folded(labels.ids[column]) in known for column in unknown.tolist())


def _check_truth(dataset: Dataset, n_known: int, model: str, *, strict: bool) -> None:
    indptr, columns = _true_labels(dataset, np.arange(len(dataset)))
    unknown = np.unique(columns[columns >= n_known])
    odd = []
    if len(unknown):
        example = dataset.labels.ids[int(unknown[0])]
        odd.append(f"{len(unknown):,} labels {model} does not know (for example '{example}')")
    if empty := int((np.diff(indptr) == 0).sum()):
        odd.append(f"{empty:,} rows without labels")
    if odd and strict:
        raise InputError(f"{dataset.name}: {' and '.join(odd)}. Leave out --strict to count them as misses.")
    if odd:
        logger.warning("%s: %s count as misses (--strict refuses them).", dataset.name, " and ".join(odd))
    if alike := _spelled_otherwise(dataset.labels, unknown, n_known):
        said = "of these labels differ from one that %s knows only in case or spaces; join them with --join-labels."
        logger.warning(f"%s: %s {said}", dataset.name, f"{alike:,}", model)
    if len(unknown) and not (columns < n_known).any():
        logger.warning(
            "%s: none of its labels is known to %s. Give data that name labels by the ids it was trained on.",
            dataset.name,
            model,
        )


def _warn_seen(model: Ranks, dataset: Dataset, name: str) -> None:
    """Warn if the model was trained or calibrated on these data."""
    card = model.card
    # Data of another size are not hashed.
    if card.data.get("texts") == len(dataset) and card.data.get("sha256") == dataset.fingerprint:
        logger.warning(
            "%s: these are the texts %s was trained on, so scores say nothing about new ones. Evaluate on others, "
            "held out before training (`treetop data split`, then --split valid).",
            dataset.name, name,
        )  # fmt: skip
    elif model.calibration is not None and card.calibrated_on(dataset.fingerprint):
        logger.warning(
            "%s: %s was calibrated on these texts, so its scores are slightly too good. Evaluate on others for a "
            "final figure.",
            dataset.name, name,
        )  # fmt: skip
    elif model.fusion is not None and card.fused_on(dataset.fingerprint):
        logger.warning(
            "%s: the fusion of %s was learned on these texts, so its scores are slightly too good. Evaluate on "
            "others for a final figure.",
            dataset.name, name,
        )  # fmt: skip


def _warn_excluded(dataset: Dataset) -> None:
    """Warn about true labels that can never be hit."""
    pairs = dataset.filter_pairs
    if pairs is None or len(pairs) == 0:
        return
    rows, columns = np.unique(pairs, axis=0).T
    if excluded := int((np.asarray(dataset.Y[rows, columns]) > 0).sum()):
        logger.warning(
            "%s: %s true labels are excluded by its filter and count as misses.", dataset.name, f"{excluded:,}"
        )
