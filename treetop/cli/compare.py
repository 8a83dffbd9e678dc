"""`treetop compare`: several models on the same texts, and whether their differences are significant."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.data import Device
from treetop.cli.evaluate import KS, parse_ks, print_whole, whole_width
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import echo, json_line, note
from treetop.core.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from treetop.core.dataset import Dataset
    from treetop.core.types import Scores
    from treetop.evaluate.match import Matches
    from treetop.evaluate.paired import Difference

WIDTH = 120  # columns of a table that no terminal shows


@reads_data
def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder, file or bundled name.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model folders; the first is the baseline.")],
    split: Annotated[str, typer.Option(help="Split of the data.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page, with ten example texts, into this folder.")
    ] = None,
    *,
    reading: DataOptions,
    k: Annotated[str, typer.Option("-k", help="Cut-offs k of the metrics.")] = KS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resampling.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Evaluate models side by side, with a paired test of each against the first."""
    ks = parse_ks(k)
    from treetop.core import store
    from treetop.evaluate.report.page import check_folder
    from treetop.kernels.runtime import threads as pool

    if report is not None:
        check_folder(report)  # report an unwritable folder before the work
    for path in models:
        store.check_folder(path)  # report a broken model before the others are evaluated
    dataset = reading.source(data, report).read(split)
    with pool.limited(threads):
        named = dict(zip(_names(models), models, strict=True))
        compared = _compared(
            named, dataset, ks=ks, seed=seed, strict=reading.strict, keep=report is not None, device=device
        )
    if report is not None:
        page = _write_page(report, f"{dataset.name} ({split})", compared, dataset, k=max(ks))
        note(f"report: {page}")
    if as_json:
        echo(json_line(compared.to_dict()))
        return
    from rich.console import Console

    _show(Console(), compared)


@dataclass
class Compared:
    """Results of each model by name; differences are relative to the first, which has none."""

    scores: dict[str, Scores] = field(default_factory=dict)
    differences: dict[str, dict[str, Difference]] = field(default_factory=dict)
    matches: dict[str, Matches] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        models = {name: scores.to_dict() for name, scores in self.scores.items()}
        rows = {name: {key: asdict(d) for key, d in found.items()} for name, found in self.differences.items()}
        return {"models": models, "against": next(iter(self.scores)), "differences": rows}


def _compared(
    models: dict[str, Path], dataset: Dataset, *, ks: tuple[int, ...], seed: int, strict: bool, keep: bool, device: str
) -> Compared:
    """Open and match one model after the other; unless `keep`, its rankings are freed before the next."""
    from treetop.core.log import logger
    from treetop.evaluate.match import match
    from treetop.evaluate.paired import difference
    from treetop.evaluate.score import score_matches
    from treetop.model import load

    compared, first = Compared(), None
    for name, path in models.items():
        model = load(path, device=device)
        matches = match(model, dataset, depth=max(ks), strict=strict, name=name)
        compared.scores[name] = score_matches(matches, ks=ks, seed=seed)
        if keep:
            compared.matches[name] = matches
        trained = f"{model.n_train:,} documents, {len(model.labels):,} labels"
        compared.facts[name] = {"Recipe": model.card.title, "Trained on": trained}
        if first is None:
            first, first_name, origin = matches, name, model.card.origin(model.n_train)
            continue
        if origin.differs(model.card.origin(model.n_train)):
            compared.notes.append(
                f"{name} was trained on other data than {first_name}: PSP may weight labels differently."
            )
            logger.warning("%s", compared.notes[-1])
        compared.differences[name] = difference(first, matches, ks=ks, seed=seed)
    return compared


def _write_page(folder: Path, title: str, compared: Compared, dataset: Dataset, *, k: int) -> Path:
    from treetop.evaluate.report.examples import Examples
    from treetop.evaluate.report.versus import Versus, write_versus

    examples = Examples.of(compared.matches, dataset, k=k)
    return write_versus(
        folder, Versus(title, compared.facts, compared.scores, compared.differences, examples, " ".join(compared.notes))
    )


def _names(models: list[Path]) -> list[str]:
    """Folder names if they are distinct, else whole paths; the same folder twice is numbered."""
    from treetop.core.texts import readable

    short = [readable(path.name or str(path)) for path in models]
    names = short if len(set(short)) == len(short) else [readable(str(path)) for path in models]
    return [name if names.index(name) == i else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _show(console: Console, compared: Compared) -> None:
    """Print the models side by side; those that do not fit the width follow below."""
    from rich.text import Text

    room = console.width if console.is_terminal or "COLUMNS" in os.environ else WIDTH
    first, *_ = names = list(compared.scores)
    while names:
        fit = (n for n in range(len(names), 1, -1) if whole_width(console, _table(compared, names[:n])) <= room)
        n = next(fit, 1)
        print_whole(console, _table(compared, names[:n]))
        names = names[n:]
        if names:
            console.print()
    if compared.differences:
        console.print(
            Text(
                f"\nDifferences from {visible(first)} on the same documents, 95 % intervals; p from a randomisation "
                "test."
            )
        )


def _table(compared: Compared, names: list[str]) -> Table:
    """Metrics as rows, these models as columns; bold is the best of all models."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in names:
        table.add_column(Text(visible(name)), justify="right")
        if name in compared.differences:
            table.add_column("difference", no_wrap=True)
            table.add_column("p", no_wrap=True)
    for metric in compared.scores[names[0]].values:
        best = max(scores[metric] for scores in compared.scores.values())
        cells = []
        for name in names:
            value = compared.scores[name][metric]
            cells.append(f"[bold]{value:.2f}[/bold]" if value == best and len(compared.scores) > 1 else f"{value:.2f}")
            if name in compared.differences:
                d = compared.differences[name].get(metric)
                cells += ["", ""] if d is None else _difference(d)
        table.add_row(metric, *cells)
    return table


def _difference(d: Difference) -> list[str]:
    low, high = d.interval
    colour = "dim" if low <= 0 <= high else "green" if d.value > 0 else "red"
    return [f"[{colour}]{d.value:+.2f} ({low:+.2f} to {high:+.2f})[/{colour}]", f"{d.p:.4f}"]
