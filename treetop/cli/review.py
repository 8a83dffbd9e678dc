"""`treetop labels review`: feedback on suggested labels."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.streams import json_line, note
from treetop.core.errors import ConfigError, visible
from treetop.core.spreadsheet import plain_cell

FIELDS = ("id", "at", "model", "version", "verdict", "labels", "text")


def review(
    file: Annotated[Path, typer.Argument(metavar="FEEDBACK", help="File of `treetop serve --feedback`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Print feedback on suggested labels: id, time, verdict, labels, text; tab-separated, JSON lines or CSV."""
    from treetop.serve.feedback.store import read_feedback

    if as_json and as_csv:
        raise ConfigError("--json, --csv: each is a form of the answer. Give one of them.")
    entries = read_feedback(file)
    if as_json:
        for entry in entries:
            sys.stdout.write(json_line(asdict(entry)) + "\n")
        sys.stdout.flush()
        return
    table = csv.writer(sys.stdout) if as_csv else csv.writer(sys.stdout, "excel-tab", lineterminator="\n")
    table.writerow(FIELDS)
    for entry in entries:
        cells = (entry.at, entry.model, entry.version, entry.verdict, "|".join(entry.labels), entry.text)
        table.writerow((entry.id, *map(plain_cell if as_csv else _one_line, cells)))
    sys.stdout.flush()
    counts = Counter(entry.verdict for entry in entries)
    texts = len({entry.text for entry in entries})
    note(f"{len(entries):,} entries on {texts:,} texts: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))


def _one_line(text: str) -> str:
    """Text on one line, without terminal control sequences."""
    return visible(" ".join(text.split()))
