"""Lines of a text file, plain or gzip, as every format reads them: BOM, CRLF, UTF-8 and truncation are met here."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from treetop.core.errors import DataError
from treetop.core.log import progress

Problem = Callable[[DataError], None]

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def refuse(error: DataError) -> NoReturn:
    """The default for a bad row: stop with its error. `validate` collects instead."""
    raise error


@contextmanager
def open_bytes(file: Path) -> Iterator[tuple[IO[bytes], io.BufferedReader]]:
    """(the bytes after unpacking, the raw file for progress); gzip is known by its first bytes, not by the name."""
    try:
        raw = file.open("rb")
    except FileNotFoundError:
        raise DataError("no such file.", file=file) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", file=file) from None
    with raw:
        if raw.peek(2)[:2] == GZIP:
            with gzip.GzipFile(fileobj=raw) as unpacked, io.BufferedReader(unpacked, 1 << 16) as stream:
                yield stream, raw
        else:
            yield raw, raw


def lines(file: Path, problem: Problem = refuse, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a UTF-8 file; only LF and CRLF end a line.

    A line that is not UTF-8 is reported and goes on with U+FFFD in it, so that row numbers stay right.
    """
    number = 0
    with open_bytes(file) as (stream, raw), progress(f"read {file.name}", file.stat().st_size) as bar:
        try:
            for line in stream:
                number += 1
                if number == 1:
                    line = _without_bom(line, file)
                if number % 1024 == 0:
                    bar.step(raw.tell() - bar.done)
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    problem(_not_utf8(line, error.start, file, number))
                    text = line.decode(errors="replace")
                yield number, text if ends else text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = "ends early" if isinstance(error, EOFError) else "is damaged"
            problem(
                DataError(
                    f"the gzip data {what} after this line. Copy or download the file again.", file=file, line=number
                )
            )


def _without_bom(line: bytes, file: Path) -> bytes:
    if line[:2] in UTF16:
        raise DataError(
            "the file is UTF-16, expected UTF-8. Save it as UTF-8, for example with: "
            f"iconv -f utf-16 -t utf-8 {file.name}",
            file=file,
            line=1,
        )
    return line.removeprefix(BOM)


def _not_utf8(line: bytes, start: int, file: Path, number: int) -> DataError:
    return DataError(
        f"byte {start + 1} of the line (0x{line[start]:02x}) is not UTF-8. Save the file as UTF-8, for example with: "
        f"iconv -f latin1 -t utf-8 {file.name}",
        file=file,
        line=number,
    )


def head(file: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file after unpacking, without a BOM."""
    start = bytearray()
    try:
        with file.open("rb") as raw:
            stream = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == GZIP else raw
            while len(start) < size and (part := stream.read(1024)):
                start += part
    except OSError as error:
        if not isinstance(error, gzip.BadGzipFile):
            raise DataError(f"cannot be read ({error.strerror}).", file=file) from None
    except (EOFError, zlib.error):
        pass  # what came before the damage is enough; reading on will report it
    return bytes(start.removeprefix(BOM))


@contextmanager
def writer(file: Path) -> Iterator[IO[str]]:
    """A UTF-8 text file for writing, packed when its name ends in .gz (with no time stamp: same data, same bytes)."""
    with file.open("wb") as raw:
        if file.suffix == ".gz":
            with (
                gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="") as out,
            ):
                yield out
        else:
            with io.TextIOWrapper(raw, encoding="utf-8", newline="") as out:
                yield out


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


ROW = '{"text": "a cat", "labels": ["pet"]}'
LABEL = '{"id": "cat", "text": "a small tame cat"}'
_decoder = json.JSONDecoder(parse_constant=_constant)


def json_lines(file: Path, problem: Problem, example: str = ROW) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, object) of each line that is not blank; `example` is shown where one is broken."""
    for number, line in lines(file, problem):
        if not line or line.isspace():
            continue
        try:
            record = _decoder.decode(line)
        except json.JSONDecodeError as error:
            what = f"broken JSON at column {error.colno} ({error.msg}). Every line must be one JSON object"
            problem(DataError(f"{what}, such as {example}.", file=file, line=number))
            continue
        except (ValueError, RecursionError) as error:
            problem(
                DataError(f"broken JSON ({error}). Allowed are finite numbers; mend the row.", file=file, line=number)
            )
            continue
        if not isinstance(record, dict):
            problem(DataError("not a JSON object. Every line must be {...}, one row each.", file=file, line=number))
            continue
        yield number, record
