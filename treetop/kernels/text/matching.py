"""Forms (sets of words) found in texts: all words of a form, or most of its weight, in any order.

A form is filed under its rarest words, as many as it takes that no text without any of them can hold `share` of its
weight (prefix filtering): a text looks only at forms filed under its own words, so the time is linear in the text.
`matching_slow.py` is the twin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel

FOUND, FIRST, COUNT, TIGHT, EXACT, SPREAD, COVER, INSIDE = range(8)
CHANNELS = 8  # values of a match
LONGEST = 16  # words of a form
OCCURRENCES = 64  # of a word around which a form is looked for
CROWD = 30  # forms that have a word, from which on it is crowded
SLACK = np.float32(1e-4)  # rounding of sums of weights
WHOLE = np.float32(0.999)  # a share of the weight from which on a form counts as complete
GONE = np.float32(0.002)  # a share whose absence rules that out, whatever rounding does


class Index(NamedTuple):
    """Forms in arrays: their words, rarest first, and the forms filed under each word."""

    ends: NDArray[np.int32]  # (forms + 1,)
    words: NDArray[np.int32]  # word ids of each form, distinct
    hashes: NDArray[np.uint32]  # of the words as written
    filed_ends: NDArray[np.int32]  # (words + 1,)
    filed: NDArray[np.int32]  # forms
    crowded: NDArray[np.bool_]  # (words,) words of so many forms that they find complete ones only
    weight: NDArray[np.float32]  # (words,) how much a word says


def file_forms(
    ends: NDArray[np.int32], words: NDArray[np.int32], weight: NDArray[np.float32], share: float
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """(pointers per word, forms filed under each, crowded words): forms whose words are given rarest first.

    A form is always filed under its rarest word, under others only where they are not crowded.
    """
    depth = _depth(ends, words, weight, np.float32(share))
    step = np.arange(int(depth.sum())) - np.repeat(np.cumsum(depth) - depth, depth)
    under, forms = words[np.repeat(ends[:-1], depth) + step], np.repeat(np.arange(len(depth), dtype=np.int32), depth)
    crowded = np.bincount(words, minlength=len(weight)) > CROWD
    kept = (step == 0) | ~crowded[under]
    under, forms = under[kept], forms[kept]
    pointers = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(under, minlength=len(weight)))])
    return pointers.astype(np.int32), forms[np.argsort(under, kind="stable")], crowded


@kernel
def _depth(ends: Any, words: Any, weight: Any, share: Any) -> Any:
    """(forms,) under how many of its words each form is filed: what the rest weighs is less than `share`."""
    depth = np.ones(len(ends) - 1, np.int64)
    for form in range(len(ends) - 1):
        total = np.float32(0)
        for i in range(ends[form], ends[form + 1]):
            total += weight[words[i]]
        rest = total - weight[words[ends[form]]]
        for i in range(ends[form] + 1, ends[form + 1]):
            if rest < (share - SLACK) * total:
                break
            rest -= weight[words[i]]
            depth[form] += 1
    return depth


def match(
    words: NDArray[np.int32], hashes: NDArray[np.uint32], rows: NDArray[np.int64], index: Index, share: float
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """(pointers per text, forms, (matches, CHANNELS)) of texts given as word ids (-1: unknown), forms ascending."""
    return _match(words, hashes, rows, *index, np.float32(share) - SLACK)  # type: ignore[no-any-return]


@kernel
def _place(known: Any, n: int, word: int) -> int:
    """Where a word stands among the first `n` of some ascending ones; -1: nowhere."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if known[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < n and known[low] == word else -1


@kernel
def _nearest(places: Any, start: int, stop: int, at: int) -> int:
    """The value nearest to `at` in an ascending span, the lower of two."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if places[middle] < at:
            low = middle + 1
        else:
            high = middle
    if low == stop or (low > start and at - places[low - 1] <= places[low] - at):
        return places[low - 1]  # type: ignore[no-any-return]
    return places[low]  # type: ignore[no-any-return]


@kernel
def _sorted_words(words: Any, known: Any, start: Any, places: Any) -> int:
    """Distinct known words of a text, ascending, with the places of each; returns how many there are."""
    order = np.argsort(words, kind="mergesort")
    n = at = 0
    for i in range(len(words)):
        word = words[order[i]]
        if word < 0:
            continue
        if n == 0 or known[n - 1] != word:
            known[n], start[n] = word, at
            n += 1
        places[at] = order[i]
        at += 1
    start[n] = at
    return n


@kernel
def _share(form: Any, weight: Any, known: Any, n: int, word: int, whole: bool, spots: Any) -> Any:
    """Share of a form's weight in a text; 0 where a rarer word than `word` is there, which finds the form itself.

    Where only `whole` forms count, the search ends once too much is missing; later words weigh no more than this one.
    """
    total, have, passed = np.float32(0), np.float32(0), False
    for i in range(len(form)):
        total += weight[form[i]]
        passed |= form[i] == word
        spots[i] = _place(known, n, form[i])
        if spots[i] >= 0:
            if not passed:
                return np.float32(0)
            have += weight[form[i]]
        elif whole and total - have > GONE * (total + (len(form) - i - 1) * weight[form[i]]):
            return np.float32(0)
    return have / total


@kernel
def _window(spots: Any, m: int, start: Any, places: Any, chosen: Any, trial: Any) -> int:
    """The places of a form's words nearest to each other, in `chosen` (-1: missing); returns the window's length."""
    anchor = 0
    while spots[anchor] < 0:
        anchor += 1
    best = 1 << 30
    first, last = start[spots[anchor]], start[spots[anchor] + 1]
    for o in range(first, min(last, first + OCCURRENCES)):
        low = high = places[o]
        for i in range(m):
            trial[i] = -1
            if spots[i] >= 0:
                at = places[o] if i == anchor else _nearest(places, start[spots[i]], start[spots[i] + 1], places[o])
                trial[i], low, high = at, min(low, at), max(high, at)
        if high - low + 1 < best:
            best = high - low + 1
            chosen[:m] = trial[:m]
    return best


@kernel
def _describe(row: Any, spots: Any, m: int, start: Any, places: Any, chosen: Any, length: int, window: int) -> None:
    """All channels of a match but FOUND, EXACT and INSIDE."""
    present, fewest, first, last = 0, 1 << 30, 1 << 30, -1
    for i in range(m):
        if spots[i] < 0:
            continue
        a, b = start[spots[i]], start[spots[i] + 1]
        if present == 0:  # the rarest word that is there
            last = places[b - 1] - places[a]
        present += 1
        fewest, first = min(fewest, b - a), min(first, chosen[i])
    row[FIRST], row[SPREAD] = first / length, last / length
    row[COUNT], row[TIGHT] = np.log(fewest), present / window
    row[COVER] = min(1.0, present * fewest / length)


@kernel
def _inside(rows: Any, chosen: Any, sizes: Any, longest: Any) -> None:
    """Mark matches all of whose words belong to a longer complete one."""
    longest[:] = 0
    for k in range(len(rows)):
        if rows[k, FOUND] >= WHOLE:
            for i in range(sizes[k]):
                if chosen[k, i] >= 0:
                    longest[chosen[k, i]] = max(longest[chosen[k, i]], sizes[k])
    for k in range(len(rows)):
        least, present = LONGEST + 1, 0
        for i in range(sizes[k]):
            if chosen[k, i] >= 0:
                least, present = min(least, longest[chosen[k, i]]), present + 1
        rows[k, INSIDE] = 1.0 if least > present else 0.0


@kernel
def _match(
    words: Any, hashes: Any, rows: Any, ends: Any, of_form: Any, written: Any, filed_ends: Any, filed: Any,
    crowded: Any, weight: Any, share: Any,
) -> Any:  # fmt: skip
    n, room, k = len(rows) - 1, 64, 0
    forms, values = np.empty(room, np.int32), np.zeros((room, CHANNELS), np.float32)
    chosen, sizes = np.empty((room, LONGEST), np.int32), np.empty(room, np.int32)  # of the text at hand
    spots, trial = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int32)
    pointers = np.zeros(n + 1, np.int64)
    for d in range(n):
        a, b = rows[d], rows[d + 1]
        known, start = np.empty(b - a, np.int32), np.empty(b - a + 1, np.int64)
        places, longest = np.empty(b - a, np.int64), np.empty(b - a, np.int32)
        distinct, here = _sorted_words(words[a:b], known, start, places), 0
        for w in range(distinct):
            for j in range(filed_ends[known[w]], filed_ends[known[w] + 1]):
                form = filed[j]
                p, q = ends[form], ends[form + 1]
                found = _share(of_form[p:q], weight, known, distinct, known[w], crowded[known[w]], spots)
                if found < share or (crowded[known[w]] and found < WHOLE):
                    continue
                if k == len(forms):
                    forms = np.concatenate((forms, np.empty(k, np.int32)))
                    values = np.concatenate((values, np.zeros((k, CHANNELS), np.float32)))
                if here == len(sizes):
                    chosen = np.concatenate((chosen, np.empty((here, LONGEST), np.int32)))
                    sizes = np.concatenate((sizes, np.empty(here, np.int32)))
                window = _window(spots, q - p, start, places, chosen[here], trial)
                _describe(values[k], spots, q - p, start, places, chosen[here], b - a, window)
                exact = 0
                for i in range(q - p):
                    exact += spots[i] >= 0 and written[p + i] == hashes[a + chosen[here, i]]
                forms[k], sizes[here], values[k, FOUND], values[k, EXACT] = form, q - p, found, exact / (q - p)
                k, here = k + 1, here + 1
        _inside(values[k - here : k], chosen[:here], sizes[:here], longest)
        order = np.argsort(forms[k - here : k])
        forms[k - here : k], values[k - here : k] = forms[k - here : k][order], values[k - here : k][order]
        pointers[d + 1] = k
    return pointers, forms[:k].copy(), values[:k].copy()
