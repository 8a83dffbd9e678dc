"""`treetop recipes`: the list of recipes, and the settings and scores of each."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Any

import typer

from treetop.cli import completion
from treetop.cli.streams import echo
from treetop.core.errors import ConfigError


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(help="Show one recipe: its idea, presets and settings.", autocompletion=completion.recipes),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(help="Show the values of this preset instead of the defaults.", autocompletion=completion.presets),
    ] = "default",
    every: Annotated[bool, typer.Option("--all", help="Show every setting, not only the main ones.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every setting.")] = False,
) -> None:
    """List recipes, or show one with its settings."""
    from treetop.core import registry

    if name is not None:
        _show(name, preset, every, as_json)
        return
    if preset != "default":
        raise ConfigError("--preset: needs a recipe. Name the recipe too.")
    rows = [summary(recipe) for recipe in registry.names("recipe")]
    rows += [summary(name, "augment") for name in registry.names("augment")]
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("recipe", "group", "what it does", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["name"], row["group"], row["summary"])
    Console().print(table)


def summary(recipe: str, question: str = "recipe") -> dict[str, Any]:
    """Name, group, first sentence and measured scores of a recipe, or of an augmentation."""
    import ast

    from treetop.core import registry

    tree = ast.parse(registry.source(question, recipe))  # read, not imported: torch may be missing
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "GROUP"
    }
    first = str(ast.get_docstring(tree)).splitlines()[0]
    return {
        "name": recipe,
        "group": constants.get("GROUP", "plug-in" if question == "recipe" else "augmentation"),
        "summary": first,
        "scores": _scores().get(recipe, {}),
    }


def _scores() -> dict[str, Any]:
    """Measured scores by recipe and data set, as `make docs` wrote them."""
    from importlib.resources import files

    return json.loads((files("treetop") / "recipes" / "scores.json").read_text(encoding="utf-8"))


def _show(name: str, preset: str, every: bool, as_json: bool) -> None:
    from treetop.augment.compose import split_name
    from treetop.core import registry
    from treetop.training import plan, presets

    augments = registry.names("augment")
    alone = name in augments
    before, base = ([], name) if alone or "+" not in name else split_name(name)
    if alone and preset != "default":
        raise ConfigError(f"--preset {preset}: an augmentation has no presets. Show a recipe, or {name}+RECIPE.")
    question = "augment" if alone else "recipe"
    module = registry.find(question, base)
    config = None if alone else plan(name, preset=preset).config  # refuses invalid combinations
    added = [row for part in before for row in _settings(registry.find("augment", part), f"{part}.")]
    settings = [*added, *_settings(module, config=config)]
    about = summary(base, question)
    if as_json:
        full = {**about, "name": name, "preset": preset, "presets": presets(base), "settings": settings}
        if before:
            full["scores"] = {}  # those of the recipe alone
        echo(json.dumps(full, indent=1, default=list))
        return
    from rich.console import Console

    console = Console()
    console.print(f"[bold]{name}[/bold] ({about['group']})\n")
    for part in (*(registry.find("augment", part) for part in before), module):
        console.print(_paragraphs(part.__doc__), "", markup=False, highlight=False, sep="\n")
    if alone:
        console.print(f"written before a recipe, as in {name}+lightxml; set as --set {name}.setting=value\n")
    else:
        console.print(f"presets: {', '.join(presets(base))}\n")
    shown = settings if every else [*added, *_main(settings[len(added) :])]
    for line in _table(shown, preset, console.width):
        echo(line)
    if more := len(settings) - len(shown):
        echo(f"\n… {more} more: `treetop recipes {name} --all`")


def _main(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The main settings only."""
    from treetop.core.overview import main_rows

    return [row for _, row in main_rows([(row["name"], row) for row in settings])]


def _table(settings: list[dict[str, Any]], preset: str, width: int) -> list[str]:
    """Lines of names, values and hints; names and values are never truncated (users copy them), hints are wrapped."""
    names = max((len(row["name"]) for row in settings), default=0)
    values = max((len(_said(row["default"])) for row in settings), default=0)
    values = min(max(values, len(preset)), 20)
    lines = [f"{'setting':{names}}  {preset:{values}}  what it does"] if settings else []
    for row in settings:
        value = _said(row["default"])
        hints = textwrap.wrap(_with_choices(row), max(30, width - names - values - 4)) or [""]
        first = [] if len(value) <= values else [f"{row['name']:{names}}  {value}"]
        start = f"{'' if first else row['name']:{names}}  {'' if first else value:{values}}"
        lines += [
            *first,
            f"{start}  {hints[0]}".rstrip(),
            *(f"{'':{names + values + 2}}  {hint}" for hint in hints[1:]),
        ]
    return lines


def _settings(module: Any, before: str = "", config: Any = None) -> list[dict[str, Any]]:
    from treetop.core.config import describe

    described = describe(module.Config, defaults=config)
    rows = [dict(zip(("name", "type", "default", "help"), row, strict=True)) for row in described]
    return [{**row, "name": f"{before}{row['name']}"} for row in rows]


def _said(value: Any) -> str:
    """A value as --set takes it."""
    return json.dumps(value).strip('"')


def _with_choices(row: dict[str, Any]) -> str:
    """The help of a setting, followed by its allowed values if they are restricted."""
    if not row["type"].startswith("Literal["):
        return str(row["help"])
    choices = row["type"].removeprefix("Literal[").removesuffix("]").replace("'", "")
    return f"{row['help']} ({choices})"


def _paragraphs(text: str | None) -> str:
    """A docstring without line breaks inside paragraphs, so that it wraps well at any width."""
    return "\n\n".join(" ".join(part.split()) for part in str(text).strip().split("\n\n"))
