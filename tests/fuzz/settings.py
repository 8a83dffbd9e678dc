"""Settings of every recipe and augmentation: a plan with a finite forecast, or a TreetopError; quick ones are trained.

A case takes a recipe, with or without augmentations, and gives some of its settings values that fit, nearly fit or do
not fit at all, as a dict or as `--set` strings. What is planned and foreseen to be small is trained on a toy.
"""

from __future__ import annotations

import functools
import json
import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

import toy
import treetop
from treetop.core import registry
from treetop.core.config import build, describe
from treetop.core.errors import TreetopError
from treetop.core.forecast import parse_budget
from treetop.training import Plan, plan

from .harness import Case, Part, main

TRAINED = ("popular", "neighbours", "dismec", "xr_linear", "parabel", "bonsai", "extremetext")
MOST_SECONDS, MOST_BYTES, LONGEST = 10.0, 1e9, 2_000  # of what is trained; of a message
WORDS = ("", " ", "auto", "default", "none", "null", "tfidf", "mean", "1", "1e5", "5e-5", "nan", "a,b=c", "../..", "/")
ODD = (
    "\x00",
    "\x1b[31mred\x1b[0m",
    "\ud800",
    "a\u202eb",
    "é" * 3,
    "\n",
    "𝔘",
    "'\"`",
    "{}",
    "[1",
    ": :",
    "%s{0}",
    "x" * 500,
)
BEYOND = 10**5000  # Python does not show numbers of so many digits
WHOLE = (0, 1, 2, 3, 5, 8, 33, 100, 1000, 10**6, 2**31, 2**62, 2**63, 10**40, -1, -7, -(2**63), -(10**400), BEYOND)
REAL = (0.0, -0.0, 0.5, 0.9999, 1.0, 1.5, 1e-300, 5e-324, 1e300, -1.0, math.nan, math.inf, -math.inf)
BUDGETS = ("memory=1GB", "time=1s", "model=1B", "memory=0B", "memory=1..GB", "memory=٣GB", "time=9e9h", "=", "memory")
EXACT = {int: WHOLE, float: (*REAL, *WHOLE), bool: (True, False), str: (*WORDS, *ODD)}


def prepare(home: Path, options: Namespace) -> None:
    """A toy encoder, so that forecasts of neural recipes read a real folder; and kernels that are compiled."""
    from toy_encoder import write_encoder

    write_encoder(home / "encoder")
    for recipe in TRAINED:
        trained(recipe, {}, toy.dataset())


@functools.cache
def known(question: str, name: str) -> list[tuple[str, str, Any, str]]:
    """The settings of a recipe or an augmentation."""
    return describe(registry.find(question, name).Config, path=name if question == "augment" else "")


def pick(random: np.random.Generator, values: Any) -> Any:
    """One of some values, as it is."""
    return values[int(random.integers(len(values)))]


def value(random: np.random.Generator, hint: str, default: Any, home: Path) -> Any:
    """A value that fits the setting, its neighbour by type, or anything."""
    dice = random.random()
    if dice < 0.15:
        return default
    if dice < 0.30 and "Literal" in hint:
        return pick(random, [word.strip(" '\"") for word in hint.partition("[")[2].strip("]").split(",")])
    if dice < 0.35:
        return str(home / "encoder")
    if dice < 0.65 and type(default) in EXACT:
        return pick(random, EXACT[type(default)])
    return anything(random)


def anything(random: np.random.Generator, depth: int = 0) -> Any:
    """A value of any kind, lists and groups of such values among them."""
    kind = int(random.integers(8 if depth < 3 else 6))
    if kind < 4:
        return pick(random, EXACT[(int, float, bool, str)[kind]])
    if kind < 6:
        return pick(random, (None, (), [], {}, b"bytes", {1, 2}, object, np.int64(3), np.float32("nan"), np.zeros(2)))
    items = [anything(random, depth + 1) for _ in range(int(random.integers(4)))]
    return items if kind == 6 else {pick(random, (*WORDS, *ODD, 3, None)): item for item in items}


def recipe_name(random: np.random.Generator) -> str:
    """A recipe, sometimes with augmentations before it, sometimes no recipe at all."""
    names = [pick(random, registry.names("recipe"))]
    while random.random() < 0.3:
        names.insert(0, pick(random, registry.names("augment")))
    if random.random() < 0.02:
        names.insert(int(random.integers(len(names) + 1)), pick(random, (*WORDS, *ODD)))
    return "+".join(names)


def settings(random: np.random.Generator, recipe: str, home: Path) -> Any:
    """Some settings of a recipe, as a nested dict or as strings."""
    *before, base = recipe.split("+")
    rows = [row for name in before if name in registry.names("augment") for row in known("augment", name)]
    rows += known("recipe", base) if base in registry.names("recipe") else []
    chosen = [pick(random, rows) for _ in range(int(random.integers(4)))] if rows else []
    pairs = [(path, value(random, hint, default, home)) for path, hint, default, _ in chosen]
    if random.random() < 0.1:
        pairs.append((str(pick(random, (*WORDS, *ODD))), anything(random)))
    if any(row[0] == "encoder.model" for row in rows) and random.random() < 0.8:
        pairs.append(("encoder.model", str(home / "encoder")))
    if random.random() < 0.4:
        return [f"{path}={text(item)}" for path, item in pairs]
    return nested(pairs)


def text(item: Any) -> str:
    """A value as somebody may write it behind `--set`."""
    try:
        return str(item)
    except ValueError:  # BEYOND, or a list of it
        return "9" * 5000


def nested(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Dotted names as groups; a name that is a group and a value at once keeps the value."""
    made: dict[str, Any] = {}
    for path, item in pairs:
        *groups, last = path.split(".")
        node = made
        for group in groups:
            node = node.setdefault(group, {})
            if not isinstance(node, dict):
                break
        else:
            node[last] = item
    return made


def case(case: Case) -> str:
    """Plan, foresee, check the budget, and train what is small."""
    recipe = recipe_name(case.random)
    given = settings(case.random, recipe, case.home)
    data = toy.dataset()
    try:
        planned = plan(recipe, settings=given)
        check_same(planned)
        needs = planned.forecast(data)
        numbers = (needs.memory, needs.model, needs.time)
        assert all(math.isfinite(n) and n >= 0 for n in numbers), (recipe, given, needs)
        assert needs.describe().isprintable()
        needs.check(parse_budget(pick(case.random, BUDGETS)) if case.random.random() < 0.1 else {}, None)
    except TreetopError as error:
        assert 0 < len(str(error)) <= LONGEST, (recipe, given, str(error)[:LONGEST])
        raise
    if recipe.split("+")[-1] in TRAINED and needs.time < MOST_SECONDS and needs.memory < MOST_BYTES:
        return trained(recipe, given, data)
    return "planned"


def check_same(planned: Plan) -> None:
    """What a plan says of its settings is JSON, and the same settings again."""
    plain = json.loads(json.dumps(planned.settings, allow_nan=False))
    names = {a.name for a in planned.augmentations}
    again = build(planned.module.Config, {key: item for key, item in plain.items() if key not in names})
    assert again == planned.config, (planned.recipe, plain)


def trained(recipe: str, given: Any, data: Any) -> str:
    """A model that answers with finite scores."""
    model = treetop.fit(recipe, data, settings=given, threads=1)
    ranking = model.rank([*data.texts[:5], "", "\x00 cat"], 7)
    assert len(ranking) == 7 and np.isfinite(ranking.score).all(), (recipe, given)
    return "trained"


for name in registry.names("recipe"):  # once, and not in every child
    registry.find("recipe", name)
PART = Part("settings", case, prepare, batch=500)

if __name__ == "__main__":
    main(PART, module="tests.fuzz.settings")
