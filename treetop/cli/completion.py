"""What a shell may complete: names of recipes, their presets and settings (`treetop --install-completion`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer


def recipes(incomplete: str) -> list[str]:
    """Names of recipes; behind an augmentation and a plus, too."""
    from treetop.core import registry

    before, plus, last = incomplete.rpartition("+")
    names = [*registry.names("recipe"), *(f"{name}+" for name in registry.names("augment"))]
    return [f"{before}{plus}{name}" for name in names if name.startswith(last)]


def presets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Presets of the recipe that was named before."""
    from treetop.training import presets as known

    return [name for name in known(_base(ctx)) if name.startswith(incomplete)]


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Settings of the recipe that was named before, each up to the equals sign."""
    from treetop.core.errors import TreetopError
    from treetop.training import plan

    try:
        known = plan(_base(ctx)).settings
    except TreetopError:  # no such recipe, or an extra is missing
        return []
    return [f"{name}=" for name in _names(known) if name.startswith(incomplete)]


def _base(ctx: typer.Context) -> str:
    """The recipe on the line so far, without augmentations; behind an unfinished option arguments have no names yet."""
    named = ctx.params.get("recipe") or ctx.params.get("name") or next(iter(ctx.args), "")
    return str(named).rpartition("+")[2]


def _names(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
