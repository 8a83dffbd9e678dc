"""`treetop predict`: texts in, JSON lines out; works in a pipe and in shards."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from treetop.core.errors import ConfigError

# Networks batch texts by length inside a chunk, so shards that began at chunks would keep every bit. They would share
# unevenly, though (of 36,000 texts the longest of 8 had 8,192, not 4,500), and smaller chunks leave cores idle.
CHUNK = 4096
SHARD = "Part i of n of the input, such as 2/8; the last digits of a network's scores may differ from a run without."


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    source: Annotated[str, typer.Argument(metavar="[INPUT|-]", help="JSONL, CSV, Parquet or one text a line.")] = "-",
    k: Annotated[int, typer.Option("-k", min=1, help="Labels per text.")] = 5,
    threshold: Annotated[float | None, typer.Option(help="Lowest probability to print.")] = None,
    precision: Annotated[float | None, typer.Option(help="Only labels at this precision or better.")] = None,
    shard: Annotated[str, typer.Option(help=SHARD)] = "1/1",
    out: Annotated[Path | None, typer.Option(help="File to write instead of standard output.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores. Never changes the result.")] = None,
) -> None:
    """Rank labels for texts: one JSON line with ids, labels, scores and probabilities for each."""
    for name, value in (("--threshold", threshold), ("--precision", precision)):
        if value is not None:
            raise ConfigError(
                f"{name}: this model is not calibrated, its scores are no probabilities. "
                "Leave the option out and take the best k."
            )
    if out is not None:
        _check_out(out, source, overwrite=overwrite)
    from treetop.core.target import replacing_file
    from treetop.data.inputs import read_inputs
    from treetop.kernels import threads as pool
    from treetop.model import load

    texts = read_inputs(source, shard)
    opened = load(model)
    with pool.limited(threads):
        lines = (line for chunk in _chunks(texts) for line in _answers(opened, chunk, k))
        if out is None:
            for line in lines:
                sys.stdout.write(line)
            sys.stdout.flush()
            return
        with replacing_file(out) as target:
            target.writelines(lines)


def _check_out(out: Path, source: str, *, overwrite: bool) -> None:
    """Refuse a place that cannot or should not be written, before any work is done."""
    from treetop.core.target import check_new_file

    if out.is_dir() or not out.name:
        raise ConfigError(f"--out {out}: a folder. Give the name of a file to write.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}. Make it first.")
    if source != "-" and out.exists() and Path(source).exists() and out.samefile(source):
        raise ConfigError(f"--out {out}: the file the texts come from. Give another name.")
    check_new_file(out, overwrite=overwrite)


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Full chunks from files; from a pipe that pauses, what a person typed is still answered at its end."""
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _answers(model: Any, texts: list[str], k: int) -> Iterator[str]:
    for row in model.predict(texts, k):
        answer = {
            "ids": [label.id for label in row],
            "labels": [label.name for label in row],
            "scores": [label.score for label in row],
            "probabilities": [label.probability for label in row],
        }
        yield json.dumps(answer, ensure_ascii=False) + "\n"
