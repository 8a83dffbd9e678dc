"""`treetop explain`: why these labels, in words; or which labels co-occur with a label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.data import Device
from treetop.cli.streams import as_text, echo, json_line
from treetop.core.errors import ConfigError, InputError, visible

if TYPE_CHECKING:
    from treetop.explained import Explanation
    from treetop.model import Model

SHOWN = 6
BAR = 24  # letters of a whole bar


def explain(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    text: Annotated[
        str | None, typer.Option(help="The text to explain; - reads it from standard input.", callback=as_text)
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="A label (id or name) whose neighbours are drawn instead.", callback=as_text)
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="With --label: the training data in which neighbours are counted.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Labels to explain (3), or neighbours to draw (10).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Show which words led to each label, on every level of the tree; their contributions add up to the margin.

    With --label: the labels that share texts with a label, as `gandalf` sees them.
    """
    if (text is None) == (label is None):
        raise ConfigError("explain: give either --text or --label.")
    if text is None and data is None:
        raise ConfigError("--data: missing. Name the training data, in which the neighbours of a label are counted.")
    from treetop.model import load

    opened = load(model, device=device)
    if label is not None:
        _neighbours(opened, label, str(data), k or 10, as_json)
        return
    if text == "-":
        from treetop.data.inputs import whole_input

        text = whole_input()
    explanations = opened.explain(str(text), k or 3)
    if as_json:
        echo(json_line([_plain(item) for item in explanations]))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for item in explanations:
        console.print(f"[bold]{item.label.score:.3f}[/bold]  ", end="")
        console.print(_title(item.label.id, item.label.name), markup=False)
        for m, way in enumerate(item.members):
            if len(item.members) > 1:
                console.print(f"  member {m + 1}{_part(opened, m)}", markup=False)
            for seen in way:
                _show(console, seen, last=seen is way[-1])
        console.print()


def _title(id_: str, name: str) -> str:
    """A label for display: its id, and its name if it differs."""
    return visible(id_ if name == id_ else f"{id_}  {name}")


def _part(model: Model, m: int) -> str:
    """Where a member of a blend comes from, and how much it counts."""
    from treetop.predict.blend import proportions

    if not model.card.models:
        return ""
    parts = proportions(model.weights, len(model.members))
    return f" ({visible(model.card.recipes(len(parts))[m])}, {100 * parts[m] / sum(parts):.3g} %)"


def _show(console: Any, seen: Any, *, last: bool) -> None:
    from rich.text import Text

    step = seen.step
    name = "label" if last else f"node {step.node}"
    line = Text(f"  {name:<10} margin {step.margin:+.2f}, own {step.own:.3f}, so far {step.score:.3f}: ", style="dim")
    for word in seen.words[:SHOWN]:
        line.append(f"{visible(word.term)} ")
        line.append(f"{word.contribution:+.2f}  ", style="green" if word.contribution > 0 else "red")
    rest = len(seen.words) - SHOWN
    line.append((f"and {rest} more, " if rest > 0 else "") + f"bias {step.bias:+.2f}", style="dim")
    console.print(line)


def _plain(item: Explanation) -> dict[str, Any]:
    members = [
        [
            {
                "level": seen.step.level,
                "node": seen.step.node,
                "margin": seen.step.margin,
                "own": seen.step.own,
                "score": seen.step.score,
                "bias": seen.step.bias,
                "words": [{"term": word.term, "contribution": word.contribution} for word in seen.words],
            }
            for seen in way
        ]
        for way in item.members
    ]
    return {"id": item.label.id, "label": item.label.name, "score": item.label.score, "members": members}


def _neighbours(model: Model, key: str, data: str, k: int, as_json: bool) -> None:
    """Labels that share texts with one, as bars: the share of its texts, and of theirs."""
    from treetop.core.dataset import Dataset
    from treetop.labels.graph import counted, neighbours

    column = model.labels.find(key)
    given = Dataset.read(data)
    if model.labels.ids[column] not in given.labels.columns:
        raise InputError(
            f"{given.name}: has no label '{model.labels.ids[column]}'. Give the data the model was trained on."
        )
    dataset = given.align(model.labels)
    Y, labels = counted(dataset), dataset.labels
    near, texts = neighbours(Y, column, k), int(Y[:, [column]].nnz)
    if as_json:
        rows = [
            {
                "id": labels.ids[n.column],
                "label": labels.names[n.column],
                "texts": n.texts,
                "share": n.share,
                "back": n.back,
            }
            for n in near
        ]
        whole = {"id": labels.ids[column], "label": labels.names[column], "texts": texts, "neighbours": rows}
        echo(json_line(whole))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(f"{_title(labels.ids[column], labels.names[column])}: {_texts(texts)}", style="bold", markup=False)
    for n in near:
        bar = "█" * max(1, round(BAR * n.share))
        console.print(f"  {n.share:.2f} {bar:<{BAR}} ", style="green", end="")
        title = _title(labels.ids[n.column], labels.names[n.column])
        console.print(f"{title}  ({_texts(n.texts)}, {n.back:.2f} of its own)", markup=False)
    if not near:
        console.print("  shares no text with another label")


def _texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count:,} texts"
