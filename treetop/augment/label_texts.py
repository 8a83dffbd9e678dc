"""Label texts as rows with the targets a graph gives them: which labels, and how they join the documents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.assemble.label_rows import ExcludedLabels, excluded_labels, not_excluded, with_texts_of
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset, Ints
from treetop.core.errors import ConfigError, InputError
from treetop.core.log import logger
from treetop.evaluate.slices import VOLUMES, equal_volume
from treetop.labels.text import first_of_text, label_words


@dataclass(frozen=True, kw_only=True)
class RowsConfig:
    """Which label texts become rows."""

    label_fraction: float = setting(1.0, "fraction of the labels whose texts become training rows", low=0.0, high=1.0)
    label_order: Literal["random", "tail"] = setting(
        "random", "which labels if label_fraction < 1: random, or tail labels first"
    )
    train_on: Literal["both", "labels", "same_budget"] = setting(
        "both",
        "train on texts and label texts, on label texts only, or on a sample of both of the original size",
    )

    @property
    def all_documents(self) -> bool:
        """Whether every document is trained on."""
        return self.train_on == "both"


def needs_of(config: RowsConfig, *more: str) -> list[str]:
    """Hooks that rows of label texts need."""
    return ["rows", *more, *([] if config.all_documents else ["sample"])]


def added_rows(dataset: Dataset, config: RowsConfig) -> float:
    """Rows added to the documents; negative if documents are left out."""
    if config.train_on == "same_budget":
        return 0.0
    more = dataset.n_labels * config.label_fraction
    return more if config.all_documents else more - max(1, len(dataset))


def with_label_texts(dataset: Dataset, targets: Csr, config: RowsConfig, name: str, seed: int) -> Dataset:
    """The data set with label texts as rows; row j of `targets` (labels x labels) are the targets of label j's text."""
    excluded = excluded_labels(dataset)
    labels = usable(dataset, excluded, name)
    rng = np.random.default_rng([seed, 8])
    labels = chosen(dataset, labels, config, rng)
    sample = None
    if config.train_on == "labels":
        if len(labels) == 0:
            raise ConfigError(
                f"{name}.label_fraction: with {config.label_fraction:g} no label text becomes a row, and "
                f"{name}.train_on=labels learns from "
                "nothing else. Raise the fraction."
            )
        sample = ~dataset.documents
    elif config.train_on == "same_budget":
        documents = np.flatnonzero(dataset.documents)
        drawn = np.sort(rng.permutation(len(documents) + len(labels))[: len(documents)])
        sample = ~dataset.documents
        sample[documents[drawn[drawn < len(documents)]]] = True
        labels = labels[drawn[drawn >= len(documents)] - len(documents)]
    if sample is not None:
        dataset = replace(dataset, sample=sample if dataset.sample is None else sample & dataset.sample)
    row_targets = shared_by_twins(targets, first_of_text(label_words(dataset.labels)), labels)
    logger.info("%s: %s label texts are added as training rows", name, f"{len(labels):,}")
    return with_texts_of(dataset, labels, row_targets, excluded)


def usable(dataset: Dataset, excluded: ExcludedLabels, name: str) -> Ints:
    """Labels with a text for which they are not excluded; refuses data without any."""
    if dataset.features:
        raise InputError(
            f"{name}: {dataset.name} has precomputed features, which label texts do not have. "
            "Give texts, or leave the augmentation out."
        )
    labels = dataset.labels
    texts = np.diff(labels.texts.offsets) > 0
    named = [bool(name_) and name_ != id_ for name_, id_ in zip(labels.names, labels.ids, strict=True)]
    with_text = np.flatnonzero(texts | np.array(named, bool))
    if len(with_text) == 0:
        raise InputError(
            f"{name}: no label of {dataset.name} has a text or a name other than its id. Give label texts in a labels "
            "file (docs/formats.md), or leave the augmentation out."
        )
    if len(with_text) < len(labels):
        logger.warning("%s: %s labels have no text and get no row", name, f"{len(labels) - len(with_text):,}")
    with_text = not_excluded(dataset, with_text, excluded, name)
    if len(with_text) == 0:
        raise InputError(
            f"{name}: the filter of {dataset.name} excludes every label for its own text, so no row is left. "
            "Leave the augmentation or the filter out."
        )
    return with_text


def chosen(dataset: Dataset, labels: Ints, config: RowsConfig, rng: np.random.Generator) -> Ints:
    """The labels whose texts become rows, ascending; rarest first means bin by bin of equally many occurrences."""
    count = round(config.label_fraction * len(labels))
    order = rng.permutation(len(labels))
    if config.label_order == "tail":
        volume = equal_volume(dataset.label_counts, dataset.labels)[labels]
        rarest = np.where(volume < 0, VOLUMES, volume)  # never seen: rarer than all
        order = order[np.argsort(-rarest[order].astype(np.int64), kind="stable")]
    return np.sort(labels[order[:count]])


def shared_by_twins(targets: Csr, first: NDArray[np.integer], labels: Ints) -> Csr:
    """The rows of these labels, where labels with equal texts get the largest of their targets.

    The text cannot tell them apart. A large graph is copied no more often than needed.
    """
    members = np.flatnonzero((np.bincount(first, minlength=len(first)) > 1)[first])
    if len(members) == 0:
        return targets if len(labels) == targets.shape[0] else targets[labels]
    groups, of = np.unique(first[members], return_inverse=True)
    found = targets[members].tocoo()
    keys, place = np.unique(of[found.row].astype(np.int64) * targets.shape[1] + found.col, return_inverse=True)
    best = np.zeros(len(keys), np.float32)
    np.maximum.at(best, place, found.data)
    row, column = np.divmod(keys, targets.shape[1])
    common = sparse.csr_matrix((best, (row, column)), (len(groups), targets.shape[1]))
    index = np.arange(len(first))
    index[members] = len(first) + of
    return sparse.vstack([targets, common], format="csr")[index[labels]]
