"""Labels as a caller names them: keys, names and texts checked, and which ids may be added to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treetop.core.dataset import RETIRED, LabelSet
from treetop.core.errors import InputError, LabelError

if TYPE_CHECKING:
    from treetop.model import Model

FORM = "Write {id: text} or {id: {'name': ..., 'text': ...}}."


def key_of(key: object) -> str:
    """A label as it is named: an id or a name."""
    if not isinstance(key, str):
        raise InputError(f"labels: expected ids or names as strings, got {type(key).__name__} ({key!r:.40}).")
    return key


def label_set_of(labels: object) -> LabelSet:
    """Labels from {id: text} or {id: {"name": ..., "text": ...}}."""
    if not isinstance(labels, Mapping):
        raise InputError(f"labels: expected a mapping or a LabelSet, got {type(labels).__name__}. {FORM}")
    rows = [(key_of(id_), *name_and_text(id_, value, plain="text")) for id_, value in labels.items()]
    texts = [text or "" for _, _, text in rows]
    return LabelSet.of([id_ for id_, _, _ in rows], [name or text or id_ for id_, name, text in rows], texts)


def name_and_text(id_: object, value: object, *, plain: str) -> tuple[str | None, str | None]:
    """(name, text) of an entry, None where missing; a plain string is the field named by `plain`."""
    fields = {plain: value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping) or fields.keys() - {"name", "text"}:
        raise LabelError(f"label '{id_}': {value!r:.60} is not a name or text. {FORM}", label=str(id_))
    for field, given in fields.items():
        if given is not None and (not isinstance(given, str) or not given.strip()):
            reason = f"label '{id_}': its {field} is empty or not a string. Give some text, or leave the label out."
            raise LabelError(reason, label=str(id_))
    return fields.get("name"), fields.get("text")


def _has_words(text: str) -> bool:
    """Whether anything in it can be seen; to an encoder, blanks and control characters are empty text."""
    return any(sign.isprintable() and not sign.isspace() for sign in text)


def check_new(model: Model, new: LabelSet, *, words: bool = True) -> None:
    """Refuse ids that are or were taken, and, where they are needed, labels without words."""
    if len(new) == 0:
        raise InputError("labels: none given. Name at least one label with an id and a text.")
    known = model.labels.columns
    for id_, name, text, status in zip(new.ids, new.names, new.texts, new.status, strict=True):
        reason = _refusal(model, known.get(id_), id_, retired=bool(status == RETIRED))
        if not reason and words and (not _has_words(text or name) or (not text.strip() and name == id_)):
            reason = "no text. A new label is found by its words; give it a text or a name."
        if reason:
            raise LabelError(f"label '{id_}': {reason}", label=id_)


def _refusal(model: Model, column: int | None, id_: str, *, retired: bool) -> str:
    """Why an id cannot be added, and what to do; nothing where it can."""
    if not id_.strip():
        return "an id must not be empty. Give every label one."
    if retired:
        return "is marked as retired. Leave it out, or add it and then retire it."
    if column is not None and model.labels.status[column] == RETIRED:
        return "was retired, and ids are never reused. Restore it instead (`treetop labels restore`)."
    if column is not None:
        return (
            "is known already, and a new label needs an id of its own. Leave it out, or rename it to change its name "
            "or text (`treetop labels rename`)."
        )
    return ""
