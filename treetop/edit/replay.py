"""From the labels a model was trained on and the log of changes to its current labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import ACTIVE, RETIRED, Ints, LabelSet
from treetop.core.edits import FOLDER, Edit
from treetop.core.errors import InputError, ModelError
from treetop.core.label_part import STRINGS, unpack
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Level
from treetop.edit.added import AddedLabels, Functions, level_of, read_added, without
from treetop.predict.overlay import Overlay

if TYPE_CHECKING:
    from treetop.model import Model

Members = Sequence[Sequence[Level]]


@dataclass(frozen=True, eq=False)
class LabelHistory:
    """The labels a model was trained on, the changes since, and their effect on its answers."""

    trained: tuple[LabelSet, Ints]  # labels and their training counts, as trained
    now: tuple[LabelSet, Ints]  # the same of today
    log: tuple[Edit, ...]
    merged: Mapping[int, int]  # column -> column that gets its score, as asked for
    overlay: Overlay | None

    def live(self) -> list[int]:
        """Positions in the log of changes that were not undone."""
        return _live(self.log)[0]


def replay(labels: LabelSet, counts: Ints, members: Members, log: Sequence[Edit]) -> LabelHistory:
    """The current labels; a log that does not fit the trained ones is refused."""
    state = _State(labels, members)
    taken_back = _live(log)[1]
    for place, edit in enumerate(log):
        try:
            state.take(edit, undone=place in taken_back)
        except ModelError as error:
            raise ModelError(f"label change {place + 1} ({edit.action}): {error}") from None
    now = state.labels()
    wide = np.concatenate([counts, *state.counts])
    for column, count in state.more.items():
        wide[column] += count
    overlay = Overlay(len(labels), now.status == RETIRED, state.extra(), state.targets(), state.columns(), state.base())
    needed = overlay.extra or overlay.retired.any()
    return LabelHistory((labels, counts), (now, wide), tuple(log), dict(state.merged), overlay if needed else None)


def with_log(model: Model, log: Sequence[Edit]) -> Model:
    """The same trained model with the labels that `log` makes of those it was trained on."""
    labels, counts = (model.labels, model.counts) if model.edits is None else model.edits.trained
    history = replay(labels, counts, model.members, log)
    labels, counts = history.now
    return replace(model, labels=labels, counts=counts, edits=history)


def replayed(folder: Path, model: Model, log: Sequence[Edit]) -> Model:
    """`with_log` for a log that was read from the folder of `model`."""
    try:
        return with_log(model, log)
    except (ModelError, InputError) as error:
        raise ModelError(f"{folder / FOLDER}: {error}") from None


def _live(log: Sequence[Edit]) -> tuple[list[int], set[int]]:
    """Positions of active and of undone changes; `undo` undoes the last active one."""
    live: list[int] = []
    undone: set[int] = set()
    for place, edit in enumerate(log):
        if edit.action != "undo":
            live.append(place)
        elif not live or edit.entry.get("undoes") != live[-1] + 1:
            raise ModelError(f"label change {place + 1} undoes a change that is not the last one. The log is damaged.")
        else:
            undone.add(live.pop())
    return live, undone


class _State:
    """Labels while the log is read."""

    def __init__(self, trained: LabelSet, members: Members) -> None:
        self.trained, self.members = trained, members
        self.strings = {name: [getattr(trained, name)] for name in STRINGS}
        self.renamed: dict[int, tuple[str, str]] = {}
        self.status = np.array(trained.status)
        self.merged: dict[int, int] = {}
        self.added: list[AddedLabels] = []  # one for each member
        self.counts: list[Ints] = []  # training texts of added labels
        self.places: list[int] = []  # the label of each function that was added, -1: learned again since
        self.more: dict[int, int] = {}  # column -> texts learned since training

    def take(self, edit: Edit, *, undone: bool) -> None:
        """Apply one change; columns of labels whose addition was undone stay, retired."""
        if edit.part.kind != f"edit.{edit.action}.1":
            raise ModelError(f"its data are '{edit.part.kind}'. Install a treetop that fits, or copy the model again.")
        if edit.action == "add":
            self._add(edit.part)
            if undone:
                self.status[-len(unpack(edit.part, "ids")) :] = RETIRED
        elif not undone and edit.action != "undo":
            columns = edit.part.indices("columns", "<i8", None, len(self.status))
            {
                "learn": self._learn,
                "retire": self._retire,
                "restore": self._restore,
                "rename": self._rename,
                "merge": self._merge,
            }[edit.action](edit.part, columns)

    def _add(self, part: Part) -> None:
        ids = unpack(part, "ids")
        if len(ids) == 0:
            raise ModelError("it adds no label. The model is damaged; copy it again.")
        for name in STRINGS:
            self.strings[name].append(unpack(part, name, len(ids)))
        self.places += range(len(self.status), len(self.status) + len(ids))
        self.status = np.concatenate([self.status, np.full(len(ids), ACTIVE, np.uint8)])
        counts = part.array("counts", "<i8", len(ids)) if "counts" in part.arrays else np.zeros(len(ids), np.int64)
        self.counts.append(counts)
        self._extend(self._read(part, len(ids)))

    def _extend(self, new: list[AddedLabels]) -> None:
        for current, more in zip(self.added, new, strict=False):
            current.extend(more)
        self.added = self.added or new

    def _learn(self, part: Part, columns: Ints) -> None:
        counts = part.array("counts", "<i8", len(columns))
        if len(np.unique(columns)) != len(columns) or len(columns) == 0 or counts.min() < 0:
            raise ModelError("labels or counts that it learns are malformed. The model is damaged; copy it again.")
        new = self._read(part, len(columns))
        if not all(isinstance(each, Functions) for each in new):
            raise ModelError("it learns labels of a model that cannot. The model is damaged; copy it again.")
        again = set(columns.tolist())
        self.places = [-1 if column in again else column for column in self.places] + columns.tolist()
        for column, count in zip(columns.tolist(), counts.tolist(), strict=True):
            self.more[column] = self.more.get(column, 0) + count
        self._extend(new)

    def _read(self, part: Part, n: int) -> list[AddedLabels]:
        return [read_added(part, n, m, levels) for m, levels in enumerate(self.members)]

    def _retire(self, part: Part, columns: Ints) -> None:
        self.status[columns] = RETIRED

    def _restore(self, part: Part, columns: Ints) -> None:
        self.status[columns] = ACTIVE
        for column in columns.tolist():
            self.merged.pop(column, None)

    def _merge(self, part: Part, columns: Ints) -> None:
        targets = part.indices("targets", "<i8", len(columns), len(self.status))
        self.status[columns] = RETIRED
        for column, target in zip(columns.tolist(), targets.tolist(), strict=True):
            if column == self._root(target):
                raise ModelError("a label is merged into itself. The model is damaged; copy it again.")
            self.merged[column] = target

    def _root(self, column: int) -> int:
        """The label that finally gets a label's score."""
        while column in self.merged:
            column = self.merged[column]
        return column

    def _rename(self, part: Part, columns: Ints) -> None:
        names, texts = (unpack(part, name, len(columns)) for name in ("names", "texts"))
        for column, name, text in zip(columns.tolist(), names, texts, strict=True):
            self.renamed[column] = (name, text)
        if not part.parts:
            return
        places = columns - len(self.trained)
        if len(places) == 0 or not self.added or places.min() < 0 or self.columns() is not None:
            raise ModelError("it recomputes the vector of a trained label. The model is damaged; copy it again.")
        for current, new in zip(self.added, self._read(part, len(columns)), strict=True):
            current.put(places, new)

    # --- the result ---

    def labels(self) -> LabelSet:
        ids, names, texts = (
            parts[0] if len(parts) == 1 else Texts.concat(parts) for parts in (self.strings[name] for name in STRINGS)
        )
        if self.renamed:
            names = _changed(names, {column: name for column, (name, _) in self.renamed.items()})
            texts = _changed(texts, {column: text for column, (_, text) in self.renamed.items()})
        return LabelSet(ids, names, texts, self.status, self.trained.thesaurus)

    def extra(self) -> list[Level]:
        """For each member a level that ranks the added labels below the nodes its last level reads."""
        return [level_of(added, levels) for levels, added in zip(self.members, self.added, strict=False)]

    def columns(self) -> NDArray[np.int32] | None:
        """The label of each function in `extra`; None where they are the added ones in order."""
        in_order = range(len(self.trained), len(self.status))
        return None if self.places == list(in_order) else np.array(self.places, np.int32)

    def base(self) -> list[Level]:
        """The members' last levels without labels that were learned again; none where there are no such labels."""
        again = np.unique([column for column in self.places if 0 <= column < len(self.trained)]).astype(np.int64)
        return [without(levels[-1], again) for levels in self.members] if len(again) else []

    def targets(self) -> NDArray[np.int32] | None:
        """(labels,) where each label's score goes; None where nothing is merged."""
        if not self.merged:
            return None
        roots = np.arange(len(self.status), dtype=np.int32)
        for column in self.merged:
            roots[column] = self._root(column)
        return roots


def _changed(texts: Texts, new: Mapping[int, str]) -> Texts:
    """The same strings with some replaced."""
    parts, at = [], 0
    for column in sorted(new):
        parts += [texts.span(at, column), Texts.of([new[column]])]
        at = column + 1
    return Texts.concat([*parts, texts.span(at, len(texts))])
