"""Files that are one document each: plain text, HTML and PDF."""

from __future__ import annotations

import codecs
import logging
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from treetop.core.errors import DataError, extra
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.lines import BOM, open_bytes, stream_lines
from treetop.data.parse.surrogates import without_lone

PLAIN, HTML, PDF = (".txt", ".md"), (".html", ".htm", ".xhtml"), (".pdf",)
KINDS = (*PLAIN, *HTML, *PDF)  # where one document has several files, the first of these is read
UNSEEN = ("script", "style")
BREAKS = {
    "address",
    "article",
    "br",
    "dd",
    "div",
    "dt",
    "hr",
    "li",
    "p",
    "pre",
    "section",
    "table",
    "td",
    "th",
    "title",
}
BREAKS |= {"tr", *(f"h{level}" for level in range(1, 7))}


def kind(name: str) -> str:
    """The ending of a file's name without .gz, lower case."""
    return Path(name.lower().removesuffix(".gz")).suffix


def documents(folder: Path) -> tuple[list[Path], list[Path]]:
    """(the documents below a folder, files of other kinds), both in order of their names; hidden ones are left out."""
    found: tuple[list[Path], list[Path]] = ([], [])
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                found[kind(name) not in KINDS].append(Path(place, name))
    return sorted(found[0]), sorted(found[1])


def read_document(file: Path) -> str:
    """The text of a file; DataError names it where it cannot be read."""
    ending = kind(file.name)
    if ending in PDF:
        return _pdf(file)
    return _html(file) if ending in HTML else _plain(file)


def joined(parts: Iterable[str], file: object, between: str = "") -> str:
    """One text of many parts, refused where it becomes longer than a line may be."""
    found, length, limits = list[str](), 0, Limits.of_environment()
    for part in parts:
        found.append(part)
        length += len(part) + len(between)
        if length > limits.line:
            sentence = f"more than {limits.shown('line')} for one text, the most that is read. Shorten it, or "
            raise DataError(sentence + how_to_raise("line"), file=file)
    return between.join(found)


def _plain(file: Path) -> str:
    with open_bytes(file) as (stream, _):
        return joined((line for _, line in stream_lines(stream, file, ends=True)), file)


def _html(file: Path) -> str:
    content = _content(file)
    name = _encoding(content)
    try:
        source = content.removeprefix(BOM).decode(name)
    except (UnicodeError, ValueError):
        raise DataError(f"is not {name.upper()}, as it should be. Save it as UTF-8.", file=file) from None
    page = _Page()
    try:
        page.feed(source)
        page.close()
    except (ValueError, AssertionError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        raise DataError(f"cannot be read as HTML ({reason}). Save it again, or as text.", file=file) from None
    return page.text()


def _content(file: Path) -> bytes:
    limits = Limits.of_environment()
    try:
        with open_bytes(file) as (stream, _):
            content = b"".join(_chunks(stream, limits.line + 1))
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"cannot be read ({error}). Copy it again.", file=file) from None
    if len(content) > limits.line:
        sentence = f"more than {limits.shown('line')} for one text, the most that is read. Shorten it, or "
        raise DataError(sentence + how_to_raise("line"), file=file)
    return content


def _chunks(stream: Any, most: int) -> Iterator[bytes]:
    while most > 0 and (chunk := stream.read(min(most, 1 << 20))):
        most -= len(chunk)
        yield chunk


def _encoding(content: bytes) -> str:
    """The encoding a page declares for its text, else UTF-8."""
    found = re.search(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([\w.:-]{1,40})", content[:2048])
    if found is None or content.startswith(BOM):
        return "utf-8"
    name = found[1].decode("ascii", "replace")
    try:
        return name if codecs.lookup(name)._is_text_encoding else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"


class _Page(HTMLParser):
    """Collects the text of a page; its blocks become lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.unseen = ""  # the element without text that is open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in UNSEEN:
            self.unseen = tag
        elif tag in BREAKS:
            self.parts.append("\n")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        if tag in BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.unseen:
            self.unseen = ""
        elif tag in BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data.replace("\n", " "))

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self.parts).split("\n"))
        return without_lone("\n".join(line for line in lines if line))


def _pdf(file: Path) -> str:
    pypdf = extra("pypdf", "files")
    try:
        with _unlogged("pypdf"), file.open("rb") as stream:
            pages = pypdf.PdfReader(stream).pages
            text = joined((page.extract_text() for page in pages), file, "\n")
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", file=file) from None
    except Exception as error:  # the reader reports damage by errors of many kinds
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise DataError(f"cannot be read as PDF ({reason}). Save it again, or as text.", file=file) from None
    if not text.strip():
        raise DataError("the PDF has no text; it may be a scan. Recognise its text (OCR) first.", file=file)
    return without_lone(text)


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Without the remarks of a reader on files that it reads all the same."""
    remarks, nowhere = logging.getLogger(name), logging.NullHandler()
    before, remarks.propagate = remarks.propagate, False  # loggers of its modules pass their records on to this one
    remarks.addHandler(nowhere)
    try:
        yield
    finally:
        remarks.removeHandler(nowhere)
        remarks.propagate = before
