"""Changes to labels carried over from one model to another: what `fit --overwrite` and `treetop labels apply` do.

Labels are matched by id. Every change of the old log that was not undone is made again in its order, with its author,
date and note, for those of its labels that the new model has; the rest is listed, never dropped silently. Of a label
that was retired, merged and restored by turns only the last counts. What labels learned from rows (`treetop learn`,
`labels add --examples`) is not carried over: a new model has it from its data or not at all, which a warning says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treetop.core.dataset import RETIRED, LabelSet
from treetop.core.edits import FOLDER, LOG, Edit
from treetop.core.errors import ConfigError, LabelError, TreetopError, WorkError
from treetop.core.label_part import STRINGS, unpack
from treetop.core.log import logger
from treetop.edit import changes
from treetop.edit.changes import By
from treetop.edit.replay import LabelHistory

if TYPE_CHECKING:
    from treetop.model import Model

DONE = {
    "add": "added",
    "learn": "learned further",
    "retire": "retired",
    "restore": "restored",
    "rename": "renamed",
    "merge": "merged",
}
STATUS = {"retire", "restore", "merge"}
SHOWN = 5  # labels that a message names


@dataclass(frozen=True)
class Step:
    """One change to make again: {id: what it becomes}."""

    action: str
    labels: Mapping[str, Any]
    by: By
    re_encode: bool = False


@dataclass
class Transfer:
    """What becomes of the changes of a log in another model, label by label."""

    steps: list[Step] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)  # (action, id) that no longer apply
    given: int = 0  # already so in the new model
    learned: dict[str, None] = field(default_factory=dict)  # labels of the new model that the old one taught rows

    @property
    def done(self) -> Counter[str]:
        """Labels of each action that were carried over."""
        counts: Counter[str] = Counter()
        for step in self.steps:
            counts[step.action] += len(step.labels)
        return counts

    @property
    def is_void(self) -> bool:
        """Whether there were changes, and none of them means anything to the new model."""
        return bool(self.lost) and not (self.steps or self.given or self.learned)

    def describe(self, what: str = "") -> str:
        """How many labels were changed, and how; `what` stands behind the total."""
        total = sum(self.done.values())
        listed = ", ".join(f"{count:,} {DONE[action]}" for action, count in self.done.items())
        return f"{total:,} label change{'s' if total != 1 else ''}{what}: {listed}"

    def describe_learned(self) -> str:
        """That the rows which labels learned are not part of their changes, and what to do; empty: none learned."""
        n, ids = len(self.learned), list(self.learned)
        if n == 0:
            return ""
        listed = ", ".join(ids[:SHOWN]) + (f" and {n - SHOWN:,} more" if n > SHOWN else "")
        many = "s" if n != 1 else ""
        return (
            f"what {n:,} label{many} of the model before learned from rows after training ({listed}) is "
            "not carried over. Rows that the data of the new model lack, teach it again with `treetop learn`."
        )

    def describe_lost(self) -> str:
        """The first changes that no longer apply."""
        listed = ", ".join(f"{id_} ({DONE[action]})" for action, id_ in self.lost[:SHOWN])
        return listed + (f" and {len(self.lost) - SHOWN:,} more" if len(self.lost) > SHOWN else "")


def transfer(
    old: LabelHistory, labels: LabelSet, *, adds: bool = True, untaught: frozenset[str] = frozenset()
) -> Transfer:
    """How the changes of `old` apply to a model with `labels`, of which those `untaught` have no training texts.

    `adds`: whether labels can be added to it by text.
    """
    plan, live = _Plan(old, labels, adds, untaught), [old.log[place] for place in old.live()]
    last = {column: edit for edit in live if edit.action in STATUS for column in edit.part.arrays["columns"].tolist()}
    for edit in live:
        plan.take(edit, last)
    return plan.result


def carried(old: LabelHistory, model: Model) -> tuple[Model, Transfer]:
    """The model with the changes of `old`, and what became of each."""
    added = old.now[0].ids.span(len(old.trained[0]), len(old.now[0]))
    columns = model.labels.columns
    untaught = frozenset(id_ for id_ in added if id_ in columns and not model.counts[columns[id_]])
    try:
        return applied(transfer(old, model.labels, untaught=untaught), model)
    except ConfigError:  # its labels cannot be added by text
        return applied(transfer(old, model.labels, adds=False, untaught=untaught), model)


def applied(plan: Transfer, model: Model) -> tuple[Model, Transfer]:
    """The model with the steps of a plan, and what became of each."""
    make: dict[str, Callable[[Model, Step], Model]] = {
        "add": lambda model, step: changes.add(model, step.labels, step.by),
        "retire": lambda model, step: changes.retire(model, step.labels, step.by),
        "restore": lambda model, step: changes.restore(model, step.labels, step.by),
        "rename": lambda model, step: changes.rename(model, step.labels, step.by, re_encode=step.re_encode),
        "merge": lambda model, step: changes.merge(model, step.labels, step.by),
    }
    result = Transfer(lost=plan.lost, given=plan.given, learned=plan.learned)
    for step in plan.steps:
        try:
            model = make[step.action](model, step)
            result.steps.append(step)
        except LabelError:  # no label would be left
            result.lost += [(step.action, id_) for id_ in step.labels]
    return model, result


def onto(folder: Path, model: Model) -> tuple[Model, list[str]]:
    """A newly trained model with the changes to the labels of the one in `folder`, and those that no longer apply."""
    before = _opened(folder)
    if before is None or before.edits is None or not before.edits.live():
        return model, []
    model, made = carried(before.edits, model)
    if made.steps:
        were = "was" if sum(made.done.values()) == 1 else "were"
        logger.info("%s: %s", folder, made.describe(f" of the model before {were} carried over"))
    if made.lost:
        logger.warning(
            "%s: %s label change%s of the model before no longer appl%s, as the new model has no such label: %s (all "
            "are listed in run.json).",
            folder, f"{len(made.lost):,}", *(("", "ies") if len(made.lost) == 1 else ("s", "y")), made.describe_lost(),
        )  # fmt: skip
    if learned := made.describe_learned():
        logger.warning("%s: %s", folder, learned)
    return model, [f"{DONE[action]} {id_}" for action, id_ in made.lost]


def check(folder: Path, labels: LabelSet, recipe: str) -> None:
    """Refuse, before training, to replace a model whose changes to labels would all be lost."""
    before = _opened(folder)
    if before is None or before.edits is None:
        return
    adds = before.card.recipe != recipe or _adds(before)
    plan = transfer(before.edits, labels, adds=adds)
    if plan.is_void:
        raise WorkError(
            f"{folder}: none of the {len(plan.lost):,} label changes of this model would apply to the new one, as its "
            f"data have no such label: {plan.describe_lost()}. Drop them with --drop-edits (drop_edits=True), or "
            "choose another folder."
        )


def _adds(model: Model) -> bool:
    from treetop.edit.vectors import heads_of

    try:
        heads_of(model.trained)
    except ConfigError:
        return False
    return True


def _opened(folder: Path) -> Model | None:
    """The model in a folder where there are changes to its labels; else None."""
    from treetop.model import load

    if not (folder / FOLDER / LOG).is_file():
        return None
    try:
        return load(folder)
    except TreetopError as error:
        raise WorkError(
            f"{folder}: its label changes cannot be carried over, as the model does not open ({error}) Drop them with "
            "--drop-edits (drop_edits=True), or choose another folder."
        ) from None


class _Plan:
    """The old log read in its order, beside the labels of the new model as they become."""

    def __init__(self, old: LabelHistory, labels: LabelSet, adds: bool, untaught: frozenset[str]) -> None:
        self.old, self.labels, self.adds, self.untaught = old, labels, adds, untaught
        self.result = Transfer()
        self.before: dict[str, tuple[str, str]] = {}  # names and texts that changes gave labels of the old model
        self.now: dict[str, tuple[str, str]] = {}  # the same of the new one, with labels added to it
        self.retired: dict[str, bool] = {}  # status that changes gave labels of the new model
        self.added: set[str] = set()

    def take(self, edit: Edit, last: Mapping[int, Edit]) -> None:
        """Plan one change of the old model again; `last` is the last change of each column's status."""
        by, ids = By(edit.entry["who"], edit.entry["note"], edit.entry["when"]), self.old.now[0].ids
        if edit.action == "add":
            self._add(edit, by)
            return
        columns = edit.part.arrays["columns"].tolist()
        if edit.action == "learn":
            self._learn([ids[column] for column in columns])
            return
        if edit.action == "rename":
            self._rename(edit, [ids[column] for column in columns], by)
            return
        targets = edit.part.arrays["targets"].tolist() if edit.action == "merge" else [None] * len(columns)
        pairs = [pair for pair in zip(columns, targets, strict=True) if last[pair[0]] is edit]
        self._hide(edit.action, {ids[a]: None if b is None else ids[b] for a, b in pairs}, by)

    def _known(self, id_: str) -> bool:
        return id_ in self.labels.columns or id_ in self.added

    def _is_retired(self, id_: str) -> bool:
        if id_ in self.retired or id_ in self.added:
            return self.retired.get(id_, False)
        return bool(self.labels.status[self.labels.columns[id_]] == RETIRED)

    def _step(self, action: str, labels: Mapping[str, Any], by: By, *, re_encode: bool = False) -> None:
        if labels:
            self.result.steps.append(Step(action, labels, by, re_encode))

    def _lose(self, action: str, ids: Iterable[str]) -> None:
        self.result.lost += [(action, id_) for id_ in ids]

    def _add(self, edit: Edit, by: By) -> None:
        rows = list(zip(*(unpack(edit.part, name) for name in STRINGS), strict=True))
        self.before |= {id_: (name, text) for id_, name, text in rows}
        fresh = {id_: (name, text) for id_, name, text in rows if not self._known(id_)}
        self.result.given += len(rows) - len(fresh)  # now trained, or known at least
        if "counts" in edit.part.arrays:  # by examples
            self.result.learned |= dict.fromkeys(id_ for id_, _, _ in rows if id_ in self.untaught)
        if not self.adds:
            self._lose("add", fresh)
            return
        self.now |= fresh
        self.added |= set(fresh)
        self._step(
            "add", {i: {"name": name} | ({"text": text} if text else {}) for i, (name, text) in fresh.items()}, by
        )

    def _learn(self, ids: list[str]) -> None:
        """Functions belong to one model; one that has the label has learned it from the data it was trained on."""
        known = [id_ for id_ in ids if self._known(id_)]
        self.result.learned |= dict.fromkeys(known)
        self._lose("learn", set(ids) - set(known))

    def _hide(self, action: str, labels: Mapping[str, str | None], by: By) -> None:
        """Labels retired, merged or restored: those of the new model that are not yet so."""
        hidden = action != "restore"
        wanted: dict[str, str | None] = {}
        for id_, target in labels.items():
            if not self._known(id_) or (target is not None and (not self._known(target) or self._is_retired(target))):
                self._lose(action, [id_])
            elif self._is_retired(id_) == hidden:
                self.result.given += 1
            else:
                wanted[id_] = target
        self.retired |= dict.fromkeys(wanted, hidden)
        self._step(action, wanted, by)

    def _rename(self, edit: Edit, ids: list[str], by: By) -> None:
        plain: dict[str, dict[str, str]] = {}
        encoded: dict[str, dict[str, str]] = {}
        new = zip(*(unpack(edit.part, name, len(ids)) for name in ("names", "texts")), strict=True)
        for id_, after in zip(ids, new, strict=True):
            before = self._old_words(id_)
            self.before[id_] = after
            if not self._known(id_):
                self._lose("rename", [id_])
                continue
            now = self._new_words(id_)
            then = tuple(a if a != b else n for a, b, n in zip(after, before, now, strict=True))
            changed = {key: a for key, a, n in zip(("name", "text"), then, now, strict=True) if a and a != n}
            if edit.part.parts and id_ in self.added:
                encoded[id_] = changed or {"name": then[0]}
            elif changed:
                plain[id_] = changed
            else:
                self.result.given += 1
            self.now[id_] = (then[0], then[1])
        self._step("rename", plain, by)
        self._step("rename", encoded, by, re_encode=True)

    def _old_words(self, id_: str) -> tuple[str, str]:
        """(name, text) of a label of the old model at this point of its log."""
        if id_ in self.before:
            return self.before[id_]
        trained = self.old.trained[0]
        column = trained.columns[id_]
        return trained.names[column], trained.texts[column]

    def _new_words(self, id_: str) -> tuple[str, str]:
        if id_ in self.now:
            return self.now[id_]
        column = self.labels.columns[id_]
        return self.labels.names[column], self.labels.texts[column]
