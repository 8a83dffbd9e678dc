"""Documentation made from the code: `docs/cli.md` from the commands, `docs/api.md` from public functions and classes,
`docs/examples.md` from `examples/`, `docs/recipes/` and `docs/augmentations/` from docstrings and settings.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treetop.assemble.adapt import OBJECTIVES
from treetop.core import registry

WHEN = {
    "popular": "as a floor for every score: the same labels for every text.",
    "lexical": "with label names that occur in texts: a few hundred training texts, many rare labels; in a blend with "
    "`xr_linear` for rare labels.",
    "neighbours": "as a first model: seconds to train, no tuning, weak with very many labels.",
    "dismec": "small data on a CPU where every label has a few texts and precision counts most.",
    "xr_linear": "the default on a CPU: fast, small, explainable, up to millions of labels.",
    "parabel": "as `xr_linear`, where the published three binary trees are wanted.",
    "bonsai": "as `xr_linear`, for many rare labels: wide trees lose fewer of them.",
    "extremetext": "for calibrated probabilities from a tree.",
    "pfastrexml": "where the published trees over documents are wanted, for rare labels; linear label trees are more "
    "precise.",
    "lightxml": "texts of a sentence or more, a GPU, up to some hundred thousand labels.",
    "cascadexml": "as `lightxml` with more labels: a head for every level of the label tree.",
    "xr_transformer": "long texts and up to millions of labels on a GPU; with preset `cpu` without one.",
    "x_transformer": "as `xr_transformer`, which follows it: this one fine-tunes on one level of clusters only.",
    "attentionxml": "long texts on a GPU without a transformer; its attention shows which words a label reads.",
    "xmlcnn": "as a baseline: a small convolutional network over words for up to some ten thousand labels.",
    "inceptionxml": "short texts such as titles and queries, without label texts, on a CPU or a GPU.",
    "inceptionxml_lf": "short texts with label texts, on a CPU or a GPU.",
    "astec": "short texts, very many labels, small fast models on a CPU.",
    "decaf": "short texts with label texts on a CPU.",
    "eclare": "as `decaf`, where labels that occur together help rare ones.",
    "renee": "label texts and a GPU that holds all label vectors; strong on head labels.",
    "simcse": "as a baseline: what in-batch negatives alone achieve; `depsl` trains as long and finds more.",
    "graphsage": "as a baseline: label vectors from label texts and training texts by a graph network.",
    "depsl": "label texts, also for labels without training texts: label vectors come from text alone.",
    "dexml": "as `depsl`, where all label texts fit into a training step.",
    "siamesexml": "short texts with label texts; `unidec` and `ngame` are newer.",
    "ngame": "label texts and a GPU, trained in two stages.",
    "unidec": "the first choice with label texts and a GPU.",
}
NOTE = "<!-- made by `make docs`; edit the source instead -->"


def pages(docs: Path) -> dict[str, str]:
    """Path below docs/ -> text of every generated page; what was written by hand behind it stays."""
    from tools.docs import api

    written = {"cli.md": _commands(), "api.md": api.page(), "examples.md": _examples(docs.parent / "examples")}
    for name in registry.names("recipe"):
        written[f"recipes/{name}.md"] = _recipe(name, docs)
        written[f"settings/{name}.md"] = _reference(name)
    written |= {f"settings/adapt_{name}.md": _objective(name) for name in OBJECTIVES}
    for name in registry.names("augment"):
        written[f"augmentations/{name}.md"] = _augmentation(name) + _tail(docs / f"augmentations/{name}.md")
    return written


def _examples(folder: Path) -> str:
    """The scripts of examples/ with what they show."""
    parts = [NOTE, "# Examples", "Scripts of `examples/`: each runs in seconds, by itself, in any folder."]
    for file in sorted(folder.glob("[0-9]*.py")):
        text = file.read_text(encoding="utf-8")
        shown, code = str(ast.get_docstring(ast.parse(text))), text.partition('"""\n\n')[2]
        title = file.stem.replace("_", " ")
        parts += [f"## {title}", f"`{file.name}`: {shown}", f"```py\n{code}```"]
    return "\n\n".join(parts) + "\n"


def _tail(file: Path) -> str:
    """Hand-written results stand behind a heading `## Measured` and are kept."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    start = text.find("\n## Measured")
    return text[start:] if start >= 0 else ""


def _recipe(name: str, docs: Path) -> str:
    """One screen: idea, when to use it, command, score, main settings."""
    from treetop.core.overview import main_rows

    rows = _settings(name, "recipe")
    parts = [
        NOTE, f"# {name}", _doc(name, "recipe"), f"**When to use it:** {WHEN[name]}" if name in WHEN else "",
        f"    treetop fit {name} DATA --out model", _explains(name), _score(name, docs),
    ]  # fmt: skip
    if rows:
        parts += ["## Main settings", _table(main_rows(rows)), f"[All settings](../settings/{name}.md)"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _reference(name: str) -> str:
    """Every setting of a recipe."""
    rows = _settings(name, "recipe")
    return f"{NOTE}\n\n# Settings of {name}\n\n{_table(rows) if rows else 'None.'}\n"


def _objective(name: str) -> str:
    """Every setting of an objective of `treetop adapt`."""
    from treetop.core.config import describe

    return f"{NOTE}\n\n# Settings of treetop adapt --objective {name}\n\n{_table(describe(OBJECTIVES[name]))}\n"


def _augmentation(name: str) -> str:
    return f"{NOTE}\n\n# {name}\n\n{_doc(name, 'augment')}\n\n## Settings\n\n{_table(_settings(name, 'augment'))}\n"


def _doc(name: str, question: str) -> str:
    return str(ast.get_docstring(ast.parse(registry.source(question, name))))


def _score(name: str, docs: Path) -> str:
    """The recorded scores of the default settings on test rows, or that there are none; where measurements stand."""
    from treetop.cli.recipes import summary

    found = summary(name)["scores"]
    said = [
        f"{data} {', '.join(f'{key} {value:g}' for key, value in scores.items())}" for data, scores in found.items()
    ]
    score = (
        f"Recorded scores of the default settings: {'; '.join(said)}."
        if said
        else "No score of the default settings is on record."
    )
    more = f" More: [measurements](../measured/{name}.md)." if (docs / "measured" / f"{name}.md").exists() else ""
    return score + more


def _table(rows: Sequence[tuple[str, str, Any, str]]) -> str:
    lines = "\n".join(_row(row) for row in rows)
    return f"| setting | type | default | what it does |\n|---|---|---|---|\n{lines}"


def _explains(name: str) -> str:
    """What `treetop explain` can say about a model of this recipe."""
    told = "no words, only how often a label occurs" if name == "popular" else "the words behind a label"
    return f"`treetop explain`: `--text` shows {told}, `--label` the labels it goes with ([explain](../explain.md))."


def _row(row: tuple[str, str, Any, str]) -> str:
    name, kind, default, text = row
    kind = kind.removeprefix("Literal[").removesuffix("]").replace("'", "") if kind.startswith("Literal[") else kind
    cells = (f"`{name}`", kind, f"`{json.dumps(default)}`", text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _settings(name: str, question: str) -> list[tuple[str, str, Any, str]]:
    from treetop.core.config import describe

    return describe(registry.find(question, name).Config)


def _commands() -> str:
    from typer.main import get_command

    from treetop.cli.main import app

    blocks = [
        NOTE,
        "# Commands",
        "Progress goes to standard error, results to standard output; exit code 2 is your mistake,",
    ]
    blocks[-1] += " 1 is ours. `--json` where a program reads."
    blocks += _walk(get_command(app), "treetop")
    return "\n\n".join(blocks) + "\n"


def _walk(command: Any, path: str) -> list[str]:
    if hasattr(command, "commands"):
        return [part for name, inner in command.commands.items() for part in _walk(inner, f"{path} {name}")]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join([path, *(p.metavar or str(p.name).upper() for p in arguments)])
    blocks = [f"## {path}", str(command.help).strip(), f"    {usage}"]
    rows = [f"| {', '.join(f'`{word}`' for word in p.opts)} | {p.help or ''} |" for p in options]
    if rows:
        blocks.append("| option | what it does |\n|---|---|\n" + "\n".join(row.replace("\n", " ") for row in rows))
    return blocks
