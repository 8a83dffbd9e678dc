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

    def __init__(
        self, weight: Floats, bias: Floats, *, widths: Mapping[str, int], text: tuple[float, float] = (1.0, 0.0)
    ) -> None:
        super().__init__(weight, bias)
        self.widths = dict(widths)  # of each head's part, in order
        self.text = text  # what makes up for the other heads where a label has nothing but a text: factor, offset

    def part(self, head: str) -> Floats:
        """(n, width of that head) its part of the label vectors."""
        return self.weight[:, self.place(head)]

    def place(self, head: str) -> slice:
        """The columns of a head."""
        start = 0
        for name, width in self.widths.items():
            if name == head:
                return slice(start, start + width)
            start += width
        raise ModelError(f"{self.kind}: no head '{head}' here, only {', '.join(self.widths)}.")

    def of_text(self, vectors: Floats) -> tuple[Floats, float]:
        """(rows, number to add) of labels known by their texts' vectors only: other heads are left out, and what they
        would say on average, given the text's score, is added.
        """
        if "dual" not in self.widths:
            raise ModelError(f"{self.kind}: this model has no head for label texts, so labels need training texts.")
        made = np.zeros((len(vectors), self.weight.shape[1]), np.float32)
        made[:, self.place("dual")] = np.float32(self.text[0]) * vectors
        return made, self.text[1]

    def to_part(self) -> Part:
        widths = [[name, width] for name, width in self.widths.items()]
        config = {"n": self.n, "widths": widths, "text": [float(number) for number in self.text]}
        return Part(self.kind, config, {"weight": self.weight, "bias": self.bias})

    @classmethod
    def from_part(cls, part: Part) -> Dual:
        n, widths, text = part.setting("n", int), part.setting("widths", list), part.setting("text", list)
        if not widths or any([type(item) for item in pair] != [str, int] or pair[1] < 1 for pair in widths):
            raise ModelError(f"{part.kind}: widths {widths!r} mean nothing. The model is damaged; copy it again.")
        if [type(number) for number in text] != [float, float]:
            raise ModelError(f"{part.kind}: text {text!r} is no pair of numbers. The model is damaged; copy it again.")
        weight = part.array("weight", "<f4", n, sum(width for _, width in widths))
        return Dual(weight, part.array("bias", "<f4", n), widths=dict(widths), text=(text[0], text[1]))
