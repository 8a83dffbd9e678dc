"""Which settings are tried: the defaults, every single change of one, then random combinations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from treetop.augment.compose import constant
from treetop.core import registry
from treetop.core.errors import ConfigError

Settings = dict[str, Any]  # by dotted names


def space(recipe: str) -> dict[str, list[Any]]:
    """The values a recipe lists in `TUNES`."""
    found: dict[str, list[Any]] = constant(recipe.rpartition("+")[2], "TUNES", {})
    if not found:
        known = ", ".join(name for name in registry.names("recipe") if constant(name, "TUNES", {}))
        raise ConfigError(f"tune: '{recipe}' lists no settings to try. Recipes that do: {known}.")
    return found


def value_of(settings: Mapping[str, Any], name: str) -> Any:
    """The value behind a dotted name, tuples as lists."""
    value: Any = settings
    for part in name.split("."):
        value = value[part]
    return list(value) if isinstance(value, tuple) else value


def proposals(values: Mapping[str, list[Any]], now: Mapping[str, Any], count: int, seed: int) -> list[Settings]:
    """At most `count` changes of the settings `now`; the first is none."""
    others = {name: [v for v in listed if v != value_of(now, name)] for name, listed in values.items()}
    random = np.random.default_rng(seed)
    singles = [{name: value} for name, listed in others.items() for value in listed]
    made: list[Settings] = [{}, *(singles[i] for i in random.permutation(len(singles)))]
    seen = {key(each) for each in made}
    for _ in range(20 * count):
        if len(made) >= count:
            break
        drawn = {n: listed[int(random.integers(len(listed)))] for n, listed in others.items() if random.random() < 0.5}
        if key(drawn) not in seen:
            seen.add(key(drawn))
            made.append(drawn)
    return made[: max(1, count)]


def key(settings: Settings) -> str:
    """The same text for the same settings."""
    return json.dumps(settings, sort_keys=True)


def as_words(settings: Settings) -> str:
    """Settings as `--set` takes them."""
    parts = []
    for name, value in settings.items():
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        parts.append(f"--set {name}={text}")
    return " ".join(parts)


def nested(settings: Settings) -> dict[str, Any]:
    """Dotted names as settings inside settings."""
    made: dict[str, Any] = {}
    for name, value in settings.items():
        *parents, last = name.split(".")
        node = made
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return made
