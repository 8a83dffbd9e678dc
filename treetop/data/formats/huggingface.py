"""Hugging Face data sets: a `save_to_disk` folder (its Arrow files, without the `datasets` package) or the object."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from treetop.core.errors import DataError, extra
from treetop.data.format import SPLITS, Format, Source, Split, Writing
from treetop.data.formats.jsonl import row_records
from treetop.data.formats.table import arrow_schema
from treetop.data.parse.arrow import batch_records
from treetop.data.parse.fields import to_row
from treetop.data.parse.json_text import read_object
from treetop.data.parse.rows import Reading, Row, each_row
from treetop.data.parse.surrogates import has_lone

BATCH = 8192


def find(folder: Path) -> Source | None:
    """A folder of `DatasetDict.save_to_disk` or `Dataset.save_to_disk`."""
    if (folder / "dataset_dict.json").is_file():
        names = _json(folder / "dataset_dict.json").get("splits", [])
        if not isinstance(names, list) or not all(_is_plain(name) for name in names):
            raise DataError("expected a list of splits. Save the data set again.", file=folder / "dataset_dict.json")
        splits = {SPLITS.get(str(name), str(name)): _folder_split(folder / name) for name in names}
        return Source("huggingface", folder.name, splits)
    if (folder / "state.json").is_file():
        return Source("huggingface", folder.name, dict.fromkeys(("train", "test", "valid"), _folder_split(folder)))
    return None


def _is_plain(name: Any) -> bool:
    """Whether a name is a plain file or folder name in the same folder."""
    if not isinstance(name, str) or has_lone(name) or "\0" in name:
        return False
    return name == Path(name).name and name not in ("", "..") and len(os.fsencode(name)) <= 255


def _json(file: Path) -> dict[str, Any]:
    try:
        return read_object(file)
    except ValueError as error:
        raise DataError(f"cannot be read as JSON ({error}). Save the data set again.", file=file) from None


def _folder_split(folder: Path) -> Split:
    def rows(reading: Reading) -> Iterator[Row]:
        names = _folder_class_names(folder / "dataset_info.json")
        records = (record for file in _data_files(folder / "state.json") for record in _arrow_records(file))
        yield from _to_rows(records, names, folder, reading)

    return Split(folder, rows)


def _data_files(state: Path) -> list[Path]:
    """The Arrow files a state file lists, which are next to it."""
    entries = _json(state).get("_data_files", [])
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in _as_list(entries)]
    if not isinstance(entries, list) or not all(isinstance(name, str) and _is_plain(Path(name).name) for name in names):
        sentence = 'expected "_data_files": [{"filename": "data-00000-of-00001.arrow"}]. Save the data set again.'
        raise DataError(sentence, file=state)
    return [state.parent / Path(str(name)).name for name in names]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _folder_class_names(info: Path) -> list[str] | None:
    """Names behind the numbers of a ClassLabel column, where the info file has them."""
    if not info.is_file():
        return None
    names = _class_names(_part(_part(_json(info), "features"), "labels"))
    if names is not None and not all(isinstance(name, str) for name in names):
        raise DataError("a ClassLabel name is not a string. Save the data set again.", file=info)
    return names


def _arrow_records(file: Path) -> Iterator[dict[str, Any]]:
    def batches(pyarrow: Any) -> Iterator[Any]:
        with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as stream:
            yield from stream

    return (record for _, record in batch_records(batches, file, "Arrow", "Save the data set again."))


def _class_names(feature: Any) -> list[str] | None:
    """Names behind the numbers of a ClassLabel column, given as JSON or as the object."""
    for part in (feature, _part(feature, "feature")):
        names = _part(part, "names")
        if names and isinstance(names, list | tuple):
            return list(names)
    return None


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _to_rows(
    records: Iterator[dict[str, Any]], names: list[str] | None, file: object, reading: Reading
) -> Iterator[Row]:
    def make(number: int, record: Any, reading: Reading) -> Row:
        if names and isinstance(record.get("labels"), list):
            record["labels"] = [_class_name(names, label) for label in record["labels"]]
        return to_row(number, record, reading)

    return each_row(enumerate(records, 1), make, file, reading)


def _class_name(names: list[str], label: Any) -> Any:
    if type(label) is int and not 0 <= label < len(names):
        raise ValueError(f"label {label} is out of range. Allowed: 0 to {len(names) - 1}, the ClassLabel names.")
    return names[label] if type(label) is int else label


def from_object(value: Any) -> Source | None:
    """A Dataset or DatasetDict object; None for anything else."""
    if isinstance(value, Mapping) and value and all(map(_is_dataset, value.values())):
        splits = {SPLITS.get(str(name), str(name)): _object_split(part) for name, part in value.items()}
        return Source("huggingface", "data", splits)
    if _is_dataset(value):
        return Source("huggingface", "data", dict.fromkeys(("train", "test", "valid"), _object_split(value)))
    return None


def _is_dataset(value: Any) -> bool:
    return hasattr(value, "column_names") and hasattr(value, "features") and hasattr(value, "__iter__")


def _object_split(value: Any) -> Split:
    def rows(reading: Reading) -> Iterator[Row]:
        names = _class_names((value.features or {}).get("labels"))
        yield from _to_rows(map(dict, value), names, "Dataset", reading)

    return Split("Dataset", rows)


def write(writing: Writing) -> None:
    """What `datasets.load_from_disk` reads: a folder per split with one Arrow file."""
    pyarrow = extra("pyarrow", "data")
    for split, data in writing.splits.items():
        folder = writing.folder / split
        folder.mkdir()
        schema = arrow_schema(pyarrow, next(row_records(data), {"text": "", "labels": []}))
        file = folder / "data-00000-of-00001.arrow"
        with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as out:
            records = row_records(data)
            while part := list(islice(records, BATCH)):
                out.write_batch(pyarrow.RecordBatch.from_pylist(part, schema=schema))
        state: dict[str, Any] = {
            "_data_files": [{"filename": file.name}],
            "_fingerprint": hashlib.sha256(file.read_bytes()).hexdigest()[:16],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": split,
        }
        _dump(folder / "state.json", state)
        _dump(folder / "dataset_info.json", {"features": {field.name: _feature(field) for field in schema}})
    _dump(writing.folder / "dataset_dict.json", {"splits": list(writing.splits)})


def _feature(field: Any) -> dict[str, Any]:
    if str(field.type).startswith("list"):
        kind = "string" if field.name == "labels" else "float32"
        return {"feature": {"dtype": kind, "_type": "Value"}, "_type": "Sequence"}
    return {"dtype": "string", "_type": "Value"}


def _dump(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


HOLDS = frozenset({"texts", "ids", "soft", "relevance", "roles", "label ids"})
FORMAT = Format("huggingface", HOLDS, write, find=find)
