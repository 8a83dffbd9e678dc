"""JSON input: one object per line, or a small file next to the rows; broken or deeply nested JSON is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from treetop.core.errors import DataError
from treetop.data.parse.limits import Limits
from treetop.data.parse.lines import Problem, lines

ROW = '{"text": "a cat", "labels": ["pet"]}'
LABEL = '{"id": "cat", "text": "a small tame cat"}'


DEEP = "it is nested too deeply"


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(parse_constant=_constant)


def decode(text: str) -> Any:
    """The value of a JSON text; ValueError (JSONDecodeError where a place is known) says what is wrong."""
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError(DEEP) from None


def json_lines(file: Path, problem: Problem, example: str = ROW) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, object) of each line that is not blank; `example` is shown where one is broken."""
    for number, line in lines(file, problem):
        if not line or line.isspace():
            continue
        try:
            record = _decoder.decode(line)  # not `decode`: there are many lines
        except json.JSONDecodeError as error:
            what = f"broken JSON at column {error.colno} ({error.msg}). Every line must be one JSON object"
            problem(DataError(f"{what}, such as {example}.", file=file, line=number))
            continue
        except (ValueError, RecursionError) as error:
            reason = DEEP if isinstance(error, RecursionError) else error
            sentence = f"broken JSON ({reason}). Allowed: finite numbers; fix the row."
            problem(DataError(sentence, file=file, line=number))
            continue
        if not isinstance(record, dict):
            problem(DataError("not a JSON object. Every line must be {...}, one row each.", file=file, line=number))
            continue
        yield number, record


def read_object(file: Path) -> dict[str, Any]:
    """The object in a small JSON file; ValueError says why there is none."""
    limits = Limits.of_environment()
    try:
        with file.open("rb") as stream:
            content = stream.read(limits.line + 1)
    except OSError as error:
        raise ValueError(error.strerror) from None
    if len(content) > limits.line:
        raise ValueError(f"more than {limits.shown('line')}")
    value = decode(content.decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
