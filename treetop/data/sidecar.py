"""Files next to the rows in a plain folder: labels, filter pairs and facts about the data set."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.dataset import ACTIVE, RETIRED, LabelSet
from treetop.core.errors import DataError, InputError
from treetop.core.language import stemmed_language
from treetop.core.texts import Texts
from treetop.core.thesaurus import Thesaurus
from treetop.data.format import SPLITS, Writing
from treetop.data.parse.cells import cell_records
from treetop.data.parse.fields import kind
from treetop.data.parse.json_text import LABEL, json_lines, read_object
from treetop.data.parse.lines import writer
from treetop.data.parse.numbered import LARGEST
from treetop.data.parse.rows import Reading, listed, shown
from treetop.data.parse.sheets import named_cells
from treetop.data.parse.surrogates import whole

STATUS = ("active", "retired")
LISTS = ("alt", "broader", "related")  # other names of a label, and ids of labels
NOTHING: dict[str, list[str]] = {}
FACTS = "dataset.json"
PAIR = '{"split": "test", "row": 0, "label": "dog"}'
Record = Mapping[str, Any]


def label_set(file: object, records: Iterator[tuple[int, Record]], reading: Reading) -> LabelSet:
    """Labels from records with `id`, and where they have them `name`, `text`, `status`, `alt`, `broader`, `related`."""
    ids: dict[str, int] = {}
    names: list[str] = []
    texts: list[str] = []
    status: list[int] = []
    more: dict[str, list[tuple[int, list[str]]]] = {key: [] for key in LISTS}
    for line, record in records:
        try:
            id_, name, text, state = _label(record)
            lists = {key: _strings(record[key], key, id_) for key in LISTS if record.get(key)}
            if id_ in ids:
                raise ValueError(
                    f"label id {shown(id_)} appears twice (first in line {ids[id_]}). Give each label its own id."
                )
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=line))
            continue
        for key, strings in lists.items():
            more[key].append((len(ids), strings))
        ids[id_] = line
        names.append(name)
        texts.append(text)
        status.append(state)
    thesaurus = Thesaurus.of({id_: column for column, id_ in enumerate(ids)}, *more.values())
    return LabelSet(Texts.of(ids), Texts.of(names), Texts.of(texts), np.array(status, np.uint8), thesaurus)


def _strings(value: Any, key: str, id_: str) -> list[str]:
    """A list of strings of a label; a cell of a table has them between bars."""
    items = value.split("|") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"field '{key}' of label {shown(id_)} is {kind(value)}, expected a list of strings.")
    return [whole(item, f"'{key}' of label {shown(id_)}") for item in items]


def _label(record: Record) -> tuple[str, str, str, int]:
    id_ = record.get("id", record.get("uid"))
    if type(id_) is int:
        id_ = str(id_)
    if not isinstance(id_, str) or not id_:
        raise ValueError(f"a label needs an 'id' that is a string (found: {listed(record)}). Add it.")
    id_ = whole(id_, "the label id")
    text, name = record.get("text") or "", record.get("name")
    for field, value in (("text", text), ("name", name)):
        if value is not None and not isinstance(value, str):
            raise ValueError(f"field '{field}' of label {shown(id_)} is {kind(value)}, expected a string.")
    name = None if name is None else whole(name, f"the name of label {shown(id_)}")
    state = record.get("status") or "active"
    if state not in STATUS:
        raise ValueError(f"status of label {shown(id_)} is {shown(state)}. Choose one of {', '.join(STATUS)}.")
    return id_, text or id_ if name is None else name, text, STATUS.index(state)


def label_records(labels: LabelSet) -> Iterator[dict[str, Any]]:
    """Labels as records; what is not the default is included."""
    more = repeat(NOTHING) if labels.thesaurus is None else labels.thesaurus.by_label(labels.ids)
    fields = zip(labels.ids, labels.names, labels.texts, labels.status, strict=True)
    for (id_, name, text, status), lists in zip(fields, more, strict=False):
        record: dict[str, Any] = {"id": id_, "text": text, **lists}
        if name != (text or id_):
            record["name"] = name
        if status != ACTIVE:
            record["status"] = STATUS[RETIRED]
        yield record


def read_labels(file: Path, reading: Reading) -> LabelSet:
    """The labels file of a plain folder: JSON lines, or CSV/TSV with an `id` column."""
    return label_set(file, json_lines(file, reading.problem, LABEL), reading)


def read_label_table(file: Path, reading: Reading) -> LabelSet:
    """Labels from CSV or TSV with a header that names `id`, and `name`, `text`, `status` where there are any."""
    return label_set(file, label_cells(file, reading), reading)


def label_cells(file: Path, reading: Reading) -> Iterator[tuple[int, Record]]:
    """(line, record) of each row of such a table; empty cells are left out."""
    for line, cells in named_cells(file, dataclasses.replace(reading, sheet=None), _no_id, short=True):
        yield line, {key: cell for key, cell in cells.items() if cell}


def _no_id(header: list[str]) -> str:
    return "" if "id" in header else f"the header has no column 'id' (found: {listed(header)}). Add it."


def write_labels(writing: Writing) -> None:
    """labels.jsonl"""
    with writer(writing.file("labels.jsonl")) as out:
        for record in label_records(writing.labels):
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


def filter_reader(file: Path, split: str) -> Callable[[Reading], Iterator[tuple[int, int, str]]]:
    """Pairs of one split from filter.jsonl, .csv or .tsv: one {"split", "row", "label"} per line."""

    def pairs(reading: Reading) -> Iterator[tuple[int, int, str]]:
        for line, record in _pair_records(file, reading):
            where, row, label = record.get("split"), record.get("row"), record.get("label")
            if not isinstance(where, str) or type(row) is not int or not isinstance(label, str):
                sentence = 'a filter pair needs "split", "row" (a number) and "label"; fix the line.'
                reading.problem(DataError(sentence, file=file, line=line))
            elif where not in SPLITS:
                sentence = f"a filter pair of the unknown split {shown(where)}. Choose one of train, valid, test."
                reading.problem(DataError(sentence, file=file, line=line))
            elif SPLITS[where] == split:
                yield line, row, label

    return pairs


def _pair_records(file: Path, reading: Reading) -> Iterator[tuple[int, Record]]:
    if not {".csv", ".tsv"} & {suffix.lower() for suffix in file.suffixes}:
        yield from json_lines(file, reading.problem, PAIR)
        return
    for line, cells in cell_records(file, reading, _no_pair):
        row = cells["row"].strip()
        yield line, cells | {"row": int(row) if row.isascii() and row.isdigit() and len(row) < 19 else row}


def _no_pair(header: list[str]) -> str:
    if {"split", "row", "label"} <= {*header}:
        return ""
    return f"the header needs the columns 'split', 'row' and 'label' (found: {listed(header)})."


def write_filter(writing: Writing) -> None:
    """filter.jsonl, where there are pairs"""
    if not any(data.filter_pairs is not None and len(data.filter_pairs) for data in writing.splits.values()):
        return
    ids = list(writing.labels.ids)
    with writer(writing.file("filter.jsonl")) as out:
        for split, data in writing.splits.items():
            for row, column in [] if data.filter_pairs is None else data.filter_pairs.tolist():
                out.write(json.dumps({"split": split, "row": row, "label": ids[column]}, ensure_ascii=False) + "\n")


def read_facts(folder: Path) -> dict[str, Any]:
    """What dataset.json says about the set: propensity, widths of features, language; empty without the file."""
    file = folder / FACTS
    if not file.is_file():
        return {}
    try:
        facts = read_object(file)
    except ValueError as error:
        raise DataError(f"cannot be read as JSON ({error}). Fix or remove it.", file=file) from None
    pair, widths = facts.get("propensity"), facts.get("features", {})
    language = facts.get("language", "")
    if isinstance(language, str):
        try:
            stemmed_language(language)
        except InputError as error:
            raise DataError(str(error), file=file) from None
        if (pair is None or _is_pair(pair)) and isinstance(widths, dict) and all(map(_is_width, widths.values())):
            return facts
    expected = '{"propensity": [0.55, 1.5], "features": {"given": 5000}, "language": "fi"}'
    raise DataError(f"expected {expected}, all optional.", file=file)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(x) in (int, float) and 0 <= x < 1e6 for x in value)


def _is_width(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def write_facts(writing: Writing) -> None:
    """dataset.json"""
    data = next(iter(writing.splits.values()))
    facts = {"propensity": list(data.propensity), "features": {name: X.shape[1] for name, X in data.features.items()}}
    facts |= {"language": data.language}
    text = json.dumps({key: value for key, value in facts.items() if value}, indent=2)
    (writing.folder / FACTS).write_text(text + "\n", encoding="utf-8")
