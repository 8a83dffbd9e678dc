"""`treetop predict`: texts in, JSON lines out; works in a pipe and in shards."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeAlias

import typer

from treetop.cli.data import Device, Fast, TextColumn
from treetop.cli.streams import json_line, note
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from treetop.data.inputs import Input

# Networks batch texts by length inside a chunk, so shards that began at chunks would keep every bit. They would share
# unevenly, though (of 36,000 texts the longest of 8 had 8,192, not 4,500), and smaller chunks leave cores idle.
CHUNK = 4096
LETTERS = 2**28  # of texts in a chunk, so that very long ones do not fill the memory
Answer: TypeAlias = "tuple[Input, dict[str, Any]]"
TABLES = {".csv": ",", ".tsv": "\t"}  # suffixes of --out that give a table, and their delimiters
OUT = "File to write instead of standard output; .csv or .tsv: a table with each text, labels separated by |."
THRESHOLD = "Print only labels with at least this probability (needs a calibrated model)."
PRECISION = "Lowest threshold that reached this precision on held-out documents, such as 0.9."
RECALL = "Highest threshold that is expected to keep this share of a text's true labels, such as 0.8."
BEST_F1 = "Only labels above the threshold at which F1 was highest on held-out documents."
SHARD = "Part i of n of the input, such as 2/8; the last digits of a network's scores may differ from a run without."


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    source: Annotated[str, typer.Argument(metavar="[INPUT|-]", help="JSONL, CSV, Parquet or one text per line.")] = "-",
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Labels per text. Default: 5; with --recall or --best-f1: 100.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1, help=THRESHOLD)] = None,
    precision: Annotated[float | None, typer.Option(help=PRECISION)] = None,
    recall: Annotated[float | None, typer.Option(help=RECALL)] = None,
    best_f1: Annotated[bool, typer.Option("--best-f1", help=BEST_F1)] = False,
    text_column: TextColumn = None,
    shard: Annotated[str, typer.Option(help=SHARD)] = "1/1",
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    device: Device = "auto",
    fast: Fast = False,
) -> None:
    """Rank labels for texts: for each text, in input order, a JSON line with label ids, names, scores, probabilities.

    If texts have an `id`, the line starts with it. A text without any known word is marked "unknown": true; its
    probabilities are the label frequencies in training, and with --threshold, --precision, --recall or --best-f1 it
    gets no labels.
    """
    if sum(value is not None for value in (threshold, precision, recall, best_f1 or None)) > 1:
        raise ConfigError(
            "--threshold, --precision, --recall, --best-f1: each sets the lowest probability. Give one of them."
        )
    if out is not None:
        _check_out(out, source, overwrite=overwrite)
    from treetop.core.target import replacing_file
    from treetop.data.inputs import read_inputs
    from treetop.kernels.runtime import threads as pool
    from treetop.model import load

    texts = read_inputs(source, shard, text_column)
    opened = load(model, device=device, fast=fast)
    lowest = _lowest(opened, threshold, precision, recall, best_f1)
    most = k or (100 if best_f1 or recall is not None else 5)
    with pool.limited(threads):
        seen: Counter[str] = Counter()
        answers = _counted((a for chunk in _chunks(texts) for a in _answers(opened, chunk, most, lowest)), seen)
        if out is None:
            _write_lines(sys.stdout, answers)
            sys.stdout.flush()
        else:
            with replacing_file(out) as target:
                if out.suffix in TABLES:
                    _write_table(target, answers, TABLES[out.suffix])
                else:
                    _write_lines(target, answers)
    if seen["unknown"]:
        note(f"{seen['unknown']:,} of {seen['all']:,} texts have no word the model knows")


def _check_out(out: Path, source: str, *, overwrite: bool) -> None:
    """Refuse a place that cannot or should not be written, before any work is done."""
    from treetop.core.target import check_new_file

    if out.is_dir() or not out.name:
        raise ConfigError(f"--out {out}: is a folder. Give the name of a file to write.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}. Create it first.")
    if source != "-" and out.exists() and Path(source).exists() and out.samefile(source):
        raise ConfigError(f"--out {out}: is the file the texts are read from. Give another name.")
    check_new_file(out, overwrite=overwrite)


def _chunks(texts: Iterator[Input]) -> Iterator[list[Input]]:
    """Full chunks from files; the last, incomplete chunk of a pipe is answered at its end."""
    chunk: list[Input] = []
    letters = 0
    for text in texts:
        chunk.append(text)
        letters += len(text.text)
        if len(chunk) == CHUNK or letters > LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _lowest(
    model: Any, threshold: float | None, precision: float | None, recall: float | None, best_f1: bool
) -> float | None:
    """The lowest probability to print; None: whatever it is."""
    from treetop.model import UNCALIBRATED

    if threshold is None and precision is None and recall is None and not best_f1:
        return None
    if model.calibration is None:
        raise ConfigError(UNCALIBRATED)
    if recall is not None:
        return float(model.calibration.threshold_for_recall(recall))
    if best_f1:
        return float(model.calibration.threshold_for_f1())
    if precision is None:
        return threshold
    found: float | None = model.calibration.threshold_for_precision(precision)
    if found is None:
        note(f"no labels: the model reached a precision of {precision:g} at no threshold on held-out documents")
        return math.inf
    return found


def _answers(model: Any, inputs: list[Input], k: int, lowest: float | None) -> Iterator[Answer]:
    texts = [given.text for given in inputs]
    rows, unknown = model.predict_known(texts, k, lowest)
    for given, row, nothing in zip(inputs, rows, unknown.tolist(), strict=True):
        answer = {
            "ids": [label.id for label in row],
            "labels": [label.name for label in row],
            "scores": [label.score for label in row],
            "probabilities": [label.probability for label in row],
        }
        yield given, {**answer, "unknown": True} if nothing else answer


def _counted(answers: Iterable[Answer], seen: Counter[str]) -> Iterator[Answer]:
    """The same answers; `seen` counts them all, and those to texts of which the model knows nothing."""
    for given, answer in answers:
        seen["all"] += 1
        seen["unknown"] += "unknown" in answer
        yield given, answer


def _write_lines(target: TextIO, answers: Iterable[Answer]) -> None:
    for given, answer in answers:
        named = {} if given.id is None else {"id": given.id}
        target.write(json_line({**named, **answer}) + "\n")


def _write_table(target: TextIO, answers: Iterable[Answer], mark: str) -> None:
    """Id (empty where there is none), text, ids, labels, scores and probabilities, lists as CSV data have them.

    Texts and names are shown by a spreadsheet as they are; ids are for programs and never changed.
    """
    import csv

    from treetop.core.spreadsheet import plain_cell
    from treetop.data.formats.table import joined

    table = csv.writer(target, delimiter=mark)
    table.writerow(("id", "text", "ids", "labels", "scores", "probabilities"))
    for given, answer in answers:
        ids, names, scores = (joined(answer[column]) for column in ("ids", "labels", "scores"))
        sure = joined([p for p in answer["probabilities"] if p is not None])
        table.writerow((given.id or "", plain_cell(given.text), ids, plain_cell(names), scores, sure))
