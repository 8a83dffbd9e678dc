"""Names of answers: (question, name) -> "module:object", imported only when asked for.

Every stage answers a question under short names. Built-in answers are listed in `TABLE`; other packages add theirs
through the entry-point group `treetop` with names like `rank.mine` or `recipe.mine`. Saved models refer to these
names, never to Python paths.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from treetop.core.errors import ConfigError, did_you_mean

TABLE: dict[str, dict[str, str]] = {
    "data": {"read": "treetop.data.read:read", "frame": "treetop.data.frame:from_frame"},
    "features": {"tfidf": "treetop.features.tfidf:Tfidf"},
    "shortlist": {"everything": "treetop.shortlist.everything:Everything"},
    "rank": {
        "popular": "treetop.rank.popular:Popular",
        "neighbours": "treetop.rank.neighbours:Neighbours",
    },
    "recipe": {
        "popular": "treetop.recipes.popular",
        "neighbours": "treetop.recipes.neighbours",
    },
}


@cache
def _plugins(question: str) -> dict[str, str]:
    prefix = question + "."
    return {
        point.name[len(prefix) :]: point.value
        for point in entry_points(group="treetop")
        if point.name.startswith(prefix)
    }


def names(question: str) -> list[str]:
    """All answers to a question, built-in ones first."""
    built_in = TABLE[question]
    return [*built_in, *(name for name in sorted(_plugins(question)) if name not in built_in)]


def find(question: str, name: str) -> Any:
    """The object behind a name; importing it is the first time its module (and torch, if it needs it) loads."""
    target = TABLE[question].get(name) or _plugins(question).get(name)
    if target is None:
        known = names(question)
        raise ConfigError(
            f"{question}: unknown name '{name}'. Choose one of {', '.join(known)}.{did_you_mean(name, known)}"
        )
    module, _, attribute = target.partition(":")
    loaded: Any = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
