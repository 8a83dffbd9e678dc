"""Inner product of a text's search vector with one vector per label, made from the label's text, learned, or both.

Labels that no training text carries have a vector too, so they are returned like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.types import Floats
from treetop.rank.head import Head


class Dual(Head):
    """(n, width) label vectors in parts of the heads' widths, and one number added to each label's product."""

    kind: ClassVar[str] = "rank.dual.1"

    def __init__(self, weight: Floats, bias: Floats, *, widths: Mapping[str, int]) -> None:
        super().__init__(weight, bias)
        self.widths = dict(widths)  # of each head's part, in order

    def part(self, head: str) -> Floats:
        """(n, width of that head) its part of the label vectors."""
        start = 0
        for name, width in self.widths.items():
            if name == head:
                return self.weight[:, start : start + width]
            start += width
        raise ModelError(f"{self.kind}: no head '{head}' here, only {', '.join(self.widths)}.")

    def to_part(self) -> Part:
        return Part(self.kind, {"n": self.n, "widths": self.widths}, {"weight": self.weight, "bias": self.bias})

    @classmethod
    def from_part(cls, part: Part) -> Dual:
        n, widths = part.setting("n", int), part.setting("widths", dict)
        if not widths or any(type(width) is not int or width < 1 for width in widths.values()):
            raise ModelError(f"{part.kind}: widths {widths!r} mean nothing. The model is damaged; copy it again.")
        weight = part.array("weight", "<f4", n, sum(widths.values()))
        return cls(weight, part.array("bias", "<f4", n), widths=widths)


def unit(X: Floats) -> Floats:
    """Rows at length 1; empty ones stay empty."""
    made: Floats = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.float32(1e-12))
    return made
