"""Statistics of a data set: sizes, tail, odd rows, overlaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.texts import Texts
from treetop.data.parse.space import alike
from treetop.data.scripts import writing

# name of a bin -> the most training texts a label in it has
TAIL = {"0": 0, "1": 1, "2-5": 5, "6-10": 10, "11-100": 100, "over 100": None}


def describe(splits: Mapping[str, Dataset]) -> dict[str, Any]:
    """Everything `treetop data stats` shows, as plain values."""
    first = splits.get("train", next(iter(splits.values())))
    counts = np.bincount(first.Y.indices[first.Y.data > 0], minlength=first.n_labels)
    seen = {name: {hash(text) for text in data.texts} for name, data in splits.items()}
    facts: dict[str, Any] = {
        "name": first.name,
        "labels": first.n_labels,
        "labels_alike": sum(len(group) - 1 for group in alike(first.labels.ids)),
        "splits": {name: _split(data) for name, data in splits.items()},
        "tail": _tail(counts),
        "texts_per_label": {"mean": _mean(counts), "median": float(np.median(counts)) if len(counts) else 0.0},
        "label_texts": _label_texts(first, seen),
        "propensity": list(first.propensity),
        "language": first.language,
    }
    for name, data in splits.items():
        if data is not first:
            used = np.unique(data.Y.indices)
            facts["splits"][name]["labels_unseen_in_train"] = int((counts[used] == 0).sum())
            shared = sum(hash(text) in seen["train"] for text in data.texts) if "train" in seen else 0
            facts["splits"][name]["texts_also_in_train"] = shared
    return facts


def _mean(values: Any) -> float:
    return round(float(np.mean(values)), 2) if len(values) else 0.0


def _split(data: Dataset) -> dict[str, Any]:
    per_row = np.diff(data.Y.indptr)
    words = np.fromiter((len(text.split()) for text in data.texts), np.int64, len(data))
    size = data.texts.lengths()
    distinct = len({hash(text) for text in data.texts})
    roles, found = data.roles, writing(data.texts)
    return {
        "rows": len(data),
        "labels": len(np.unique(data.Y.indices)),
        "labels_per_text": {"mean": _mean(per_row), "max": int(per_row.max(initial=0))},
        "words_per_text": {"mean": _mean(words), "max": int(words.max(initial=0))},
        "bytes_per_text": {"mean": _mean(size), "max": int(size.max(initial=0))},
        "scripts": dict(found.scripts),
        "texts_without_terms": found.without_terms,
        "texts_with_one_term": found.with_one_term,
        "empty_texts": int((size == 0).sum()),
        "rows_without_labels": int((per_row == 0).sum()),
        "repeated_texts": len(data) - distinct,
        "soft_targets": bool((data.Y.data != 1).any()),
        "relevance": data.relevance is not None,
        "rows_not_documents": 0 if roles is None else int((roles != 0).sum()),
        "filter_pairs": 0 if data.filter_pairs is None else len(data.filter_pairs),
        "features": {name: X.shape[1] for name, X in data.features.items()},
    }


def _tail(counts: Any) -> dict[str, int]:
    groups, low = {}, -1
    for name, high in TAIL.items():
        inside = (counts > low) & (True if high is None else counts <= high)
        groups[name] = int(np.sum(inside))
        low = low if high is None else high
    return groups


def _label_texts(data: Dataset, seen: Mapping[str, set[int]]) -> dict[str, int]:
    texts: Texts = data.labels.texts
    hashes = [hash(text) for text in texts if text]
    documents = set().union(*seen.values())
    return {
        "with_text": len(hashes),
        "sharing_a_text": len(hashes) - sum(count == 1 for count in _counts(hashes).values()),
        "equal_to_a_document": sum(value in documents for value in hashes),
    }


def _counts(values: list[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts
