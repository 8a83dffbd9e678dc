"""What a vocabulary says of its labels beyond name and text: other names, and how labels are related."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import InputError
from treetop.core.texts import Texts

Pairs = NDArray[np.int32]
NO_PAIRS: Pairs = np.zeros((0, 2), np.int32)


@dataclass(frozen=True, eq=False)
class Thesaurus:
    """Alternative names with the column of the label of each, and pairs of columns that are related."""

    names: Texts
    owners: NDArray[np.int32]  # (names,) ascending
    broader: Pairs = field(default_factory=lambda: NO_PAIRS)  # (label, broader label)
    related: Pairs = field(default_factory=lambda: NO_PAIRS)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.owners):
            raise InputError(f"labels: {len(self.names)} alternative names of {len(self.owners)} labels.")

    @classmethod
    def of(
        cls,
        columns: Mapping[str, int],
        names: Iterable[tuple[int, Sequence[str]]],
        broader: Iterable[tuple[int, Sequence[str]]] = (),
        related: Iterable[tuple[int, Sequence[str]]] = (),
    ) -> Thesaurus | None:
        """From (column, alternative names) and (column, ids) by label; ids that are no labels are left out.

        None where nothing is said.
        """
        listed = sorted({(column, name) for column, several in names for name in several if name})
        pairs = [_pairs(columns, relation) for relation in (broader, related)]
        if not listed and not any(map(len, pairs)):
            return None
        return cls(Texts.of([name for _, name in listed]), np.array([c for c, _ in listed], np.int32), *pairs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Thesaurus)
            and self.names == other.names
            and all(np.array_equal(a, b) for a, b in zip(self.arrays(), other.arrays(), strict=True))
        )

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Everything but the names."""
        return self.owners, self.broader, self.related

    def of_label(self, column: int) -> tuple[list[str], list[int], list[int]]:
        """Alternative names of a label, and the columns of broader and related ones."""
        start, end = np.searchsorted(self.owners, [column, column + 1]).tolist()
        broader, related = (pairs[pairs[:, 0] == column, 1].tolist() for pairs in (self.broader, self.related))
        return [self.names[i] for i in range(start, end)], broader, related

    def by_label(self, ids: Sequence[str]) -> list[dict[str, list[str]]]:
        """For each label its names (`alt`) and the ids of others (`broader`, `related`), where there are any."""
        found: list[dict[str, list[str]]] = [{} for _ in ids]
        for column, name in zip(self.owners.tolist(), self.names, strict=True):
            found[column].setdefault("alt", []).append(name)
        for key, pairs in (("broader", self.broader), ("related", self.related)):
            for column, other in pairs.tolist():
                found[column].setdefault(key, []).append(ids[other])
        return found


def _pairs(columns: Mapping[str, int], relation: Iterable[tuple[int, Sequence[str]]]) -> Pairs:
    pairs = {(column, columns[id_]) for column, ids in relation for id_ in ids if id_ in columns}
    found = sorted(pair for pair in pairs if pair[0] != pair[1])
    return np.array(found, np.int32) if found else NO_PAIRS
