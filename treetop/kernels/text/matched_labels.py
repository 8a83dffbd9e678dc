"""Labels whose forms a text holds, and what is known of each: the rows that a learned model ranks.

`matched_labels_slow.py` is the twin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.text.matching import CHANNELS, FOUND, TIGHT

OF_LABEL = (  # after the channels of the label's best form
    "forms", "words", "information", "ambiguity", "source", "frequency", "precision", "relatives", "labels", "relative",
)  # fmt: skip
FORMS, WORDS, INFORMATION, AMBIGUITY, SOURCE, FREQUENCY, PRECISION, RELATIVES, LABELS, RELATIVE = range(
    CHANNELS, CHANNELS + len(OF_LABEL)
)
WIDTH = CHANNELS + len(OF_LABEL)


class Table(NamedTuple):
    """Which labels have a form, and facts about forms and labels."""

    ends: NDArray[np.int32]  # (forms + 1,)
    labels: NDArray[np.int32]  # of each form, ascending
    source: NDArray[np.uint8]  # of each label of a form: name, alternative name, derived
    words: NDArray[np.uint8]  # (forms,)
    information: NDArray[np.float32]  # (forms,)
    relative_ends: NDArray[np.int32]  # (labels + 1,); read only where there are relatives
    relatives: NDArray[np.int32]  # broader, narrower and related labels, ascending
    frequent: NDArray[np.int32]  # labels that are candidates for every text, ascending


class Facts(NamedTuple):
    """What training says of labels."""

    frequency: NDArray[np.float32]  # (labels,) logarithm of its training texts
    precision: NDArray[np.float32]  # (labels,) how often it is right where its form is found, smoothed


def label_rows(
    ends: NDArray[np.int64], forms: NDArray[np.int32], values: NDArray[np.float32], table: Table, facts: Facts
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """(pointers per text, labels ascending, (rows, WIDTH)) of matches given by pointers, forms and channels."""
    return _rows(ends, forms, values, *table, *facts)  # type: ignore[no-any-return]


@kernel
def _better(values: Any, a: int, b: int) -> bool:
    """Whether match `a` says more of its label than match `b`."""
    if values[a, FOUND] != values[b, FOUND]:
        return values[a, FOUND] > values[b, FOUND]  # type: ignore[no-any-return]
    return values[a, TIGHT] > values[b, TIGHT]  # type: ignore[no-any-return]


@kernel
def _holds(sorted_: Any, value: int) -> bool:
    at = np.searchsorted(sorted_, value)
    return bool(at < len(sorted_) and sorted_[at] == value)


@kernel
def _candidates(forms: Any, ends: Any, labels: Any, frequent: Any, found: Any, match: Any, pair: Any) -> int:
    """Write (label, match, place in the table) of a text sorted by label; frequent ones without a match have -1."""
    k = 0
    for j in range(len(forms)):
        for p in range(ends[forms[j]], ends[forms[j] + 1]):
            found[k], match[k], pair[k] = labels[p], j, p
            k += 1
    order = np.argsort(found[:k], kind="mergesort")
    found[:k], match[:k], pair[:k] = found[:k][order], match[:k][order], pair[:k][order]
    matched = k
    for label in frequent:
        if not _holds(found[:matched], label):
            found[k], match[k], pair[k] = label, -1, -1
            k += 1
    order = np.argsort(found[:k], kind="mergesort")
    found[:k], match[:k], pair[:k] = found[:k][order], match[:k][order], pair[:k][order]
    return k


@kernel
def _fill(row: Any, label: int, best: int, place: int, n: int, forms: Any, values: Any, table: Any) -> None:
    """What a label's best match says of it, and how many it has."""
    ends, _, source, words, information, _, _, _ = table
    row[FORMS] = np.log1p(n)
    if best >= 0:
        form = forms[best]
        row[:CHANNELS] = values[best]
        row[WORDS], row[INFORMATION], row[SOURCE] = words[form], information[form], source[place]
        row[AMBIGUITY] = np.log(ends[form + 1] - ends[form])


@kernel
def _of_text(rows: Any, labels: Any, relative_ends: Any, relatives: Any) -> None:
    """What a label has in common with the others of its text."""
    matched, most = 0, np.float32(0)
    for i in range(len(labels)):
        matched += rows[i, FOUND] > 0
        most = max(most, rows[i, INFORMATION])
    for i in range(len(labels)):
        rows[i, LABELS] = np.log1p(matched)
        rows[i, RELATIVE] = rows[i, INFORMATION] / most if most > 0 else np.float32(0)
        if len(relatives) == 0:
            continue
        near, there = relatives[relative_ends[labels[i]] : relative_ends[labels[i] + 1]], 0
        for other in near:
            at = np.searchsorted(labels, other)
            there += at < len(labels) and labels[at] == other and rows[at, FOUND] > 0
        rows[i, RELATIVES] = np.log1p(there)


@kernel
def _rows(
    pointers: Any, forms: Any, values: Any, ends: Any, of_form: Any, source: Any, words: Any, information: Any,
    relative_ends: Any, relatives: Any, frequent: Any, frequency: Any, precision: Any,
) -> Any:  # fmt: skip
    n = len(pointers) - 1
    room = n * len(frequent)
    for form in forms:
        room += ends[form + 1] - ends[form]
    labels, rows, made = np.empty(room, np.int32), np.zeros((room, WIDTH), np.float32), np.zeros(n + 1, np.int64)
    found, match, pair = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    table = (ends, of_form, source, words, information, relative_ends, relatives, frequent)
    k = 0
    for d in range(n):
        a, b = pointers[d], pointers[d + 1]
        size = _candidates(forms[a:b], ends, of_form, frequent, found, match, pair)
        i, first = 0, k
        while i < size:
            j, best, hits = i, i, 0
            while j < size and found[j] == found[i]:
                hits += match[j] >= 0
                if j > i and _better(values[a:b], match[j], match[best]):
                    best = j
                j += 1
            labels[k] = found[i]
            _fill(rows[k], found[i], match[best], pair[best], hits, forms[a:b], values[a:b], table)
            rows[k, FREQUENCY], rows[k, PRECISION] = frequency[found[i]], precision[found[i]]
            i, k = j, k + 1
        _of_text(rows[first:k], labels[first:k], relative_ends, relatives)
        made[d + 1] = k
    return made, labels[:k].copy(), rows[:k].copy()
