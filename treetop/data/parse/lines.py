"""Lines of a text file, plain or gzip, as every format reads them: BOM, CRLF, UTF-8, truncation and limits."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from treetop.core.errors import BadRow, DataError
from treetop.core.log import progress
from treetop.data.parse.limits import Limits, how_to_raise

Problem = Callable[[DataError], None]

GZIP, ZIP, OLE = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
WRITTEN = (".docx", ".odt", ".rtf", ".doc", ".pages", ".epub")  # by word processors


class NotUtf8(DataError):
    """A line is not UTF-8; reading goes on with U+FFFD in it, so that row numbers stay right."""


class Incomplete(DataError):
    """A file ends early, or does not fit the file beside it: no single row is at fault."""


def refuse(error: DataError) -> NoReturn:
    """The default for a bad row: stop with its error. `validate` collects instead."""
    raise error


def refuse_row(error: DataError) -> NoReturn:
    """The same for a row or document that could be left out, which the kind of the error says."""
    raise error if isinstance(error, Incomplete) else BadRow(error.reason, file=error.file, line=error.line)


class _Counted:
    """A file or pipe that counts what was read from it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.count = raw, 0

    def read(self, size: int = -1) -> bytes:
        part = self.raw.read(size)
        self.count += len(part)
        return part


class _Unpacked(io.RawIOBase):
    """Decompressed gzip data; refused if it expands out of proportion."""

    def __init__(self, raw: IO[bytes], file: Path) -> None:
        self.source, self.file = _Counted(raw), file
        self.packed = gzip.GzipFile(fileobj=self.source)  # type: ignore[call-overload]  # it reads and nothing else
        self.limits, self.total = Limits.of_environment(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self.packed.readinto(buffer)
        self.total += count
        if self.total > max(self.limits.line, self.limits.expansion * self.source.count):
            raise DataError(
                f"the gzip data unpack to more than {self.limits.shown('expansion')} times their size. If they are "
                f"what you expect, {how_to_raise('expansion')}",
                file=self.file,
            )
        return count


@contextmanager
def open_bytes(file: Path) -> Iterator[tuple[IO[bytes], io.BufferedReader]]:
    """(the unpacked bytes, the raw file for progress); gzip is recognised by its first bytes, not by the name."""
    try:
        raw = file.open("rb")
    except FileNotFoundError:
        raise DataError("no such file.", file=file) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", file=file) from None
    with raw:
        if raw.peek(2)[:2] == GZIP:
            with io.BufferedReader(_Unpacked(raw, file), 1 << 16) as stream:
                yield stream, raw
        else:
            yield raw, raw


def lines(file: Path, problem: Problem = refuse, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a UTF-8 file; only LF and CRLF end a line.

    A line that is not UTF-8 is reported and goes on with U+FFFD in it, so that row numbers stay right.
    """
    with open_bytes(file) as (stream, raw), progress(f"read {file.name}", file.stat().st_size) as bar:
        moves = raw.seekable()  # a pipe has no place

        def step() -> None:
            bar.step(raw.tell() - bar.done if moves else 0)

        yield from stream_lines(stream, file, problem, ends=ends, step=step)


def stream_lines(
    stream: IO[bytes],
    file: object,
    problem: Problem = refuse,
    *,
    ends: bool = False,
    step: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, str]]:
    """The same of an open file or pipe, which `file` names in messages; `step` is called now and then."""
    limits, number = Limits.of_environment(), 0
    try:
        for number, line in enumerate(iter(partial(stream.readline, limits.line + 1), b""), 1):
            if len(line) > limits.line:
                sentence = f"the line is longer than {limits.shown('line')}, the most that is read. Split it, or "
                raise DataError(sentence + how_to_raise("line"), file=file, line=number)
            if number == 1:
                line = _without_bom(line, file)
            elif number % 1024 == 0:
                step()
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                problem(_not_utf8(line, error.start, file, number))
                text = line.decode(errors="replace")
            yield number, text if ends else text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = "ends early" if isinstance(error, EOFError) else "is damaged"
        sentence = f"the gzip data {what} after this line. Copy or download the file again."
        problem(Incomplete(sentence, file=file, line=number))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", file=file, line=number) from None


def _without_bom(line: bytes, file: object) -> bytes:
    if line[:2] in UTF16:
        raise DataError(f"the file is UTF-16, expected UTF-8. {_convert('utf-16', file)}", file=file, line=1)
    if sentence := other_than_text(line, file):
        raise DataError(sentence, file=file)
    return line.removeprefix(BOM)


def other_than_text(start: bytes, file: object) -> str:
    """What is wrong with a file that begins as no text does; empty if it may be one.

    >>> other_than_text(b"a cat", None), other_than_text(b"%PDF-1.7", Path("a.txt"))
    ('', 'this is a PDF. Give it the ending .pdf.')
    """
    written = isinstance(file, Path) and file.suffix.lower() in WRITTEN
    if written and start.startswith((ZIP, OLE, b"{\\rtf")):
        return "this is a file of a word processor. Save it as plain text (UTF-8), HTML or PDF."
    if start.startswith(ZIP):
        return "this is a zip file. Unpack it; a spreadsheet needs the ending .xlsx."
    if start.startswith(OLE):
        return "an old Excel file, or one with a password. Save it as .xlsx without a password."
    return "this is a PDF. Give it the ending .pdf." if start.startswith(b"%PDF-") else ""


def _not_utf8(line: bytes, start: int, file: object, number: int) -> DataError:
    return NotUtf8(
        f"byte {start + 1} of the line (0x{line[start]:02x}) is not UTF-8. {_convert('cp1252', file)}",
        file=file,
        line=number,
    )


def _convert(encoding: str, file: object) -> str:
    """What to do, for people with a spreadsheet and for those with a shell."""
    name = f" {file.name}" if isinstance(file, Path) else ""
    excel = " (in Excel as 'CSV UTF-8')" if name.lower().endswith((".csv", ".tsv")) else ""
    return f"Save the file as UTF-8{excel}, or convert it: 'iconv -f {encoding} -t utf-8{name}'."


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


class _Text(io.TextIOWrapper):
    """A text file whose first string may begin with U+FEFF: it is written twice, since reading strips a BOM."""

    _started = False

    def write(self, text: str) -> int:
        if text and not self._started:
            self._started = True
            if text.startswith("\ufeff"):
                super().write("\ufeff")
        return super().write(text)


@contextmanager
def writer(file: Path) -> Iterator[IO[str]]:
    """A UTF-8 text file for writing, packed when its name ends in .gz (with no time stamp: same data, same bytes)."""
    with file.open("wb") as raw:
        if file.suffix == ".gz":
            with (
                gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
                _Text(packed, encoding="utf-8", newline="") as out,
            ):
                yield out
        else:
            with _Text(raw, encoding="utf-8", newline="") as out:
                yield out
