"""Names such as `gandalf+lightxml`: which augmentations precede which recipe, and whether it has the hooks they need.

A recipe names its places in `HOOKS`: "rows" (it trains on rows that are not documents), "soft" (targets between 0 and
1 mean probabilities), "sample" (some rows are there but not learned from), "mix" and "penalty". It is read from the
source, so that torch need not be there; a recipe without it has no places.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from treetop.augment.offers import Offers
from treetop.core import registry
from treetop.core.config import build
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError, did_you_mean, shown
from treetop.core.forecast import Forecast
from treetop.core.renamed import translated
from treetop.core.work import Job

PLACES = {
    "rows": "training rows that are not documents",
    "soft": "soft targets",
    "sample": "documents that are counted but not trained on",
    "mix": "mixed rows",
    "penalty": "a regulariser on label vectors",
}


@dataclass(frozen=True)
class Augmentation:
    """An augmentation with its settings."""

    name: str
    module: Any
    config: Any

    @property
    def offers(self) -> Offers:
        """What it provides."""
        return self.module.OFFERS

    @property
    def needs(self) -> list[str]:
        """The hooks it needs in a recipe."""
        return self.module.needs(self.config)


def split_name(recipe: str) -> tuple[list[str], str]:
    """(augmentations, recipe) of a name; each part is looked up, the last must be a recipe.

    >>> split_name("gandalf+lightxml")
    (['gandalf'], 'lightxml')
    """
    *before, base = (part.strip() for part in recipe.split("+"))
    known = registry.names("augment")
    if base in known and base not in registry.names("recipe"):
        raise ConfigError(f"recipe: '{base}' is an augmentation. Write it before a recipe, as in {base}+lightxml.")
    for name in before:
        if name in registry.names("recipe") and name not in known:
            raise ConfigError(
                f"recipe: '{name}' in '{recipe}' is a recipe, and only the last part may be one. "
                f"Augmentations are {', '.join(known)}."
            )
        if name not in known:
            listed, hint = ", ".join(known), did_you_mean(name, known)
            raise ConfigError(f"recipe: unknown augmentation '{name}' in '{recipe}'. Choose one of {listed}.{hint}")
        if before.count(name) > 1:
            raise ConfigError(f"recipe: '{name}' appears twice in '{recipe}'. Name it once.")
    return before, base


def current_names(recipe: str, settings: Any) -> Any:
    """Settings that an older version saved for this recipe, under the names of this version."""
    base, kinds = recipe.rpartition("+")[2], {"augment": registry.names("augment"), "recipe": registry.names("recipe")}
    if not isinstance(settings, Mapping):
        return settings
    added = {key: value for key, value in settings.items() if key in kinds["augment"] and isinstance(value, Mapping)}
    rest = {key: value for key, value in settings.items() if key not in added}
    if base in kinds["recipe"]:
        rest = translated(registry.find("recipe", base).Config, rest)
    return rest | {key: translated(registry.find("augment", key).Config, value) for key, value in added.items()}


def augmentation(name: str, values: Any) -> Augmentation:
    """An augmentation with its settings, given as plain values."""
    module = registry.find("augment", name)
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name}: expected settings inside, as {name}.x=..., got {shown(values)}.")
    return Augmentation(name, module, build(module.Config, values, path=name))


def with_augmentations(needs: Forecast, augmentations: Sequence[Augmentation], dataset: Dataset) -> Forecast:
    """A recipe's forecast including additional rows and graphs."""
    for a in augmentations:
        n, more = max(1, len(dataset)), 0.0
        if a.offers.added is not None and "rows" in a.needs:
            more = a.offers.added(dataset, a.config)
        texts = more / n * len(dataset.texts.blob)  # as long as the documents, at most
        memory, seconds = needs.memory + 2.0 * max(0.0, texts), needs.time * max(0.0, 1.0 + more / n)
        if a.offers.forecast is not None:
            graph = a.offers.forecast(dataset, a.config)
            memory, seconds = max(memory + 24.0 * graph.entries, graph.memory), seconds + graph.time
        needs = replace(needs, memory=memory, time=seconds, copies=0.0)
    return needs


def check_hooks(augmentations: Sequence[Augmentation], base: str) -> None:
    """Refuse a recipe that lacks a hook an augmentation needs."""
    places = places_of(base) if augmentations else ()
    for augmentation in augmentations:
        for need in augmentation.needs:
            if need not in places:
                raise ConfigError(
                    f"{augmentation.name}+{base}: '{base}' does not support {PLACES[need]}. "
                    f"Recipes that do: {', '.join(recipes_with(need)) or 'none'}."
                )


def recipes_with(place: str) -> list[str]:
    """Recipes that have a hook."""
    return [name for name in registry.names("recipe") if place in places_of(name)]


def places_of(recipe: str) -> tuple[str, ...]:
    """The hooks a recipe lists in `HOOKS`."""
    return tuple(constant(recipe, "HOOKS", ()))


def constant(recipe: str, name: str, default: Any) -> Any:
    """A constant of a recipe's module, whose source is parsed, not imported."""
    for node in ast.parse(registry.source("recipe", recipe)).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    return default


def augmented(augmentations: Sequence[Augmentation], dataset: Dataset, job: Job) -> tuple[Dataset, Job]:
    """The data set with all additional rows, and the job with the hooks; rows come first in any order of names."""
    for a in augmentations:
        if a.offers.rows is not None:
            dataset = a.offers.rows(dataset, a.config, job)
    for a in augmentations:
        if a.offers.mix is not None and (mix := a.offers.mix(dataset, a.config, job)) is not None:
            job = replace(job, mix=_only(a, job.mix, mix))
    for a in augmentations:
        if a.offers.penalty is not None and (penalty := a.offers.penalty(dataset, a.config, job)) is not None:
            job = replace(job, penalty=_only(a, job.penalty, penalty))
    return dataset, job


def _only(a: Augmentation, before: Any, offered: Any) -> Any:
    if before is not None:
        raise ConfigError(f"{a.name}: another augmentation does this already. Name one of them only.")
    return offered
