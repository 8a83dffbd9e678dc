"""Which words pull a text towards a label and which push it away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from treetop.explain.path import Step


class Word(NamedTuple):
    """A term of the text and its part of the margin."""

    term: str
    contribution: float


def words(step: Step, terms: Callable[[Sequence[int]], Sequence[str]]) -> list[Word]:
    """Terms of one step by size of contribution, largest first; `terms` turns columns into strings."""
    order = np.lexsort((step.columns, -np.abs(step.contributions)))
    columns = step.columns[order].tolist()
    return [Word(term, float(step.contributions[i])) for term, i in zip(terms(columns), order, strict=True)]
