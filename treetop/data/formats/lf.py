"""Raw label-feature sets: trn.json.gz, tst.json.gz and lbl.json.gz, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError
from treetop.core.log import logger
from treetop.data.format import Format, Head, Source, Split, Writing
from treetop.data.parse.fields import join_text, kind
from treetop.data.parse.json_text import json_lines
from treetop.data.parse.lines import writer
from treetop.data.parse.numbered import FILTERS, SHORT, existing, filter_pairs, weights, write_filters
from treetop.data.parse.rows import Reading, Row, each_row
from treetop.data.parse.surrogates import whole


def find(folder: Path) -> Source | None:
    """A folder with trn.json(.gz) or tst.json(.gz)."""
    there = {split: file for split, short in SHORT.items() if (file := existing(folder, f"{short}.json")) is not None}
    if not there:
        return None
    labels = existing(folder, "lbl.json")
    if labels is None:
        raise DataError("there is no lbl.json.gz, which says what the label numbers mean. Add it.", file=folder)
    splits = {}
    for split, file in there.items():
        pairs = existing(folder, *FILTERS[split])
        splits[split] = Split(file, _rows(file), None if pairs is None else filter_pairs(pairs), pairs)
    return Source("lf", folder.name, splits, labels=lambda r: read_labels(labels, r), numbered=True, weights=True)


def sniff(head: Head) -> bool:
    """A JSON line with target_ind: belongs to a folder, since lbl.json says what the numbers mean."""
    return head.line.startswith("{") and '"target_ind"' in head.line


def read_labels(file: Path, reading: Reading) -> LabelSet:
    """One label per line, in column order; ids are the uids if they exist and are unique."""
    uids, texts = [], []
    for number, record in json_lines(file, reading.problem):
        uid, text = record.get("uid"), ""
        try:
            uid = whole(uid, "the uid") if type(uid) is str else uid
            text = _text(record, reading)
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=number))
        uids.append(uid)
        texts.append(text)
    numbers = [str(column) for column in range(len(texts))]
    usable = all(type(uid) in (str, int) and uid != "" for uid in uids) and len(set(map(str, uids))) == len(uids)
    if not usable:
        logger.info("%s: uids are missing or not unique; label ids are the line numbers from 0", file)
    return LabelSet.of([str(uid) for uid in uids] if usable else numbers, texts=texts)


def _text(record: Any, reading: Reading) -> str:
    return "" if not any(key in record for key in ("text", *reading.names)) else join_text(record, reading)


def _rows(file: Path) -> Any:
    def rows(reading: Reading) -> Iterator[Row]:
        return each_row(json_lines(file, reading.problem), _row, file, reading)

    return rows


def _row(number: int, record: Any, reading: Reading) -> Row:
    labels, values = record.get("target_ind"), record.get("target_rel")
    if not isinstance(labels, list) or any(type(label) is not int for label in labels):
        raise ValueError("field 'target_ind' must be a list of whole numbers, the lines of lbl.json from 0.")
    if values is not None and not isinstance(values, list):
        raise ValueError(f"field 'target_rel' is {kind(values)}, expected a list with one number per label.")
    if (
        values is not None
        and all(type(value) in (int, float) and value == 1 for value in values)
        and len(values) == len(labels)
    ):
        values = None
    uid = record.get("uid")
    if uid is not None and type(uid) not in (str, int, float):
        raise ValueError(f"field 'uid' is {kind(uid)}, expected a string.")
    return Row(number, join_text(record, reading), labels, relevance=values, id=None if uid is None else str(uid))


def write(writing: Writing) -> None:
    """trn.json.gz, tst.json.gz, lbl.json.gz and filter files."""
    for split, data in writing.splits.items():
        Y, values = data.Y, weights(data, writing.lossy)
        with writer(writing.folder / f"{SHORT[split]}.json.gz") as out:
            for i, text in enumerate(data.texts):
                span = slice(Y.indptr[i], Y.indptr[i + 1])
                record: dict[str, Any] = {} if data.ids is None else {"uid": data.ids[i]}
                record |= {"title": text, "content": "", "target_ind": Y.indices[span].tolist()}
                out.write(json.dumps(record | {"target_rel": values[span].tolist()}, ensure_ascii=False) + "\n")
    with writer(writing.folder / "lbl.json.gz") as out:
        for id_, text in zip(writing.labels.ids, writing.labels.texts, strict=True):
            out.write(json.dumps({"uid": id_, "title": text}, ensure_ascii=False) + "\n")
    write_filters(writing)


HOLDS = frozenset({"texts", "ids", "soft", "relevance", "filter", "label ids", "label texts", "unused"})
FORMAT = Format("lf", HOLDS, write, find=find, sniff=sniff)
