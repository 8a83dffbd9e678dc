"""Documentation made from the code: `docs/cli.md` from the commands, `docs/recipes/` and
`docs/augmentations/` from docstrings and settings.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from treetop.core import registry

NOTE = "<!-- made by `make docs`; edit the source instead -->"


def pages(docs: Path) -> dict[str, str]:
    """Path below docs/ -> text of every generated page, with what was written by hand behind it."""
    made = {"cli.md": _commands()}
    for name in registry.names("recipe"):
        made[f"recipes/{name}.md"] = _recipe(name)
    for name in registry.names("augment"):
        made[f"augmentations/{name}.md"] = _recipe(name, "augment")
    return {name: text + _tail(docs / name) for name, text in made.items()}


def _tail(file: Path) -> str:
    """Hand-written results stand behind a heading `## Measured` and are kept."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    start = text.find("\n## Measured")
    return text[start:] if start >= 0 else ""


def _recipe(name: str, question: str = "recipe") -> str:
    source = registry.source(question, name)
    doc = str(ast.get_docstring(ast.parse(source)))
    rows = "\n".join(_row(row) for row in _settings(name, question))
    head = f"{NOTE}\n\n# {name}\n\n{doc}\n"
    if question == "recipe":
        head += f"\n{_explains(name)}\n"
    return f"{head}\n## Settings\n\n| setting | type | default | what it does |\n|---|---|---|---|\n{rows}\n"


def explainable() -> list[str]:
    """Recipes whose every level can say which words led to a label."""
    return [name for name in registry.names("recipe") if getattr(registry.find("recipe", name), "EXPLAINS", False)]


def _explains(name: str) -> str:
    """What `treetop explain` can say about a model of this recipe."""
    if name in explainable():
        return "`treetop explain`: `--text` shows the words behind a label, `--label` the labels it goes with."
    return "`treetop explain`: `--label` only (the labels a label goes with); no words behind a label (`--text`)."


def _row(row: tuple[str, str, Any, str]) -> str:
    name, kind, default, text = row
    cells = (f"`{name}`", f"`{kind}`", f"`{default}`", text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _settings(name: str, question: str) -> list[tuple[str, str, Any, str]]:
    from treetop.core.config import describe

    return describe(registry.find(question, name).Config)


def _commands() -> str:
    from typer.main import get_command

    from treetop.cli.main import app

    made = [
        NOTE,
        "# Commands",
        "Progress goes to standard error, results to standard output; exit code 2 is your mistake,",
    ]
    made[-1] += " 1 is ours. `--json` where a program reads."
    made += _walk(get_command(app), "treetop")
    return "\n\n".join(made) + "\n"


def _walk(command: Any, path: str) -> list[str]:
    if hasattr(command, "commands"):
        return [part for name, inner in command.commands.items() for part in _walk(inner, f"{path} {name}")]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join([path, *(p.metavar or str(p.name).upper() for p in arguments)])
    made = [f"## {path}", str(command.help).strip(), f"    {usage}"]
    rows = [f"| {', '.join(f'`{word}`' for word in p.opts)} | {p.help or ''} |" for p in options]
    if rows:
        made.append("| option | what it does |\n|---|---|\n" + "\n".join(row.replace("\n", " ") for row in rows))
    return made
