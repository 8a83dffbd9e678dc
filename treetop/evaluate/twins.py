"""Labels that may be the same: their names differ in case, spaces or punctuation only, or in the order of words."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from treetop.evaluate.match import Matches

LABELS = 100_000  # names compared, those of the most frequent labels
SPACES = str.maketrans(dict.fromkeys("_-.,;:!?'\"()[]{}/\\*·–—…“”‘’«»", " "))  # not + and #: C, C++ and C# are three
BETWEEN = re.compile(r"(?<=\d) (?=\d)")


class Twins(NamedTuple):
    """Columns of labels whose names are alike, the most frequent first."""

    columns: tuple[int, ...]
    same: bool  # up to case, spaces and punctuation; else the words are the same in another order or number


def twins(matches: Matches, n: int = 30) -> list[Twins]:
    """Up to `n` groups: those of the same name first, then by training documents."""
    frequency = matches.counts + matches.positives
    order = np.lexsort((np.arange(len(frequency)), -frequency))[:LABELS].tolist()
    same: dict[str, list[int]] = {}
    alike: dict[str, list[int]] = {}
    for column in order:
        words = _words(matches.labels.names[column])
        if words:
            same.setdefault(_joined(words), []).append(column)
            alike.setdefault(" ".join(sorted(map(_singular, words))), []).append(column)
    groups = [Twins(tuple(group), True) for group in same.values() if len(group) > 1]
    known = {group.columns for group in groups}
    groups += [Twins(tuple(g), False) for g in alike.values() if len(g) > 1 and tuple(g) not in known]
    groups.sort(key=lambda group: (not group.same, -int(frequency[list(group.columns)].sum()), group.columns))
    return groups[:n]


def _words(name: str) -> list[str]:
    return name.casefold().translate(SPACES).split()


def _joined(words: list[str]) -> str:
    """Words without spaces, but numbers stay apart: 1.5 is not 15."""
    return BETWEEN.sub("_", " ".join(words)).replace(" ", "")


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
