"""A linear map from a label's text embedding to the label vector and bias that training would have learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treetop.core.part_checks import floats
from treetop.core.store import Part
from treetop.core.types import Floats


@dataclass(frozen=True, eq=False)
class TextMap:
    """A linear map of the direction from the mean of label texts; how it is fitted: `edit/vectors.py`."""

    centre: Floats  # (width,) mean of the trained labels' texts
    slope: Floats  # (width, width of a label's vector + 1)
    offset: Floats  # (width of a label's vector + 1,)

    def vectors(self, view: Floats) -> tuple[Floats, Floats]:
        """(vectors, biases) of labels with these text vectors."""
        rows = (unit(view - self.centre) @ self.slope + self.offset).astype(np.float32)
        return np.ascontiguousarray(rows[:, :-1]), rows[:, -1].copy()

    def to_part(self) -> Part:
        return Part("edit.map.1", {}, {"centre": self.centre, "slope": self.slope, "offset": self.offset})

    @classmethod
    def from_part(cls, part: Part, width: int | None = None, made: int | None = None) -> TextMap:
        """From texts of this width to label vectors of width `made`; where nothing is said, both are alike."""
        centre = floats(part, "centre", width)
        out = (len(centre) if made is None else made) + 1
        return cls(centre, floats(part, "slope", len(centre), out), floats(part, "offset", out))


def unit(X: Any) -> Any:
    """Rows at length 1; empty ones stay empty."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
