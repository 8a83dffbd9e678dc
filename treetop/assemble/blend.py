"""Trained models joined into one: their scores averaged, or fused as held-out documents teach.

The members of all models stand side by side, and a model's weight is shared out among its own. Features that hold the
same data are kept once; others of the same name are kept apart under a name of their own (`features/namespaced.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from treetop.assemble.held_out.fusion import Aim
from treetop.assemble.held_out.scores import check_unseen, fused, provisional
from treetop.core.card import BLEND, Card
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError, InputError
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Features, Level
from treetop.features.namespaced import Namespaced
from treetop.model import Model, load
from treetop.predict.blend import Blend, check_blend, check_too_small, check_weights, proportions

NOTHING = Texts.of([])


def blend(
    models: Iterable[Model | str | Path],
    weights: Sequence[float] | None = None,
    how: Blend = "average",
    *,
    held_out: Dataset | None = None,
    aim: Aim = "balanced",
) -> Model:
    """One model of several (models or their folders) that joins their scores. All models must know the same labels.

    With `held_out`, documents that none of them was trained on, the fusion of their scores is learnt, for the ranking
    that `aim` asks for: balanced, precision or tail, and the model is calibrated. Without it scores are averaged, each
    model at its weight, however many members it has; without weights all count the same. Choose weights on held-out
    rows, never on test.

    >>> import treetop
    >>> texts, labels = ["a cat", "a dog", "a cow"] * 2, [["pet", "cat"], ["pet", "dog"], ["cow"]] * 2
    >>> both = [treetop.fit(recipe, texts, labels) for recipe in ("xr_linear", "extremetext")]
    >>> treetop.blend(both, weights=[4, 1]).predict("a cow", k=1)[0].name
    'cow'
    """
    if not isinstance(models, (str, Path, Model, Iterable)):
        raise InputError(f"blend: expected models or their folders, got {type(models).__name__}. Give a list.")
    asked = [models] if isinstance(models, (str, Path, Model)) else list(models)
    if len(asked) < 2:
        raise InputError(f"blend: {len(asked)} model. Give two or more, or their folders.")
    check_blend(how, [])
    given = check_weights(() if weights is None else weights, len(asked), "models") or (1.0,) * len(asked)
    check_too_small(given)
    if held_out is not None and weights:
        raise ConfigError("weights: they are learnt on the held-out documents. Give weights or held_out, not both.")
    opened = [_opened(model, place) for place, model in enumerate(asked, 1)]
    _check_labels(opened)
    if held_out is None:
        _check_scores(opened, how)
    else:
        for _, model in opened:
            check_unseen(model, held_out)
    models_, first = [model for _, model in opened], opened[0][1]
    joined = side_by_side(models_, given, how, learn=held_out is not None)
    joined = replace(joined, card=_card(models_, given, how, held_out, aim))
    if held_out is not None:
        joined = fused(joined, held_out, aim, joined.card.seed)
    if not all(model.golden for model in models_):  # one of them reads ready-made features, not texts
        return joined
    return joined.with_golden(Texts.of([str(row["text"]) for row in first.golden]))


def side_by_side(models: Sequence[Model], weights: Sequence[float], how: Blend, *, learn: bool) -> Model:
    """The members of all models in one, their features pooled; with `learn` a fusion of its sources is to be learnt."""
    first, pool, members, shares = models[0], _Pool(), list[list[Level]](), list[float]()
    for model, weight in zip(models, weights, strict=True):
        views = pool.take(model.features)
        members += [[replace(at, view=views.get(at.view, at.view)) for at in levels] for levels in model.members]
        parts = proportions(model.weights, len(model.members))
        shares += [weight * part / sum(parts) for part in parts]
    uneven = tuple(shares) if len(set(shares)) > 1 else ()
    untaught = provisional([source for model in models for source in _sources(model)]) if learn else None
    return Model(
        first.labels, pool.features(), members, first.counts, first.n_train, first.card, how, weights=uneven,
        fusion=untaught,
    )  # fmt: skip


def _sources(model: Model) -> Sequence[tuple[int, Blend]]:
    """The members of each source of a model, and how they are averaged."""
    return [(len(model.members), model.blend)] if model.fusion is None else model.fusion.sources


def _opened(model: Model | str | Path, place: int) -> tuple[str, Model]:
    """(what messages call it, the model as it was trained)"""
    if not isinstance(model, (str, Path, Model)):
        raise InputError(f"model {place}: expected a model or its folder, got {type(model).__name__}.")
    # every hash is looked at, as the blend gets hashes of its own, under which damage would pass for intact
    name, found = (f"model {place}", model) if isinstance(model, Model) else (str(model), load(model, check="full"))
    if found.edits is not None and (changes := len(found.edits.live())):
        raise InputError(
            f"{name}: its labels were changed after training (changes: {changes}). Undo the changes in a copy "
            "(`treetop labels undo`; in Python use model.trained), and change the labels of the blend instead."
        )
    return name, found.trained


def _check_labels(opened: Sequence[tuple[str, Model]]) -> None:
    """Refuse models of different labels."""
    (name, first), *others = opened
    for other, model in others:
        if unlike := _unlike(first.labels.ids, model.labels.ids):
            raise InputError(
                f"{other}: other labels than {name}: {unlike}. A blend needs the same labels in the same order; "
                "train its models with the same label file."
            )
    data = first.card.origin(first.n_train)
    if foreign := [other for other, model in others if data.differs(model.card.origin(model.n_train))]:
        said = ", ".join(foreign)
        logger.warning("%s: trained on other data than %s, whose training counts the blend keeps", said, name)


def _check_scores(opened: Sequence[tuple[str, Model]], how: Blend) -> None:
    """Refuse models whose scores have no common average."""
    for other, model in opened:
        if model.fusion is not None:
            raise ConfigError(
                f"{other}: the fusion of its members is learnt, so that it has no average with others. Give documents "
                "that no model was trained on (--held-out), and the fusion of all is learnt."
            )
        if len(model.members) > 1 and model.blend != how:
            raise ConfigError(
                f"{other}: its {len(model.members)} members are blended by '{model.blend}', not by '{how}'. Blend by "
                f"'{model.blend}' (--how), or train it with blend={how}."
            )
        try:
            check_blend(how, [levels[-1].join for levels in model.members])
        except ConfigError as error:
            raise ConfigError(f"{other}: {error}") from None


def _unlike(ours: Texts, theirs: Texts) -> str:
    """How labels differ, in words; nothing where they do not."""
    if np.array_equal(ours.offsets, theirs.offsets) and np.array_equal(ours.blob, theirs.blob):
        return ""
    counts = f"{len(theirs):,} against {len(ours):,}, " if len(ours) != len(theirs) else ""
    if not counts and set(ours) == set(theirs):
        counts = "in another order, "
    pairs = enumerate(itertools.zip_longest(theirs, ours), 1)
    place, (one, other) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
    there, here = ("none" if label is None else f"'{label}'" for label in (one, other))
    return f"{counts}the first that differs is number {place:,}, {there} against {here}"


def _card(models: Sequence[Model], weights: Sequence[float], how: str, held_out: Dataset | None, aim: Aim) -> Card:
    made_of: list[dict[str, Any]] = [
        {
            "recipe": model.card.recipe,
            "seal": model.seal,
            "weight": weight,
            "members": len(model.members),
            "seed": model.card.seed,
            "data": dict(model.card.data),
            "settings": dict(model.card.config),
        }
        for model, weight in zip(models, weights, strict=True)
    ]
    joined = {"how": how} if held_out is None else {"how": f"learnt, {aim}", "held_out": held_out.fingerprint}
    return Card(BLEND, {**joined, "models": made_of}, models[0].card.seed, models[0].card.data)


class _Pool:
    """The features of all models: in groups, the first without a name, in each of which views have one meaning."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Features]] = {"": {}}
        self._views: dict[str, set[str]] = {"": set()}
        self._parts: list[tuple[str, Part]] = []

    def take(self, features: Mapping[str, Features]) -> dict[str, str]:
        """Take in a model's features; returns what each of its views is called here."""
        names: dict[str, str] = {}
        for group, key, item in _flat(features):
            part, views = item.to_part(), list(item.views(NOTHING))
            here = next((found for found, held in self._parts if held.same(part)), None)
            if here is None:
                here = next(name for name in _names(group) if self._has_room(name, key, views))
                self._groups.setdefault(here, {})[key] = item
                self._views.setdefault(here, set()).update(views)
                self._parts.append((here, part))
            for view in views:  # of two features with the same view the first counts
                names.setdefault(_under(group, view), _under(here, view))
        return names

    def _has_room(self, name: str, key: str, views: Iterable[str]) -> bool:
        taken = self._groups if name == "" else self._groups[""]  # groups and features without one stand side by side
        fresh = (key if name == "" else name) not in taken
        return fresh and key not in self._groups.get(name, {}) and self._views.get(name, set()).isdisjoint(views)

    def features(self) -> dict[str, Features]:
        """All of them, as a model holds them."""
        lone, *named = self._groups.items()
        return {**lone[1], **{name: Namespaced(name, held) for name, held in named}}


def _flat(features: Mapping[str, Features]) -> Iterator[tuple[str, str, Features]]:
    """(group, key, features) of each, those of a blend out of their groups."""
    for key, item in features.items():
        if isinstance(item, Namespaced):
            yield from ((item.name, inner, held) for inner, held in item.held.items())
        else:
            yield "", key, item


def _names(wish: str) -> Iterator[str]:
    """Groups to look for room in."""
    yield wish
    yield from (f"model-{n}" for n in itertools.count(2))


def _under(group: str, view: str) -> str:
    return f"{group}/{view}" if group else view
