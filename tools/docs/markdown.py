"""Tables and figures as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MISSING = "–"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; all columns but the first `left` are right-aligned."""
    lines = [list(head), [*["---"] * left, *["---:"] * (len(head) - left)], *[list(row) for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text(number: float | None, digits: int | None = None) -> str:
    """A figure as a person reads it: fixed digits, or three significant ones."""
    if number is None:
        return MISSING
    if digits is None:
        digits = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2 if abs(number) >= 1 else 3
    return f"{number:,.{digits}f}"
