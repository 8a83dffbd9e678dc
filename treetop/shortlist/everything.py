"""All labels, without listing them: for flat models that score every label."""

from __future__ import annotations

from typing import Any, ClassVar

from treetop.core.part_checks import whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Ranking, View


class Everything:
    """Every one of `n` labels is a candidate."""

    kind: ClassVar[str] = "shortlist.everything.1"

    def __init__(self, n: int) -> None:
        self.n = n

    def candidates(self, view: View, above: Ranking | None) -> Candidates:
        return Candidates.all(view.shape[0], self.n)

    def to_part(self) -> Part:
        return Part(self.kind, {"n": self.n})

    @classmethod
    def from_part(cls, part: Part) -> Any:
        return cls(whole(part, "n", 1))
