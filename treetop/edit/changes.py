"""Labels added, retired, restored, renamed and merged after training: an overlay that leaves the trained model alone.

Every edit returns a new model; the one it was given stays as it was. A change is data: replayed over the trained labels
it gives the labels of today. Ids are never given away twice, columns never move, nothing is deleted: `undo` takes the
last change back by another entry of the log.
"""

from __future__ import annotations

import getpass
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treetop.core.dataset import RETIRED, Dataset, LabelSet
from treetop.core.edits import MOST, Edit
from treetop.core.errors import InputError, LabelError, WorkError
from treetop.core.label_part import pack, pack_labels
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.version import VERSION
from treetop.edit.new_labels import FORM, check_new, key_of, label_set_of, name_and_text
from treetop.edit.replay import with_log
from treetop.labels.text import label_words, texts_of

if TYPE_CHECKING:
    from treetop.model import Model
    from treetop.rank.text_map import TextMap

SHOWN = 5  # ids of a change that the log names


@dataclass(frozen=True)
class By:
    """Who changes a model, and why; `when` is that of a change made before, which is carried over."""

    who: str = ""
    note: str = ""
    when: str = ""

    def __post_init__(self) -> None:
        for name, value in (("who", self.who), ("note", self.note)):
            if not isinstance(value, str) or not _encodable(value):
                raise InputError(f"labels: '{name}' must be a string of UTF-8 text, got {value!r:.40}. Fix it.")

    def entry(self, action: str, ids: Sequence[str]) -> dict[str, Any]:
        """The log entry of a change."""
        return {
            "action": action,
            "when": self.when or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "who": self.who or _user(),
            "note": self.note,
            "labels": len(ids),
            "ids": list(ids[:SHOWN]),
            "treetop": VERSION,
        }


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of another encoding on the command line
        return False
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without users
        return "unknown"


ANYONE = By()  # the user who runs the process, without a note


def add(
    model: Model, labels: LabelSet | Mapping[str, Any] | None, by: By = ANYONE, *, examples: Dataset | None = None
) -> Model:
    """Add labels by their texts: each gets an estimate of the vector that training would have learned.

    With `examples`, trees of linear functions learn those of the new labels from them; without `labels` these are all
    labels of the examples that the model does not know.
    """
    if examples is not None:
        from treetop.edit.examples import log_what_learns

        changed = _learned(model, labels, examples, by)
        log_what_learns(model, examples)
        return changed
    from treetop.edit.vectors import encode, heads_of

    trained = model.trained
    heads_of(trained)
    new = labels if isinstance(labels, LabelSet) else label_set_of(labels)
    check_new(model, new)
    maps, fresh = _maps(model)
    texts = label_words(new)
    parts = encode(trained, maps, texts)
    if fresh:
        parts |= {f"map-{m:02d}": text_map.to_part() for m, text_map in enumerate(maps)}
    return _with(model, Edit(by.entry("add", list(new.ids)), Part("edit.add.1", {}, pack_labels(new), parts)))


def _learned(model: Model, labels: LabelSet | Mapping[str, Any] | None, examples: Dataset, by: By) -> Model:
    """See `add`: with examples."""
    from treetop.edit.examples import learn, settings_of, unknown_labels

    if not isinstance(examples, Dataset):
        raise InputError(f"examples: expected a Dataset, got {type(examples).__name__}. Read one with Dataset.read.")
    settings_of(model.trained, "labels add")
    if labels is None:
        new = unknown_labels(model, examples)
    else:
        new = labels if isinstance(labels, LabelSet) else label_set_of(labels)
    check_new(model, new, words=False)
    parts, counts = learn(model.trained, new, examples)
    arrays = {**pack_labels(new), "counts": counts}
    return _with(model, Edit(by.entry("add", list(new.ids)), Part("edit.add.1", {}, arrays, parts)))


def learn(model: Model, rows: Dataset, by: By = ANYONE) -> Model:
    """Let labels with new rows learn them (trees of linear functions); labels the model does not know are added."""
    from treetop.edit.examples import log_what_learns, settings_of, unknown
    from treetop.edit.relearn import relearn

    if not isinstance(rows, Dataset):
        raise InputError(f"rows: expected a Dataset, got {type(rows).__name__}. Read one with Dataset.read.")
    settings_of(model.trained, "learn")
    fresh = unknown(model, rows)
    parts, columns, counts = relearn(model, rows, needed=not fresh)
    if len(columns):
        arrays = {"columns": columns, "counts": counts}
        ids = [model.labels.ids[column] for column in columns.tolist()]
        model = _with(model, Edit(by.entry("learn", ids), Part("edit.learn.1", {}, arrays, parts)))
    log_what_learns(model, rows)
    return _learned(model, None, rows, by) if fresh else model


def _maps(model: Model) -> tuple[list[TextMap], bool]:
    """(the map from texts to vectors for each member, whether it is new); all labels of a model use the same map."""
    from treetop.edit.vectors import fit_maps
    from treetop.rank.text_map import TextMap

    for edit in model.edits.log if model.edits is not None else ():
        names = [f"map-{m:02d}" for m in range(len(model.members))]
        if edit.action == "add" and all(name in edit.part.parts for name in names):
            return [TextMap.from_part(edit.part.parts[name]) for name in names], False
    return fit_maps(model.trained), True


def retire(model: Model, labels: Iterable[str], by: By = ANYONE) -> Model:
    """Never return these labels again, until they are restored."""
    columns = _columns(model, labels)
    _check_status(model, columns, retired=False, what="is retired already")
    if len(columns) == int((model.labels.status != RETIRED).sum()):
        raise LabelError(
            "labels retire: no label would be left, and a model without labels answers nothing. Leave out at least one."
        )
    return _of_columns(model, "retire", columns, by)


def restore(model: Model, labels: Iterable[str], by: By = ANYONE) -> Model:
    """Return these retired labels again; merged ones keep their score to themselves again."""
    columns = _columns(model, labels)
    _check_status(model, columns, retired=True, what="is not retired")
    return _of_columns(model, "restore", columns, by)


def rename(model: Model, labels: Mapping[str, Any], by: By = ANYONE, *, re_encode: bool = False) -> Model:
    """Give labels other names or texts; `re_encode` recomputes the vectors of labels that were added by text."""
    from treetop.edit.vectors import encode

    if not isinstance(labels, Mapping):
        raise InputError(f"labels: expected {{label: new name}}, got {type(labels).__name__}. {FORM}")
    columns, now = _columns(model, labels), model.labels
    names, texts = [], []
    for key, column in zip(labels, columns, strict=True):
        name, text = name_and_text(key, labels[key], plain="name")
        if name is None and text is None:
            raise LabelError(f"label '{key}': neither a new name nor a new text. Give one.", label=str(key))
        names.append(now.names[column] if name is None else name)
        texts.append(now.texts[column] if text is None else text)
    if not re_encode and all(
        (now.names[column], now.texts[column]) == new
        for column, new in zip(columns, zip(names, texts, strict=True), strict=True)
    ):
        raise LabelError(f"label '{now.ids[columns[0]]}': already has this name. There is nothing to change.")
    _warn_shared_name(now, dict(zip(columns, names, strict=True)))
    packed = {"names": Texts.of(names), "texts": Texts.of(texts)}
    parts: dict[str, Part] = {}
    if re_encode:
        n = model.n_trained
        for column in columns:
            if column < n:
                raise LabelError(
                    f"label '{now.ids[column]}': was trained, so its vector does not come from its text. "
                    "Rename it without re-encoding."
                )
        parts = encode(model.trained, _maps(model)[0], texts_of(packed["texts"], packed["names"]))
    arrays = {
        "columns": np.array(columns, np.int64),
        **pack("names", packed["names"]),
        **pack("texts", packed["texts"]),
    }
    ids = [now.ids[column] for column in columns]
    return _with(model, Edit(by.entry("rename", ids), Part("edit.rename.1", {}, arrays, parts)))


def _warn_shared_name(labels: LabelSet, renamed: Mapping[int, str]) -> None:
    """Warn about names that several labels now share: such labels are found by id only."""
    wanted = set(renamed.values())
    names = {column: renamed.get(column, name) for column, name in enumerate(labels.names)}
    count = Counter(name for name in names.values() if name in wanted)
    for column, name in renamed.items():
        if count[name] > 1 and name != labels.names[column]:
            logger.warning(
                "label '%s': its new name '%s' is that of another label too, so both are found by id only. To make "
                "them one, merge them (`treetop labels merge`).",
                labels.ids[column],
                name,
            )


def merge(model: Model, labels: Mapping[str, str], by: By = ANYONE) -> Model:
    """Merge labels into others, which get the highest of their scores, and retire the former."""
    if not isinstance(labels, Mapping):
        raise InputError(f"labels: expected {{label: label it goes into}}, got {type(labels).__name__}.")
    sources = _columns(model, labels)
    targets = [model.labels.find(key_of(target)) for target in labels.values()]
    _check_status(model, sources, retired=False, what="is retired already")
    _check_status(model, targets, retired=False, what="is retired, nothing can be merged into it")
    if both := set(sources) & set(targets):
        id_ = model.labels.ids[min(both)]
        raise LabelError(f"label '{id_}': is both merged and merged into. Merge in two steps, or into another label.")
    return _of_columns(model, "merge", sources, by, {"targets": np.array(targets, np.int64)})


def undo(model: Model, by: By = ANYONE) -> Model:
    """Undo the last change; labels it added stay known, as retired, since ids are never reused."""
    live = [] if model.edits is None else model.edits.live()
    if model.edits is None or not live:
        raise WorkError("labels undo: there is no change left to undo; the labels are as trained.")
    last = model.edits.log[live[-1]]
    entry = by.entry("undo", last.entry.get("ids", [])) | {"labels": last.entry["labels"], "undoes": live[-1] + 1}
    return _with(model, Edit(entry, Part("edit.undo.1")))


# --- what the changes share -----------------------------------------------------------------------------------------


def _with(model: Model, edit: Edit) -> Model:
    """The model with one more change, checked as if read from disk."""
    log = (*(model.edits.log if model.edits is not None else ()), edit)
    if len(log) > MOST:
        raise WorkError(f"labels: the model carries {MOST:,} changes, the most allowed. Train it again.")
    return with_log(model, log)


def _of_columns(model: Model, action: str, columns: list[int], by: By, more: Mapping[str, Any] | None = None) -> Model:
    part = Part(f"edit.{action}.1", {}, {"columns": np.array(columns, np.int64), **(more or {})})
    return _with(model, Edit(by.entry(action, [model.labels.ids[column] for column in columns]), part))


def _columns(model: Model, labels: Iterable[str]) -> list[int]:
    """Columns of ids or unambiguous names, each label once, at least one."""
    if isinstance(labels, str):
        labels = [labels]
    if not isinstance(labels, Iterable):
        raise InputError(f"labels: expected ids or names, got {type(labels).__name__}.")
    chosen: dict[int, str] = {}
    for key in labels:
        column = model.labels.find(key_of(key))
        if column in chosen:
            raise LabelError(f"label '{key}': appears twice. Name each label once.")
        chosen[column] = key
    if not chosen:
        raise InputError("labels: none given. Name at least one label by its id or name.")
    return list(chosen)


def _check_status(model: Model, columns: Iterable[int], *, retired: bool, what: str) -> None:
    for column in columns:
        if (model.labels.status[column] == RETIRED) != retired:
            hint = " `treetop labels list` shows all labels."
            id_ = model.labels.ids[column]
            raise LabelError(f"label '{id_}': {what}. Leave it out.{hint}", label=id_)
