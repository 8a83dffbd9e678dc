"""`treetop predict`: texts in, labels out; works in a pipe and in shards."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.answering import answers_of
from treetop.cli.answers import Form, write
from treetop.cli.data import Cluster, Device, Fast
from treetop.cli.reading import BadRows, Sheet, SkipBad, SkippedFile, TextColumn
from treetop.cli.streams import note
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from treetop.data.inputs import Input

INPUT = "File (JSONL, CSV, TSV, Excel, Parquet, PDF, HTML, or one text per line) or folder of documents."
OUT = "File to write instead of standard output: JSON lines, or by its ending a table (.csv, .tsv) or .parquet."
SHARDS = "Write --out as a folder of this many Parquet files. Default with --cluster: one for every 50,000 texts."
RESUME = "Go on with a folder of shards: only missing ones are predicted."
LONG = "A row for each suggestion (row, id, rank, label_id, label, score, probability) instead of each text."
KEEP = "Column or field of the input to copy to the output; repeatable."
KNOWN = "Add `known_words`: the share of each text's words that the model knows."
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
    known_words: Annotated[bool, typer.Option("--known-words", help=KNOWN)] = False,
    bom: Annotated[bool, typer.Option("--bom", help="Start a .csv or .tsv with a byte-order mark, for Excel.")] = False,
    skip_bad: SkipBad = False,
    skipped: SkippedFile = None,
    shard: Annotated[str, typer.Option(help=SHARD)] = "1/1",
    shards: Annotated[int | None, typer.Option(min=1, max=99_999, help=SHARDS)] = None,
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    resume: Annotated[bool, typer.Option("--resume", help=RESUME)] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file or folder of shards.")
    ] = False,
    cluster: Cluster = None,
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
    from treetop.cli.shard_folder import name_of
    from treetop.cli.shards import check_folder, open_folder, predict_shards, question
    from treetop.data.inputs import count_inputs, parse_shard, read_inputs

    keep = tuple(dict.fromkeys(keep_column or ()))
    in_folder = cluster is not None or shards is not None
    if in_folder:
        check_folder(out, source, shard)
    elif resume:
        raise ConfigError("--resume: goes on with a folder of shards. Give --shards or --cluster, and --out FOLDER.")
    elif out is not None and shard != "1/1" and out.is_dir():
        out /= name_of(*parse_shard(shard))
    target = Path("shard.parquet") if in_folder else out
    table = {"separator": separator, "delimiter": delimiter, "bom": bom}
    form = Form.of(target, long=long, digits=digits, keep=keep, known_words=known_words, **table)
    if out is not None and not in_folder:
        _check_out(out, source, overwrite=overwrite)
    bad = BadRows(skip_bad, skipped, source, out)
    from treetop.core.executor.ray import cluster as sharing
    from treetop.core.target import replacing_file
    from treetop.kernels.runtime import threads as pool
    from treetop.model import load
    from treetop.model.remarks import sentences

    def texts(part: str = "1/1") -> Iterator[Input]:
        return read_inputs(source, part, text_column, keep=keep, sheet=sheet, whole_file=whole_file, skip=bad.found)

    given = texts(shard)
    opened = load(model, device="cpu" if cluster else device, fast=fast)
    lowest = _lowest(opened, threshold, precision, recall, best_f1)
    most = k or (100 if best_f1 or recall is not None else 5)
    seen: Counter[str] = Counter()
    with pool.limited(threads), sharing(cluster):
        if in_folder and out is not None:
            total = count_inputs(source, texts, bad.found)
            asked = question(model, most, lowest, form, device if cluster else "cpu", fast)
            options = {"columns": text_column, "sheet": sheet, "whole_file": whole_file, "skip_bad": skip_bad}
            folder = open_folder(out, asked, source, total, shards, options, resume=resume, overwrite=overwrite)
            predict_shards(asked, opened, given, total, folder)
        elif out is None:
            write(sys.stdout, answers_of(opened, given, most, lowest, seen), form)
            sys.stdout.flush()
        else:
            with replacing_file(out) as file:
                write(file, answers_of(opened, given, most, lowest, seen), form)
    bad.report()
    for sentence in sentences(seen, seen["all"]):
        note(sentence)


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
