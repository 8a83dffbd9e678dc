"""Files of the Extreme Classification repository: the old single file and the new split files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError
from treetop.core.log import logger
from treetop.data.format import Format, Head, Source, Split, Writing
from treetop.data.parse.lines import lines, writer
from treetop.data.parse.numbered import (
    FILTERS,
    SHORT,
    body,
    existing,
    filter_pairs,
    format_pairs,
    is_plain,
    line_labels,
    number_ids,
    parse_pairs,
    read_header,
    weights,
    write_filters,
    write_label_lines,
)
from treetop.data.parse.rows import Reading, Row

# --- old: one file, header "rows features labels", then "l1,l2 f:v f:v"


def sniff_old(head: Head) -> bool:
    """Whether the first line is three whole numbers."""
    return re.fullmatch(r"\s*[0-9]+\s+[0-9]+\s+[0-9]+\s*", head.line) is not None


def rows_old(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of an old file; an empty label field (a line that starts with a blank) is a row without labels."""
    promised, _, _ = read_header(file, 3)
    for number, line in body(file, promised, reading.problem):
        first, _, rest = line.partition(" ")
        if ":" in first:  # no label field at all
            first, rest = "", line
        try:
            yield Row(number, "", _numbers(first), features={"given": parse_pairs(rest, reading.one_based)})
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=number))


def _numbers(field: str) -> list[int]:
    try:
        if not is_plain(field):
            raise ValueError
        return [int(label) for label in field.split(",")] if field else []
    except ValueError:
        raise ValueError(f"labels '{field[:40]}' are not whole numbers separated by commas, such as 3,17.") from None


def write_old(writing: Writing) -> None:
    """Write train.txt and test.txt, each with the header "rows features labels"."""
    for split, data in writing.splits.items():
        X, Y = data.features.get("given"), data.Y
        with writer(writing.file(f"{split}.txt")) as out:
            out.write(f"{len(data)} {0 if X is None else X.shape[1]} {data.n_labels}\n")
            for i in range(len(data)):
                labels = ",".join(map(str, Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()))
                out.write(f"{labels} {_sparse_line(X, i)}".rstrip("\n") + "\n")


def _sparse_line(X: Any, i: int) -> str:
    if X is None:
        return ""
    span = slice(X.indptr[i], X.indptr[i + 1])
    return format_pairs(X.indices[span], X.data[span])


OLD = Format(
    "xc_old",
    frozenset({"features", "unused"}),
    write_old,
    sniff=sniff_old,
    rows=rows_old,
    file_labels=lambda file, reading: number_ids(read_header(file, 3)[2]),
    file_widths=lambda file, reading: {"given": read_header(file, 3)[1]},
)

# --- new: trn_X_Xf.txt "rows features", trn_X_Y.txt "rows labels"; texts as trn_X.txt, label texts as Y.txt


def find_new(folder: Path) -> Source | None:
    """A folder with trn_X_Y.txt (or tst_X_Y.txt)."""
    targets = {split: existing(folder, f"{short}_X_Y.txt") for split, short in SHORT.items()}
    present = {split: file for split, file in targets.items() if file is not None}
    if not present:
        return None
    first_targets = next(iter(present.values()))
    features = {split: existing(folder, f"{SHORT[split]}_X_Xf.txt") for split in present}
    first_features = next((file for file in features.values() if file is not None), None)
    return Source(
        "xc",
        folder.name,
        {split: _split(folder, split, file, features[split]) for split, file in present.items()},
        labels=lambda reading: _labels_new(folder, first_targets, reading),
        numbered=True,
        widths=lambda reading: {} if first_features is None else {"given": read_header(first_features, 2)[1]},
        weights=True,
    )


def _split(folder: Path, split: str, targets: Path, features: Path | None) -> Split:
    texts = existing(folder, f"{SHORT[split]}_X.txt", f"raw/{SHORT[split]}_X.txt", f"{SHORT[split]}.raw.txt")
    pairs = existing(folder, *FILTERS[split])
    if features is None and texts is None:
        wanted = f"{SHORT[split]}_X_Xf.txt or {SHORT[split]}_X.txt"
        raise DataError(f"there is no {wanted} next to it. Add the features or the texts.", file=targets)
    return Split(
        targets,
        lambda reading: rows_new(targets, features, texts, reading),
        None if pairs is None else filter_pairs(pairs),
        pairs,
    )


def _labels_new(folder: Path, targets: Path, reading: Reading) -> LabelSet:
    count = read_header(targets, 2)[1]
    file = existing(folder, "Y.txt", "raw/Y.txt", "lbl_X.txt", "Yf.txt")
    if file is None:
        return number_ids(count)
    first = next(lines(file), (1, ""))[1]
    if re.fullmatch(rf"{count} [0-9]+", first.strip()):
        logger.info("%s: holds label features, not texts; not used", file)
        return number_ids(count)
    return line_labels(file, count, reading)


def rows_new(targets: Path, features: Path | None, texts: Path | None, reading: Reading) -> Iterator[Row]:
    """Rows of one split, read from its files in parallel; all must have as many rows as the targets' header says."""
    promised = read_header(targets, 2)[0]
    if features is not None and (other := read_header(features, 2)[0]) != promised:
        sentence = f"the header promises {other:,} rows, that of {targets.name} {promised:,}. They must agree."
        raise DataError(sentence, file=features, line=1)
    empty: Iterator[tuple[int, str]] = iter(())
    x_rows = empty if features is None else body(features, promised, reading.problem)
    text_rows = empty if texts is None else lines(texts, reading.problem)
    for y_row, x_row, text in zip_longest(body(targets, promised, reading.problem), x_rows, text_rows):
        if texts is not None and (text is None or (y_row is None and x_row is None)):
            sentence = f"{'fewer' if text is None else 'more'} texts than the {promised:,} rows of {targets.name}."
            raise DataError(
                sentence + " One line per row is needed.", file=texts, line=None if text is None else text[0]
            )
        if y_row is None or (features is not None and x_row is None):
            return  # `body` has reported that rows are missing
        file, number = targets, y_row[0]
        try:
            labels, values = parse_pairs(y_row[1])
            file, number = (features or targets), (x_row or y_row)[0]
            X = None if x_row is None else {"given": parse_pairs(x_row[1], reading.one_based)}
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=number))
            continue
        relevance = None if (values == 1).all() else values.tolist()
        yield Row(y_row[0], text[1] if text else "", labels.tolist(), relevance=relevance, features=X)


def write_new(writing: Writing) -> None:
    """Write trn_X_Xf.txt and trn_X_Y.txt (and tst_*), and texts, label texts and filter files if there are any."""
    for split, data in writing.splits.items():
        short, Y, X = SHORT[split], data.Y, data.features.get("given")
        values = weights(data, writing.lossy)
        with writer(writing.file(f"{short}_X_Y.txt")) as out:
            out.write(f"{len(data)} {data.n_labels}\n")
            for i in range(len(data)):
                span = slice(Y.indptr[i], Y.indptr[i + 1])
                out.write(format_pairs(Y.indices[span], values[span]) + "\n")
        if X is not None:
            with writer(writing.file(f"{short}_X_Xf.txt")) as out:
                out.write(f"{len(data)} {X.shape[1]}\n")
                out.writelines(_sparse_line(X, i) + "\n" for i in range(len(data)))
        if X is None or any(data.texts.lengths()):
            with writer(writing.file(f"{short}_X.txt")) as out:
                out.writelines(writing.one_line(text, i) + "\n" for i, text in enumerate(data.texts))
    write_label_lines(writing, "Y.txt")
    write_filters(writing)


NEW_HOLDS = frozenset({"texts", "features", "soft", "relevance", "filter", "label texts", "unused"})
NEW = Format("xc", NEW_HOLDS, write_new, find=find_new)
