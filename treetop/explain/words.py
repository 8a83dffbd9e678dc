"""Which words pull a text towards a label and which push it away."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np

from treetop.core.abilities import Gradient, Share, Shares
from treetop.core.types import View
from treetop.explain.explanation import Word
from treetop.kernels.text.scripts import unspaced_pattern

# Words, single characters (with their marks) of scripts that have no blanks between words, and what lies between.
UNSPACED = unspaced_pattern()
PIECES = re.compile(rf"(?=\w)[{UNSPACED}](?:(?!\w)[{UNSPACED}])*|[^\W{UNSPACED}]+|(?:(?!\w).)+", re.DOTALL)


def words(shares: Shares) -> list[Word]:
    """What the words of a text add, by size, largest first."""
    found = [Word(share.term, share.amount, share.spans) for share in shares.words]
    return sorted(found, key=lambda word: -abs(word.contribution))


def columns(gradient: Gradient, view: View) -> Shares:
    """What the columns of a view add where nobody knows their words."""
    row = np.asarray(view if isinstance(view, np.ndarray) else view.toarray(), np.float64)[0]
    places = np.arange(len(row)) if gradient.columns is None else gradient.columns
    amounts = zip(places.tolist(), (row[places] * gradient.weights).tolist(), strict=True)
    return Shares([Share(f"feature {column}", amount) for column, amount in amounts if amount])


def marked(text: str, found: Iterable[Word]) -> list[tuple[str, float]]:
    """A text in pieces with what each adds: whole words, and what lies between them at 0.

    A term that stands in several places is shared out evenly over them, one of several words over those.
    """
    pieces = [(match.start(), match.end()) for match in PIECES.finditer(text)]
    ends, amounts = [end for _, end in pieces], [0.0] * len(pieces)
    for word in found:
        for start, end in word.spans:
            covered = range(bisect_right(ends, start), min(bisect_left(ends, end) + 1, len(ends)))
            of_words = [i for i in covered if text[pieces[i][0]].isalnum()] or covered
            for i in of_words:
                amounts[i] += word.contribution / len(word.spans) / len(of_words)
    return [(text[start:end], amount) for (start, end), amount in zip(pieces, amounts, strict=True)]
