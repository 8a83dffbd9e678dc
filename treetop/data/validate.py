"""All bad rows of a data set, instead of only the first."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from treetop.core.errors import DataError, TreetopError
from treetop.data import catalog
from treetop.data.parse.space import alike, alike_sentence
from treetop.data.read import Reader, find, reading, source_splits
from treetop.data.scripts import writing


@dataclass
class Report:
    """What `validate` found: rows per split, the first problems in words, how many there are, and what is only odd."""

    path: str
    format: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    count: int = 0
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)  # readable, but plainly not what was meant

    @property
    def good(self) -> bool:
        return self.count == 0 and not self.doubts


def validate(path: Any, *, limit: int = 100, strict: bool = False, **options: Any) -> Report:
    """Read everything and list what is wrong, at most `limit` sentences; `count` is the whole number."""
    report = Report(str(path))

    def problem(error: DataError | TreetopError) -> None:
        report.count += 1
        if len(report.problems) < limit:
            report.problems.append(str(error))

    try:
        source = find(path)
        report.format = source.format
        if str(path) in catalog.bundled():
            catalog.check_bundled(str(path))
        reader = Reader(source, reading(source, strict=strict, problem=problem, doubt=report.doubts.append, **options))
    except TreetopError as error:  # nothing can be read without this
        problem(error)
        return report
    for name in source_splits(source):
        try:
            builder, _ = reader.fill(name)
        except TreetopError as error:
            problem(error)
            continue
        report.rows[name] = len(builder)
        report.notes += builder.oddities()
        if name == "train" and len(builder) and not builder.has_labels:
            report.doubts.append(
                f"{source.splits[name].file}: no row has a label, so nothing can be trained. Fill in labels, or name "
                "the column that has them with --label-column."
            )
        if not builder.has_features:
            report.notes += [f"{name}: {sentence}." for sentence in writing(builder.texts).sentences()]
    if not source.numbered and (groups := alike(reader.table.labels().ids)):
        report.notes.append(alike_sentence(report.path, groups))
    return report


def to_dict(report: Report) -> dict[str, Any]:
    """What `treetop data validate --json` prints."""
    return dataclasses.asdict(report) | {"good": report.good}
