"""Named fields of a record (JSON, CSV, Parquet, Arrow) become a Row; wrong ones become error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treetop.core.dataset import ROLES
from treetop.core.errors import did_you_mean
from treetop.data.parse.rows import Reading, Row, Sparse, listed, shown
from treetop.data.parse.surrogates import without_lone

KNOWN = ("text", "labels", "id", "targets", "relevance", "role", "features")
PLAIN = frozenset({"text", "labels"})


def to_row(line: int, record: Mapping[str, Any], reading: Reading) -> Row:
    """The row a record represents; ValueError says what is wrong with it."""
    text: Any = record.get("text")
    labels: Any = record.get(reading.label_field)
    if type(text) is str and type(labels) is list and record.keys() == PLAIN and not reading.fields:
        return Row(line, text, labels)
    if type(text) is not str or reading.fields:
        text = join_text(record, reading)
    targets = record.get("targets")
    if isinstance(labels, Mapping):  # {"cat": 1.0, "dog": 0.3}
        labels, targets = list(labels.keys()), list(labels.values())
    if not isinstance(labels, list):
        raise ValueError(_labels_sentence(record, reading.label_field))
    return Row(
        line,
        text,
        labels,
        targets=_numbers(targets, "targets"),
        relevance=_numbers(record.get("relevance"), "relevance"),
        id=id_of(record),
        role=_role(record.get("role")),
        features=_features(record.get("features")),
    )


def join_text(record: Mapping[str, Any], reading: Reading) -> str:
    """The chosen fields, else `text`, else title and content; joined by a blank."""
    names = reading.fields or (("text",) if "text" in record else reading.instead)
    parts = [record.get(name) for name in names]
    for name, part in zip(names, parts, strict=True):
        if part is not None and not isinstance(part, str):
            raise ValueError(f"field '{name}' is {kind(part)}, expected a string. Put the text in quotes.")
    if all(part is None for part in parts):
        raise ValueError(_text_sentence(record, names, reading))
    return " ".join(part for part in parts if part)


def kind(value: object) -> str:
    """The description of a value in messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)


def _text_sentence(record: Mapping[str, Any], names: Sequence[str], reading: Reading) -> str:
    for name in names:
        if name in record:
            return f"field '{name}' is null, expected a string. Write \"\" for an empty text."
    wanted, remedy = "text", "Name it 'text', or 'title' and 'content', or name yours with --text-column."
    if reading.fields:
        wanted, remedy = names[0], "Choose fields that rows have."
    near = did_you_mean(wanted, [str(key) for key in record])
    return f"field '{wanted}' is missing (found: {listed(record)}). {remedy}{near}"


def _labels_sentence(record: Mapping[str, Any], name: str) -> str:
    labels = record.get(name)
    if isinstance(labels, str):
        return f"field '{name}' is the string {labels[:40]!r}, expected a list. Write {_as_list(labels)}."
    if labels is None and name not in record:
        remedy = f'Add it, or name yours with --label-column; a row without labels has "{name}": [].'
        return f"field '{name}' is missing (found: {listed(record)}). {remedy}"
    return f'field \'{name}\' is {kind(labels)}, expected a list such as ["cat", "dog"]; [] for none.'


def _as_list(labels: str) -> str:
    pieces = [piece.strip() for piece in without_lone(labels[:40]).replace(";", ",").replace("|", ",").split(",")]
    return "[" + ", ".join(f'"{piece}"' for piece in pieces if piece) + "]"


def _numbers(values: Any, field: str) -> list[float] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise ValueError(f"field '{field}' is {kind(values)}, expected a list with one number per label.")
    return values


def id_of(record: Mapping[str, Any]) -> str | None:
    """The id of a document, where its record has one."""
    value = record.get("id", record.get("uid"))
    if value is None or type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise ValueError(f"field 'id' is {kind(value)}, expected a string.")


def _role(value: Any) -> int:
    if value is None:
        return 0
    if value not in ROLES:
        raise ValueError(f"field 'role' is {shown(value)}. Choose one of {', '.join(ROLES)}.")
    return ROLES.index(value)


def _features(value: Any) -> dict[str, Sparse] | None:
    if value is None:
        return None
    try:
        if all(_are(int, p) and _are(float, v) and len(p) == len(v) for p, v in value.values()):
            return {name: (np.array(p, np.int64), np.array(v, np.float32)) for name, (p, v) in value.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        pass
    raise ValueError("field 'features' must look like {\"given\": [[3, 7], [0.5, 1.0]]}: columns and their values.")


def _are(kind: type, values: Any) -> bool:
    """Whether these are a list of whole numbers (int) or of numbers (float)."""
    return isinstance(values, list) and {*map(type, values)} <= ({int} if kind is int else {int, float})
