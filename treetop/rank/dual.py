"""Inner product of a text's search vector with one vector per label, made from the label's text, learned, or both.

Labels that no training text carries have a vector too, so they are returned like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.types import Floats, Join, Ranking
from treetop.kernels import threads
from treetop.rank.head import Head

SHARE = 1 << 14  # candidates of a text that a thread takes at a time
NEIGHBOURS, STEEP = 4, 30.0  # trained labels that a new one takes from; how fast their share falls with the cosine


class Dual(Head):
    """(n, width) label vectors in parts of the heads' widths, and one number added to each label's product."""

    kind: ClassVar[str] = "rank.dual.1"

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        *,
        widths: Mapping[str, int],
        text: tuple[float, float] = (1.0, 0.0),
        order: NDArray[np.int32] | None = None,
    ) -> None:
        super().__init__(weight, bias)
        self.order = order  # the label of each row; None: rows are in the order of labels
        self.widths = dict(widths)  # of each head's part, in order
        self.text = text  # what makes up for the other heads where a label has nothing but a text: factor, offset

    def ordered(self, order: NDArray[np.int32]) -> Dual:
        """The same with rows in this order, so that labels of one list lie side by side."""
        if self.order is not None:
            raise ModelError(f"{self.kind}: its rows have an order of their own already.")
        return Dual(self.weight[order], self.bias[order], widths=self.widths, text=self.text, order=order)

    @cached_property
    def _row(self) -> NDArray[np.int32]:
        """(labels,) the row of each label."""
        made = np.arange(self.n, dtype=np.int32)
        made[slice(None) if self.order is None else self.order] = np.arange(self.n)
        return made

    def _all(self, h: Floats, join: Join, keep: int, *, alone: bool) -> Ranking:
        made = super()._all(h, join, keep, alone=alone)
        return made if self.order is None else Ranking.sorted(made.indptr, self.order[made.ids], made.score, made.own)

    def margins(self, h: Floats, ends: Ints, ids: NDArray[np.integer]) -> Floats:
        rows = ids if self.order is None else self._row[ids]
        if len(h) != 1:
            return super().margins(h, ends, rows)
        margins, made = super().margins, np.empty(len(rows), np.float32)

        def some(start: int, stop: int) -> None:
            made[start:stop] = margins(h, np.array([start, stop]), rows[start:stop])

        threads.run(some, threads.blocks(len(rows), SHARE))  # of a text by itself the threads share the candidates
        return made

    def part(self, head: str) -> Floats:
        """(rows, width of that head) its part of the label vectors."""
        return self.weight[:, self.place(head)]

    def texts(self, labels: NDArray[np.integer]) -> Floats:
        """(labels, width) what the dual encoder makes of these labels' texts."""
        made: Floats = self.weight[self._row[labels], self.place("dual")]
        return made

    def place(self, head: str) -> slice:
        """The columns of a head."""
        start = 0
        for name, width in self.widths.items():
            if name == head:
                return slice(start, start + width)
            start += width
        raise ModelError(f"{self.kind}: no head '{head}' here, only {', '.join(self.widths)}.")

    def of_text(self, vectors: Floats) -> tuple[Floats, Floats]:
        """(rows, numbers to add) of labels known by their texts' vectors only: other heads are left out, and what they
        would say on average, given the text's score, is added.
        """
        made = np.zeros((len(vectors), self.weight.shape[1]), np.float32)
        made[:, self.place("dual")] = np.float32(self.text[0]) * vectors
        return made, np.full(len(vectors), self.text[1], np.float32)

    def of_neighbours(
        self, vectors: Floats, near: Sequence[NDArray[np.integer]], common: float
    ) -> tuple[Floats, Floats]:
        """(rows, numbers to add) of labels known by their texts' vectors only: what the other heads would say is taken
        from the nearest of some trained labels (`near`, for each text), the nearer the more.

        What `of_text` gives counts as one more neighbour, at the cosine `common`: it is what is left far from all.
        """
        rows, numbers = self.of_text(vectors)
        place = self.place("dual")
        for i, labels in enumerate(near):
            table, texts = self._row[labels], self.texts(labels)
            cosine = texts @ vectors[i] / np.maximum(np.linalg.norm(texts, axis=1), 1e-12)
            best = np.lexsort((labels, -cosine))[:NEIGHBOURS]
            share = np.exp(STEEP * np.minimum(cosine[best] - common, 1.0))
            rest = np.float32(1.0 / (1.0 + share.sum()))
            taken = self.weight[table[best]]
            taken[:, place] = vectors[i]
            share *= rest
            rows[i] = rest * rows[i] + share @ taken
            numbers[i] = rest * numbers[i] + share @ self.bias[table[best]]
        return rows, numbers

    def to_part(self) -> Part:
        widths = [[name, width] for name, width in self.widths.items()]
        config = {"n": self.n, "widths": widths, "text": [float(number) for number in self.text]}
        arrays: dict[str, NDArray[Any]] = {"weight": self.weight, "bias": self.bias}
        return Part(self.kind, config, arrays if self.order is None else {**arrays, "order": self.order})

    @classmethod
    def from_part(cls, part: Part) -> Dual:
        n, widths, text = part.setting("n", int), part.setting("widths", list), part.setting("text", list)
        if not widths or any([type(item) for item in pair] != [str, int] or pair[1] < 1 for pair in widths):
            raise ModelError(f"{part.kind}: widths {widths!r} mean nothing. The model is damaged; copy it again.")
        if [type(number) for number in text] != [float, float]:
            raise ModelError(f"{part.kind}: text {text!r} is no pair of numbers. The model is damaged; copy it again.")
        weight = part.array("weight", "<f4", n, sum(width for _, width in widths))
        order = part.indices("order", "<i4", n, max(n, 1)) if "order" in part.arrays else None
        if order is not None and len(np.unique(order)) != n:
            raise ModelError(f"{part.kind}: rows stand twice in its order. The model is damaged; copy it again.")
        bias = part.array("bias", "<f4", n)
        return Dual(weight, bias, widths=dict(widths), text=(text[0], text[1]), order=order)
