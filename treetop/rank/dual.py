"""Inner product of a text's search vector with one vector per label, made from the label's text, learned, or both.

Labels that no training text carries have a vector too, so they are returned like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient
from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import distinct, floats
from treetop.core.store import Part
from treetop.core.types import Floats, Join, Ranking, View
from treetop.kernels.runtime import threads
from treetop.rank.head import Head
from treetop.rank.text_map import TextMap, unit

if TYPE_CHECKING:
    from treetop.tensors.label_table import LabelTable

SHARE = 1 << 14  # candidates of a text that a thread takes at a time
NEIGHBOURS, STEEP = 32, 30.0  # trained labels that a new one takes from; how fast their share falls with the cosine
AT_ONCE = 512  # new labels whose neighbours are looked for


class Dual(Head):
    """(n, width) label vectors in parts of the heads' widths, and a bias per label."""

    kind: ClassVar[str] = "rank.dual.1"

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        *,
        widths: Mapping[str, int],
        text: tuple[float, float] = (1.0, 0.0),
        new: TextMap | None = None,
        order: NDArray[np.int32] | None = None,
    ) -> None:
        super().__init__(weight, bias)
        self.order = order  # the label of each row; None: rows are in the order of labels
        self.widths = dict(widths)  # of each head's part, in order
        self.text = text  # estimate of the other heads' score for labels known only by text: factor, offset
        self.new = new  # from texts to what the classifier would be, twice lifted, as it counts half; None: not known

    def ordered(self, order: NDArray[np.int32]) -> Dual:
        """The same with rows in this order, so that labels of one list are contiguous."""
        if self.order is not None:
            raise ModelError(f"{self.kind}: its rows are already permuted.")
        return Dual(self.weight[order], self.bias[order], widths=self.widths, text=self.text, new=self.new, order=order)

    def beside(self, other: Dual) -> Dual:
        """Both heads' label vectors side by side, as one; what is known of new labels is the other's."""
        if other.new is not None and len(other.new.centre) != self.weight.shape[1]:
            raise ModelError(f"{self.kind}: the map to new labels is not of this width. The model is damaged.")
        weight = np.hstack([half.weight[half.rows] for half in (self, other)])
        bias = self.bias[self.rows] + other.bias[other.rows]
        return Dual(weight, bias, widths={**self.widths, **other.widths}, text=other.text, new=other.new)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """(labels,) the row of each label."""
        rows = np.arange(self.n, dtype=np.int32)
        rows[slice(None) if self.order is None else self.order] = np.arange(self.n)
        return rows

    def table_on(self, device: Any) -> LabelTable:
        if self.order is None:
            return super().table_on(device)
        return Head(self.weight[self.rows], self.bias[self.rows]).table_on(device)

    def _all(self, h: Floats, join: Join, keep: int, *, alone: bool) -> Ranking:
        ranking = super()._all(h, join, keep, alone=alone)
        return (
            ranking
            if self.order is None
            else Ranking.sorted(ranking.indptr, self.order[ranking.ids], ranking.score, ranking.own)
        )

    def margins(self, h: Floats, ends: Ints, ids: NDArray[np.integer]) -> Floats:
        rows = ids if self.order is None else self.rows[ids]
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
        return self.weight[self.rows[labels], self.place("dual")]

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
        rows = np.zeros((len(vectors), self.weight.shape[1]), np.float32)
        rows[:, self.place("dual")] = np.float32(self.text[0]) * vectors
        return rows, np.full(len(vectors), self.text[1], np.float32)

    def of_new(self, vectors: Floats, trained: Ints) -> tuple[Floats, Floats]:
        """(rows, numbers to add) of labels added after training by their texts' vectors: the classifier's side is the
        mean of the map's prediction and of the nearest `trained` labels' vectors.
        """
        if self.new is None:
            return self.of_text(vectors)
        side: Floats = (np.column_stack(self.new.vectors(vectors)) + self.neighbours(vectors, trained)) / np.float32(2)
        rows = np.zeros((len(vectors), self.weight.shape[1]), np.float32)
        rows[:, self.place("dual")], rows[:, self.place("classifier")] = vectors, side[:, :-1]
        return rows, side[:, -1].copy()

    def neighbours(self, vectors: Floats, trained: Ints, own: Ints | None = None) -> Floats:
        """(texts, classifier's width + 1) the classifier's [vector, bias] of the `trained` labels nearest to these text
        vectors, the nearer the more; `own` is a label for each text that is not its neighbour.
        """
        estimates = np.empty((len(vectors), self.widths["classifier"] + 1), np.float32)
        for start, stop in threads.blocks(len(vectors), AT_ONCE):
            cosine, labels = self._nearest(vectors[start:stop], trained, None if own is None else own[start:stop])
            share = np.exp(STEEP * (cosine - cosine.max(1, keepdims=True)))
            share, rows = share / share.sum(1, keepdims=True), self.rows[labels]
            estimates[start:stop, :-1] = np.einsum("ij,ijk->ik", share, self.weight[rows, self.place("classifier")])
            estimates[start:stop, -1] = (share * self.bias[rows]).sum(1)
        return estimates

    def _nearest(self, vectors: Floats, trained: Ints, own: Ints | None) -> tuple[Floats, Ints]:
        """(cosines, labels), each (texts, NEIGHBOURS) where there are as many."""
        texts, cosines, labels = unit(vectors), [], []
        for start in range(0, len(trained), SHARE):
            block = trained[start : start + SHARE]
            cosine = texts @ unit(self.texts(block)).T
            if own is not None:
                cosine[own[:, None] == block] = -np.inf
            best = np.argpartition(-cosine, min(NEIGHBOURS, len(block)) - 1, axis=1)[:, :NEIGHBOURS]
            cosines.append(np.take_along_axis(cosine, best, 1))
            labels.append(block[best])
        cosine, found = np.hstack(cosines), np.hstack(labels)
        best = np.lexsort((found, -cosine), axis=1)[:, :NEIGHBOURS]
        return np.take_along_axis(cosine, best, 1), np.take_along_axis(found, best, 1)

    def row(self, node: int) -> int:
        return int(self.rows[node])

    def gradient(self, view: View, node: int) -> Gradient:
        """As of any head; its parts say what each side of the search vector adds."""
        made = super().gradient(view, node)
        x = np.asarray(view[0], np.float64)
        sides = {name: float(x[at] @ made.weights[at]) for name in self.widths for at in [self.place(name)]}
        return replace(made, parts=sides)

    def similar(self, vector: Floats, keep: int) -> tuple[Ints, Floats]:
        rows, cosine = super().similar(vector, keep)
        return rows if self.order is None else self.order[rows].astype(np.int64), cosine

    def to_part(self) -> Part:
        widths = [[name, width] for name, width in self.widths.items()]
        config = {"n": self.n, "widths": widths, "text": [float(number) for number in self.text]}
        arrays: dict[str, NDArray[Any]] = {"weight": self.weight, "bias": self.bias}
        arrays |= {} if self.order is None else {"order": self.order}
        return Part(self.kind, config, arrays, {} if self.new is None else {"new": self.new.to_part()})

    @classmethod
    def from_part(cls, part: Part) -> Dual:
        n, widths, text = part.setting("n", int), part.setting("widths", list), part.setting("text", list)
        sound = all(isinstance(p, list) and [type(item) for item in p] == [str, int] and p[1] > 0 for p in widths)
        if not widths or not sound or len(dict(widths)) != len(widths):
            raise ModelError(f"{part.kind}: widths {widths!r} are not valid. The model is damaged; copy it again.")
        if [type(number) for number in text] != [float, float] or not np.isfinite(text).all():
            raise ModelError(
                f"{part.kind}: text {text!r} is not a pair of numbers. The model is damaged; copy it again."
            )
        weight = floats(part, "weight", n, sum(width for _, width in widths))
        order = distinct(part, "order", n, n) if "order" in part.arrays else None
        bias = floats(part, "bias", n)
        new, wide = part.parts.get("new"), dict(widths)
        text_map = None if new is None else TextMap.from_part(new, wide.get("dual"), wide.get("classifier"))
        return Dual(weight, bias, widths=wide, text=(text[0], text[1]), new=text_map, order=order)
