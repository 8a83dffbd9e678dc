"""Trained models joined into one: their scores are averaged, or fused by a model fitted on held-out documents.

The blend has the members of all models, and each model's weight is divided among its members. Features with the same
data are stored once; different features of the same name get namespaces (`features/namespaced.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from treetop.assemble.held_out.fusion import Aim
from treetop.assemble.held_out.scores import check_unseen, fused, unfitted_fusion
from treetop.core.card import BLEND, CALIBRATED, Card
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
    """Join several models (or their folders) into one that combines their scores. All must have the same labels.

    With `held_out`, documents that none of them was trained on, a fusion of their scores is learned and the blend is
    calibrated; `aim` chooses the kind of ranking: balanced, precision or tail. Without it, scores are averaged, with
    one weight per model, however many members it has; the default is equal weights. Choose weights on held-out rows,
    never on test.

    >>> import treetop
    >>> texts, labels = ["a cat", "a dog", "a cow"] * 2, [["pet", "cat"], ["pet", "dog"], ["cow"]] * 2
    >>> both = [treetop.fit(recipe, texts, labels) for recipe in ("xr_linear", "extremetext")]
    >>> treetop.blend(both, weights=[4, 1]).predict("a cow", k=1)[0].name
    'cow'
    """
    if not isinstance(models, (str, Path, Model, Iterable)):
        raise InputError(f"blend: expected models or their folders, got {type(models).__name__}. Give a list.")
    sources = [models] if isinstance(models, (str, Path, Model)) else list(models)
    if len(sources) < 2:
        raise InputError(f"blend: {len(sources)} model. Give two or more, or their folders.")
    check_blend(how, [])
    given = check_weights(() if weights is None else weights, len(sources), "models") or (1.0,) * len(sources)
    check_too_small(given)
    if held_out is not None and weights:
        raise ConfigError("weights: they are learned on the held-out documents. Give weights or held_out, not both.")
    opened = [_opened(model, number) for number, model in enumerate(sources, 1)]
    _check_labels(opened)
    if held_out is None:
        _check_scores(opened, how)
    else:
        for _, model in opened:
            check_unseen(model, held_out)
    trained, first = [model for _, model in opened], opened[0][1]
    joined = side_by_side(trained, given, how, learn=held_out is not None)
    joined = replace(joined, card=_card(trained, given, how, held_out, aim))
    if held_out is not None:
        joined = fused(joined, held_out, aim, joined.card.seed)
    if not all(model.golden for model in trained):  # one of them reads precomputed features, not texts
        return joined
    return joined.with_golden(Texts.of([str(row["text"]) for row in first.golden]))


def side_by_side(models: Sequence[Model], weights: Sequence[float], how: Blend, *, learn: bool) -> Model:
    """A model with the members and features of all; with `learn`, it has a fusion that is still to be fitted."""
    first, pool, members, shares = models[0], _Pool(), list[list[Level]](), list[float]()
    for model, weight in zip(models, weights, strict=True):
        views = pool.add(model.features)
        members += [[replace(at, view=views.get(at.view, at.view)) for at in levels] for levels in model.members]
        parts = proportions(model.weights, len(model.members))
        shares += [weight * part / sum(parts) for part in parts]
    uneven = tuple(shares) if len(set(shares)) > 1 else ()
    fusion = unfitted_fusion([source for model in models for source in _sources(model)]) if learn else None
    return Model(
        first.labels, pool.features(), members, first.counts, first.n_train, first.card, how, weights=uneven,
        fusion=fusion, bars_self=any(model.bars_self for model in models),
    )  # fmt: skip


def _sources(model: Model) -> Sequence[tuple[int, Blend]]:
    """The sources of a model: the number of members of each, and how they are averaged."""
    return [(len(model.members), model.blend)] if model.fusion is None else model.fusion.sources


def _opened(model: Model | str | Path, number: int) -> tuple[str, Model]:
    """(its name in messages, the model as it was trained)"""
    if not isinstance(model, (str, Path, Model)):
        raise InputError(f"model {number}: expected a model or its folder, got {type(model).__name__}.")
    # every hash is checked: the blend gets new hashes, which would hide damage to its models
    name, opened = (f"model {number}", model) if isinstance(model, Model) else (str(model), load(model, check="full"))
    if opened.edits is not None and (changes := len(opened.edits.live())):
        raise InputError(
            f"{name}: its labels were changed after training (changes: {changes}). Undo the changes in a copy "
            "(`treetop labels undo`; in Python use model.trained), and change the labels of the blend instead."
        )
    return name, opened.trained


def _check_labels(opened: Sequence[tuple[str, Model]]) -> None:
    """Refuse models of different labels."""
    (name, first), *others = opened
    for other, model in others:
        if difference := _difference(first.labels.ids, model.labels.ids):
            raise InputError(
                f"{other}: other labels than {name}: {difference}. A blend needs the same labels in the same order; "
                "train its models with the same label file."
            )
    data = first.card.origin(first.n_train)
    if foreign := [other for other, model in others if data.differs(model.card.origin(model.n_train))]:
        names = ", ".join(foreign)
        logger.warning("%s: trained on other data than %s; the blend keeps the label counts of the latter", names, name)


def _check_scores(opened: Sequence[tuple[str, Model]], how: Blend) -> None:
    """Refuse models whose scores cannot be averaged."""
    for other, model in opened:
        if model.fusion is not None:
            raise ConfigError(
                f"{other}: its members are joined by a learned fusion, so its scores cannot be averaged with others. "
                "Give documents that no model was trained on (--held-out), to learn a fusion of all."
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


def _difference(ours: Texts, theirs: Texts) -> str:
    """How two lists of labels differ, in words; empty if they are equal."""
    if np.array_equal(ours.offsets, theirs.offsets) and np.array_equal(ours.blob, theirs.blob):
        return ""
    counts = f"{len(theirs):,} against {len(ours):,}, " if len(ours) != len(theirs) else ""
    if not counts and set(ours) == set(theirs):
        counts = "in another order, "
    pairs = enumerate(itertools.zip_longest(theirs, ours), 1)
    number, pair = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    their_label, our_label = ("none" if label is None else f"'{label}'" for label in pair)
    return f"{counts}the first that differs is number {number:,}, {their_label} against {our_label}"


def _card(models: Sequence[Model], weights: Sequence[float], how: str, held_out: Dataset | None, aim: Aim) -> Card:
    parts: list[dict[str, Any]] = [
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
    data = {name: value for name, value in models[0].card.data.items() if name != CALIBRATED}
    return Card(BLEND, {**joined, "models": parts}, models[0].card.seed, data)


class _Pool:
    """The features of all models, in namespaces (the first has no name); a view is unique within its namespace."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, Features]] = {"": {}}
        self._views: dict[str, set[str]] = {"": set()}
        self._parts: list[tuple[str, Part]] = []

    def add(self, features: Mapping[str, Features]) -> dict[str, str]:
        """Add a model's features; returns the new name of each of its views."""
        renamed: dict[str, str] = {}
        for space, key, item in _flat(features):
            part, views = item.to_part(), list(item.views(NOTHING))
            target = next((stored for stored, other in self._parts if other.same(part)), None)
            if target is None:
                target = next(name for name in _names(space) if self._is_free(name, key, views))
                self._spaces.setdefault(target, {})[key] = item
                self._views.setdefault(target, set()).update(views)
                self._parts.append((target, part))
            for view in views:  # of two features with the same view the first counts
                renamed.setdefault(_qualified(space, view), _qualified(target, view))
        return renamed

    def _is_free(self, space: str, key: str, views: Iterable[str]) -> bool:
        taken = self._spaces if space == "" else self._spaces[""]  # a model lists both under one set of names
        unused = (key if space == "" else space) not in taken
        return unused and key not in self._spaces.get(space, {}) and self._views.get(space, set()).isdisjoint(views)

    def features(self) -> dict[str, Features]:
        """All features, as a model lists them: those of a namespace as one."""
        unnamed, *named = self._spaces.items()
        return {**unnamed[1], **{name: Namespaced(name, inner) for name, inner in named}}


def _flat(features: Mapping[str, Features]) -> Iterator[tuple[str, str, Features]]:
    """(namespace, key, features) of all, those inside namespaces one by one."""
    for key, item in features.items():
        if isinstance(item, Namespaced):
            yield from ((item.name, inner, nested) for inner, nested in item.held.items())
        else:
            yield "", key, item


def _names(preferred: str) -> Iterator[str]:
    """Namespaces to try, in this order."""
    yield preferred
    yield from (f"model-{n}" for n in itertools.count(2))


def _qualified(space: str, view: str) -> str:
    return f"{space}/{view}" if space else view
