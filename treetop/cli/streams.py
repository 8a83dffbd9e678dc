"""Standard input, output and errors as the commands use them, whatever the shell or the locale."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import sys
from typing import Any

from treetop.core.errors import InputError, visible

ESCAPE = "treetop.escape"


def prepare() -> None:
    """Make printing safe, and keep opened files from taking the descriptor of a closed stream."""
    for number, way in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)  # takes the lowest number that is free
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    codecs.register_error(ESCAPE, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in {"strict", "surrogateescape"}:
        sys.stdout.reconfigure(errors=ESCAPE)


class _Closed(io.TextIOBase):
    """Standard output that was closed before the command started."""

    encoding = "utf-8"

    def write(self, text: str, /) -> int:
        raise InputError("standard output: closed. Direct it to a file, or to /dev/null.")


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """Bytes of file names as they are, other characters as JSON writes them: é as u00e9 after a backslash."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return json.dumps(character)[1:-1], error.start + 1


def echo(text: str) -> None:
    """Print a line that is an answer; where standard output is closed, that is an error."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def confirm(text: str) -> None:
    """Print a line about work that is done and saved, once; where standard output is closed, it is left out."""
    if speaks() and not isinstance(sys.stdout, _Closed):
        echo(text)


def speaks() -> bool:
    """Whether this is the only process of a command, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def note(text: str) -> None:
    """Print a line in addition to the answer, on standard error."""
    sys.stderr.write(text + "\n")


def json_line(value: Any) -> str:
    """One line of JSON; control characters, bidi overrides and half characters are escaped, which JSON allows."""
    return visible(json.dumps(value, ensure_ascii=False))


def as_text(value: Any) -> Any:
    """A command-line argument as text, even if the locale (C, POSIX) cannot decode it; only UTF-8 is accepted."""
    if not isinstance(value, str):
        return [as_text(item) for item in value] if isinstance(value, list) else value
    try:
        return value.encode(errors="surrogateescape").decode()
    except UnicodeError:
        raise InputError(f"{value!a}: contains bytes that are not UTF-8. Type it again.") from None


def discard_output() -> None:
    """Discard unwritten standard output, so that the process does not fail on it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
