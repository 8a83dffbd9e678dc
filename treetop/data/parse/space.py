"""Which column does a label have? Ids and names from files become columns of one label space."""

from __future__ import annotations

from typing import Any

from treetop.core.dataset import LabelSet


class LabelTable:
    """Columns of labels: a fixed set when there is a labels file, else in order of first appearance."""

    def __init__(self, fixed: LabelSet | None, *, numbered: bool = False) -> None:
        self.fixed = fixed
        self.numbered = numbered
        self.columns: dict[str, int] = {} if fixed is None else dict(fixed.columns)
        self.open = fixed is None  # a new label is nothing odd
        self.new: list[str] = []
        self._names: dict[str, int] | None = None

    def __len__(self) -> int:
        return (0 if self.fixed is None else len(self.fixed)) + len(self.new)

    def close(self) -> None:
        """From now on new labels are unknown: kept, counted and reported in a warning."""
        self.open = False

    def find(self, key: Any) -> int | None:
        """The column of an id, or of a name that only one label carries."""
        column = self.columns.get(key)
        if column is None and self.fixed is not None and len(self.fixed):
            if self._names is None:
                self._names = {}
                for place, name in enumerate(self.fixed.names):
                    self._names[name] = -1 if name in self._names else place
            column = self._names.get(key)
            if column == -1:
                raise KeyError(key)
        return column

    def add(self, key: str) -> int:
        column = len(self)
        self.columns[key] = column
        self.new.append(key)
        return column

    def labels(self) -> LabelSet:
        return LabelSet.of(self.new) if self.fixed is None else self.fixed.extended(self.new)
