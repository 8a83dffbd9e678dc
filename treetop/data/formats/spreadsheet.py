"""Spreadsheets: the first sheet of an .xlsx file (or `--sheet`), with columns named as in CSV."""

from __future__ import annotations

from treetop.data.format import Format, Head
from treetop.data.formats.table import HOLDS, rows
from treetop.data.parse.sheets import SUFFIXES


def sniff(head: Head) -> bool:
    """By extension and the first bytes of a zip file."""
    return head.suffix in SUFFIXES and head.start.startswith(b"PK\x03\x04")


FORMAT = Format("xlsx", HOLDS, sniff=sniff, rows=rows)
