"""How much rare labels are lifted: a probability times the label's inverse propensity to the power of `lift`.

With 0 labels are ranked by probability, which serves precision; with 1 by the gain in propensity-scored precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.core.part_checks import number
from treetop.core.store import Part


@dataclass(frozen=True)
class Rarity:
    """Constants of the inverse propensity 1 + c (n + b)^-a of a label with n training texts, and its power."""

    a: float = 0.55
    b: float = 1.5
    c: float = 0.0
    lift: float = 0.0

    @classmethod
    def of(cls, n_train: int, a: float, b: float, lift: float) -> Rarity:
        """For so many training texts (Jain et al. 2016)."""
        return cls(a, b, max(float(np.log(max(n_train, 1))) - 1.0, 0.0) * (b + 1.0) ** a, lift)

    def factors(self, counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """What the probabilities of labels with so many training texts are multiplied by, at most 1."""
        weight = 1.0 + self.c * (np.asarray(counts, np.float64) + self.b) ** -self.a
        most = 1.0 + self.c * self.b**-self.a
        return np.asarray((weight / most) ** self.lift, np.float32)

    def to_config(self) -> dict[str, float]:
        return {"a": self.a, "b": self.b, "c": self.c, "lift": self.lift}

    @classmethod
    def from_part(cls, part: Part) -> Rarity:
        return cls(
            number(part, "a", 0.0, 10.0),
            number(part, "b", 1e-3, 1e3),
            number(part, "c", 0.0, 1e6),
            number(part, "lift", 0.0, 2.0),
        )


PLAIN = Rarity()  # ranked by probability
