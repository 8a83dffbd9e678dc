"""`treetop explain`: why these labels, in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from treetop.model import Explanation, Model

SHOWN = 6


def explain(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    text: Annotated[str, typer.Option(help="The text to explain.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Labels to explain.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which words led to each label, on every level of the way; the parts add up to the margin."""
    from treetop.model import load

    opened = load(model)
    found = opened.explain(text, k)
    if as_json:
        typer.echo(json.dumps([_plain(item) for item in found], ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for item in found:
        console.print(f"[bold]{item.label.score:.3f}[/bold]  ", end="")
        console.print(item.label.name, markup=False)
        for m, way in enumerate(item.members):
            if len(item.members) > 1:
                console.print(f"  member {m + 1}")
            for seen in way:
                _show(console, opened, seen, last=seen is way[-1])
        console.print()


def _show(console: Any, model: Model, seen: Any, *, last: bool) -> None:
    from rich.text import Text

    step = seen.step
    name = "label" if last else f"node {step.node}"
    line = Text(f"  {name:<10} margin {step.margin:+.2f}, own {step.own:.3f}, so far {step.score:.3f}: ", style="dim")
    for word in seen.words[:SHOWN]:
        line.append(f"{word.term} ")
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
