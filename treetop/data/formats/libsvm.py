"""libsvm (svmlight) lines with several labels: "l1,l2 f:v f:v", no header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from treetop.core.errors import DataError
from treetop.data.format import Format, Head, Writing
from treetop.data.parse.lines import lines, writer
from treetop.data.parse.numbered import format_pairs, parse_pairs
from treetop.data.parse.rows import Reading, Row

PAIR = r"[0-9]+:[-+.0-9eEnNaAiIfF]+"


def sniff(head: Head) -> bool:
    """By extension, or by a first line that starts with labels and a pair."""
    if head.suffix in (".svm", ".libsvm", ".svmlight"):
        return True
    return re.match(rf"[^\s:]*\s+{PAIR}(\s+{PAIR})*\s*(#|$)", head.line[:1000].rsplit(" ", 1)[0]) is not None


def rows(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a libsvm file; labels are kept as they are written, feature ids too unless `one_based` shifts them."""
    for number, line in lines(file, reading.problem):
        line = line.partition("#")[0].rstrip()
        first, _, rest = line.partition(" ")
        if ":" in first:  # no label field
            first, rest = "", line
        labels = first.split(",") if first else []
        try:
            yield Row(number, "", labels, features={"given": parse_pairs(rest, reading.one_based)})
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=number))


def write(writing: Writing) -> None:
    """train.svm and test.svm."""
    ids = [writing.word(id_, " ,:#") for id_ in writing.labels.ids]
    for split, data in writing.splits.items():
        X, Y = data.features.get("given"), data.Y
        with writer(writing.file(f"{split}.svm")) as out:
            for i in range(len(data)):
                labels = ",".join(ids[column] for column in Y.indices[Y.indptr[i] : Y.indptr[i + 1]])
                span = slice(0, 0) if X is None else slice(X.indptr[i], X.indptr[i + 1])
                out.write(f"{labels} {'' if X is None else format_pairs(X.indices[span], X.data[span])}\n")


FORMAT = Format("libsvm", frozenset({"features", "label ids"}), write, sniff=sniff, rows=rows)
