"""Why a model gives a text its labels: the way to each through every member, with the words behind each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treetop.core.errors import ConfigError
from treetop.core.types import Level, View
from treetop.explain.path import Step, walk
from treetop.explain.words import Word, words
from treetop.features.namespaced import with_terms
from treetop.model import Label, Model
from treetop.predict.blend import proportions


class SeenStep(NamedTuple):
    """One level of the way to a label, and its words by size of contribution."""

    step: Step
    words: list[Word]


@dataclass(frozen=True)
class Explanation:
    """A predicted label with its way through each member."""

    label: Label
    members: list[list[SeenStep]]


def explain(model: Model, text: str, k: int) -> list[Explanation]:
    """See `Model.explain`."""
    views, found = model.views([text]), []
    weights, overlay = proportions(model.weights, len(model.members)), model.overlay
    for label, column in zip(model.predict(text, k), model.rank([text], k).ids.tolist(), strict=True):
        sources = [column] if overlay is None else overlay.sources(column)
        ways = [[_walk(model, m, views, source) for m in range(len(model.members))] for source in sources]
        best = max(ways, key=lambda way: np.dot(weights, [s[-1].score for s in way]))  # whose score the label has
        members = [
            [_seen(model, level, step) for level, step in zip(member, steps, strict=True)]
            for member, steps in zip(model.members, best, strict=True)
        ]
        found.append(Explanation(label, members))
    return found


def _walk(model: Model, m: int, views: Mapping[str, View], column: int) -> list[Step]:
    try:
        return walk(model.members[m], views, column)
    except ConfigError:
        if not model.card.models:
            raise
        recipe = model.card.recipes(len(model.members))[m]
        raise ConfigError(
            f"explain: this is a {model.card.title}, and '{recipe}' has no terms to show for its part of the score. "
            "Explain the linear models it was made of."
        ) from None


def _seen(model: Model, level: Level, step: Step) -> SeenStep:
    features = with_terms(model.features, level.view)
    terms = features.terms if features is not None else lambda columns: [f"feature {c}" for c in columns]
    return SeenStep(step, words(step, terms))
