"""How much rare labels are lifted: a probability times the label's inverse propensity to the power of `lift`.

With 0 labels are ranked by probability, which serves precision; with 1 by the gain in propensity-scored precision. The
most probable label of a document can be left in its place, so that a lift costs no precision at 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.part_checks import number
from treetop.core.store import Part
from treetop.core.types import Floats


@dataclass(frozen=True)
class Rarity:
    """Constants of the inverse propensity 1 + c (n + b)^-a of a label with n training texts, and its power."""

    a: float = 0.55
    b: float = 1.5
    c: float = 0.0
    lift: float = 0.0
    keep_first: bool = False  # the most probable label of a document stays first

    @classmethod
    def of(cls, n_train: int, a: float, b: float, lift: float, keep_first: bool = False) -> Rarity:
        """For so many training texts (Jain et al. 2016)."""
        return cls(a, b, max(float(np.log(max(n_train, 1))) - 1.0, 0.0) * (b + 1.0) ** a, lift, keep_first)

    def factors(self, counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """What the probabilities of labels with so many training texts are multiplied by, at most 1."""
        weight = 1.0 + self.c * (np.asarray(counts, np.float64) + self.b) ** -self.a
        most = 1.0 + self.c * self.b**-self.a
        return np.asarray((weight / most) ** self.lift, np.float32)

    def lifted(self, p: Floats, indptr: NDArray[np.integer], ids: NDArray[np.integer], counts: Any) -> Floats:
        """(pairs,) probabilities of the labels `ids`, documents apart by `indptr`, times their factors.

        Factors are at most 1, so a label that keeps its probability, the highest of its document, stays first.
        """
        result = p * self.factors(counts)[ids]
        if self.keep_first and len(p):
            lengths = np.diff(indptr)
            starts = np.asarray(indptr[:-1])[lengths > 0]
            highest = np.repeat(np.maximum.reduceat(p, starts), lengths[lengths > 0])
            result = np.where(p == highest, p, result)
        return result

    def to_config(self) -> dict[str, float | bool]:
        return {"a": self.a, "b": self.b, "c": self.c, "lift": self.lift, "keep_first": self.keep_first}

    @classmethod
    def from_part(cls, part: Part) -> Rarity:
        return cls(
            number(part, "a", 0.0, 10.0),
            number(part, "b", 1e-3, 1e3),
            number(part, "c", 0.0, 1e6),
            number(part, "lift", 0.0, 2.0),
            part.setting("keep_first", bool) if "keep_first" in part.config else False,  # models of older versions
        )


PLAIN = Rarity()  # ranked by probability
