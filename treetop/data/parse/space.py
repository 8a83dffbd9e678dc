"""Which column does a label have? Ids and names from files become columns of one label space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from treetop.core.dataset import LabelSet
from treetop.core.texts import folded
from treetop.data.parse.rows import shown


def alike(labels: Iterable[str]) -> list[list[str]]:
    """Groups of labels that differ only in case or spaces; `labels` are gone through twice."""
    hashes, counts = np.unique(np.fromiter((hash(folded(label)) for label in labels), np.int64), return_counts=True)
    repeated, groups = set(hashes[counts > 1].tolist()), dict[str, list[str]]()
    for label in labels if repeated else ():
        if hash(key := folded(label)) in repeated:
            groups.setdefault(key, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def alike_sentence(path: str, groups: list[list[str]]) -> str:
    """How many labels these are, with an example."""
    more = sum(map(len, groups)) - len(groups)
    labels = "1 label differs" if more == 1 else f"{more:,} labels differ"
    example = f"{shown(groups[0][1])} and {shown(groups[0][0])}"
    return f"{path}: {labels} from another only in case or spaces, such as {example}; join them with --join-labels."


class LabelTable:
    """Columns of labels: a fixed set when there is a labels file, else in order of first appearance.

    With `join`, a label that is unknown as it is written stands for the one that differs only in case or spaces, among
    those of the table and the `known` ones.
    """

    def __init__(
        self, fixed: LabelSet | None, *, numbered: bool = False, join: bool = False, known: Sequence[str] = ()
    ) -> None:
        self.fixed = fixed
        self.numbered = numbered
        self.columns: dict[str, int] = {} if fixed is None else dict(fixed.columns)
        self.open = fixed is None  # a new label is nothing odd
        self.new: list[str] = []
        self._names: dict[str, int] | None = None
        self._folded: dict[str, str] | None = {folded(id_): id_ for id_ in reversed(known)} if join else None
        self._known = frozenset(known)
        if join and fixed is not None:
            self._folded = {folded(key): key for keys in (fixed.names, fixed.ids) for key in reversed(list(keys))}

    def __len__(self) -> int:
        return (0 if self.fixed is None else len(self.fixed)) + len(self.new)

    def close(self) -> None:
        """From now on new labels are unknown: kept, counted and reported in a warning."""
        self.open = False

    def spelled(self, key: str) -> str:
        """The label that a key stands for where labels are joined, else the key itself."""
        if self._folded is None or key in self.columns or key in self._known:
            return key
        return self._folded.setdefault(folded(key), key)

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
