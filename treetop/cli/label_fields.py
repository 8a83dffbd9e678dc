"""Rows of a file of labels, by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treetop.core.errors import DataError


def fields_of(file: Path, names: tuple[str, ...], *, needed: bool = False) -> dict[str, tuple[int, dict[str, Any]]]:
    """{id: (line, fields)} of a file of labels, each id once."""
    from treetop.data.label_files import label_rows

    by_id: dict[str, tuple[int, dict[str, Any]]] = {}
    for line, record in label_rows(file):
        id_ = record.get("id")
        id_ = str(id_) if type(id_) is int else id_
        if not isinstance(id_, str) or not id_:
            fields = ", ".join(map(str, record)) or "nothing"
            raise DataError(f"a row needs an 'id' that is a string (found: {fields}). Add it.", file=file, line=line)
        if id_ in by_id:
            what = f"label '{id_}' appears twice (first in line {by_id[id_][0]}). Name each label once."
            raise DataError(what, file=file, line=line)
        by_id[id_] = (line, {name: record[name] for name in names if record.get(name) is not None})
        if needed and len(by_id[id_][1]) < len(names):
            raise DataError(f"label '{id_}' has no {' or '.join(map(repr, names))}. Add it.", file=file, line=line)
    if not by_id:
        raise DataError("contains no labels. Give one label per row, with 'id'.", file=file)
    return by_id
