"""What `treetop plan` says of data sets that are not here, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.docs.markdown import markdown
from treetop.assemble.plan.imagined import Size
from treetop.assemble.plan.outlook import Machines, outlook
from treetop.assemble.plan.rates import load_rates
from treetop.core.forecast import duration, size
from treetop.training import plan


class Job(NamedTuple):
    """A data set and the machines it is planned for."""

    name: str
    size: Size  # documents, labels, words of a document, labels of one, words of a label's name
    machines: Machines


JOBS = (
    Job("LF-AmazonTitles-1.3M", Size(2_248_619, 1_305_265, 10, 22, 9), Machines(cores=16)),
    Job("Amazon-3M", Size(1_717_899, 2_812_281, 50, 36, 4), Machines(cores=16)),
    Job("made up", Size(1e8, 1e7, 32, 5, 4), Machines(16, 64)),
)


def plans(results: Path, words: Sequence[str]) -> str:
    """`plans`: `xr_linear` on large data sets, by the rates that come with treetop."""
    rows = []
    for name, given, machines in JOBS:
        found = outlook(plan("xr_linear"), given, machines, load_rates(None))
        several = machines.count > 1
        where = f"{machines.count} × {machines.cores} cores" if several else f"{machines.cores} cores"
        memory = size(found.memory) + (f", others {size(found.memory_worker)}" if several else "")
        assert found.network is not None and found.predict is not None  # noqa: S101 - a tree of linear functions
        rows.append(
            [
                name, f"{given.documents:,.0f}", f"{given.labels:,.0f}", f"{given.tokens:g}",
                f"{given.labels_per_document:g}", where, duration(found.seconds), memory, size(found.network),
                size(found.disk), size(found.model), f"{found.predict:,.0f} s",
            ]
        )  # fmt: skip
    head = ["data", "texts", "labels", "words of a text", "labels of a text", "machines", "time", "memory", "network"]
    return markdown([*head, "disk", "model", "CPU for a million predictions"], rows)
