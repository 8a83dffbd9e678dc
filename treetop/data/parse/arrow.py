"""Records of Arrow and Parquet batches; each batch is validated first, since Arrow trusts the offsets in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from treetop.core.errors import DataError, extra
from treetop.data.parse.fields import KNOWN
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.rows import Reading

BATCH = 4096  # rows that become Python objects at a time


def wanted_columns(names: Iterable[str], reading: Reading) -> list[str]:
    """The columns that are read."""
    return [name for name in names if name in (*KNOWN, "uid", reading.label_field, *reading.names, *reading.keep)]


def batch_records(
    open_batches: Callable[[Any], Iterator[Any]], file: Path, kind: str, remedy: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row from 1, cells by column) of the batches that `open_batches(pyarrow)` gives; damage is one error."""
    pyarrow = extra("pyarrow", "data")
    limits, number = Limits.of_environment(), 0
    try:
        for batch in open_batches(pyarrow):
            batch.validate(full=True)
            for start in range(0, len(batch), BATCH):
                for record in batch.slice(start, BATCH).to_pylist():
                    number += 1
                    if any(isinstance(cell, str) and len(cell) > limits.cell for cell in record.values()):
                        sentence = f"a cell is longer than {limits.shown('cell')}, the most that is read. Split it, or "
                        raise DataError(sentence + how_to_raise("cell"), file=file, line=number)
                    yield number, record
    except DataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"cannot be read as {kind} ({reason}). {remedy}", file=file) from None
