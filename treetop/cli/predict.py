"""`treetop predict`: texts in, labels out; works in a pipe and in shards."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.answers import Answer, Form, write
from treetop.cli.data import Device, Fast
from treetop.cli.reading import BadRows, Sheet, SkipBad, SkippedFile, TextColumn
from treetop.cli.streams import note
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from treetop.data.inputs import Input

# Networks batch texts by length inside a chunk, so shards that began at chunks would keep every bit. They would share
# unevenly, though (of 36,000 texts the longest of 8 had 8,192, not 4,500), and smaller chunks leave cores idle.
CHUNK = 4096
LETTERS = 2**28  # of texts in a chunk, so that very long ones do not fill the memory
INPUT = "File (JSONL, CSV, TSV, Excel, Parquet, PDF, HTML, or one text per line) or folder of documents."
OUT = "File to write instead of standard output: JSON lines, or by its ending a table (.csv, .tsv) or .parquet."
LONG = "A row for each suggestion (row, id, rank, label_id, label, score, probability) instead of each text."
KEEP = "Column or field of the input to copy to the output; repeatable."
WHOLE = "A plain text file, or standard input, is one document instead of one text per line."
THRESHOLD = "Print only labels with at least this probability (needs a calibrated model)."
PRECISION = "Lowest threshold that reached this precision on held-out documents, such as 0.9."
RECALL = "Highest threshold that is expected to keep this share of a text's true labels, such as 0.8."
BEST_F1 = "Only labels above the threshold at which F1 was highest on held-out documents."
SHARD = "Part i of n of the input, such as 2/8; the last digits of a network's scores may differ from a run without."


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    source: Annotated[str, typer.Argument(metavar="[INPUT|-]", help=INPUT)] = "-",
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Labels per text. Default: 5; with --recall or --best-f1: 100.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1, help=THRESHOLD)] = None,
    precision: Annotated[float | None, typer.Option(help=PRECISION)] = None,
    recall: Annotated[float | None, typer.Option(help=RECALL)] = None,
    best_f1: Annotated[bool, typer.Option("--best-f1", help=BEST_F1)] = False,
    text_column: TextColumn = None,
    sheet: Sheet = None,
    whole_file: Annotated[bool, typer.Option("--whole-file", help=WHOLE)] = False,
    keep_column: Annotated[list[str] | None, typer.Option(help=KEEP)] = None,
    long: Annotated[bool, typer.Option("--long", help=LONG)] = False,
    digits: Annotated[int | None, typer.Option(min=0, max=17, help="Decimals of scores and probabilities.")] = None,
    separator: Annotated[str, typer.Option(help="Separator of labels within one cell of a .csv or .tsv.")] = "|",
    delimiter: Annotated[str | None, typer.Option(help="Separator of columns in a .csv or .tsv, such as ';'.")] = None,
    bom: Annotated[bool, typer.Option("--bom", help="Start a .csv or .tsv with a byte-order mark, for Excel.")] = False,
    skip_bad: SkipBad = False,
    skipped: SkippedFile = None,
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

    If texts have an `id`, the line starts with it; documents of a folder have their `file`. A text without any known
    word is marked "unknown": true; its probabilities are the label frequencies in training, and with --threshold,
    --precision, --recall or --best-f1 it gets no labels.
    """
    if sum(value is not None for value in (threshold, precision, recall, best_f1 or None)) > 1:
        raise ConfigError(
            "--threshold, --precision, --recall, --best-f1: each sets the lowest probability. Give one of them."
        )
    keep = tuple(dict.fromkeys(keep_column or ()))
    form = Form.of(out, long=long, digits=digits, separator=separator, delimiter=delimiter, bom=bom, keep=keep)
    if out is not None:
        _check_out(out, source, overwrite=overwrite)
    bad = BadRows(skip_bad, skipped, source, out)
    from treetop.core.target import replacing_file
    from treetop.data.inputs import read_inputs
    from treetop.kernels.runtime import threads as pool
    from treetop.model import load

    texts = read_inputs(source, shard, text_column, keep=keep, sheet=sheet, whole_file=whole_file, skip=bad.found)
    opened = load(model, device=device, fast=fast)
    lowest = _lowest(opened, threshold, precision, recall, best_f1)
    most = k or (100 if best_f1 or recall is not None else 5)
    with pool.limited(threads):
        seen: Counter[str] = Counter()
        answers = _counted((a for chunk in _chunks(texts) for a in _answers(opened, chunk, most, lowest)), seen)
        if out is None:
            write(sys.stdout, answers, form)
            sys.stdout.flush()
        else:
            with replacing_file(out) as target:
                write(target, answers, form)
    bad.report()
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
    rows, unknown, _ = model.predict_known(texts, k, lowest)
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
