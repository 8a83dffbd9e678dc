"""Recipes side by side on one data set: what `treetop bench` does.

| file | answer |
|---|---|
| `measure.py` | one cell: a recipe is trained and tested, and everything about it recorded |
| `cells.py` | which cells a table has, which of them are on record, and a process for each of the others |
| `table.py` | records as a table: for a terminal, or as Markdown with intervals |
"""

from treetop.bench.measure import measure

__all__ = ["measure"]
