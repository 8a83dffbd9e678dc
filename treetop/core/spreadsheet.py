"""Cells of exported tables: a spreadsheet must display them, not evaluate them as formulas."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # a cell that begins so may be taken for a formula


def plain_cell(text: str) -> str:
    """A text or name for a cell of a CSV or TSV file; one that would be read as a formula gets a leading apostrophe.

    >>> plain_cell("=1+1"), plain_cell("a cat")
    ("'=1+1", 'a cat')
    """
    return "'" + text if text.startswith(FORMULA) else text
