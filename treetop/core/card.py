"""Where a model comes from, also as a model card for model hubs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from treetop.core.errors import ModelError, shortened, visible
from treetop.core.version import VERSION

LONGEST = 300  # characters of a value in a model card
# Nothing that Markdown or HTML reads as more than letters.
_HARMLESS = re.compile(r"(?!.*www\.)[\w .,+%()/'-]*")
BLEND = "blend"  # in the place of a recipe's name
CALIBRATED = "calibrated_on"  # in `data`: the hash of the documents that `treetop calibrate` was given


class Origin(NamedTuple):
    """The data a model was trained on: its hash (empty if unknown) and its number of documents."""

    sha256: str
    n_train: int

    def differs(self, other: Origin) -> bool:
        """Whether the data differ; by number of documents if a hash is missing."""
        place = 0 if self.sha256 and other.sha256 else 1
        return self[place] != other[place]


@dataclass(frozen=True)
class Card:
    """Where a model comes from: recipe, settings, seed and a fingerprint of its data."""

    recipe: str
    config: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Card:
        """The card in the manifest of a model."""
        kinds = {"recipe": str, "config": dict, "seed": int, "data": dict}
        values: dict[str, Any] = {name: manifest.get(name) for name in kinds}
        if any(type(values[name]) is not kind for name, kind in kinds.items()):
            raise ModelError(
                "manifest.json lacks the recipe, its settings, the seed or the data. Copy the model again."
            )
        return cls(**values)

    @property
    def models(self) -> list[Mapping[str, Any]]:
        """The models a blend was made of (recipe, seal, weight and more of each); none in a model that was trained."""
        found = self.config.get("models") if self.recipe == BLEND else None
        return [model for model in found if isinstance(model, Mapping)] if isinstance(found, list) else []

    def origin(self, n_train: int) -> Origin:
        """The origin of a model that was trained on so many documents."""
        return Origin(str(self.data.get("sha256", "")), n_train)

    def with_calibration(self, fingerprint: str) -> Card:
        """The card of the model with probabilities that were fitted anew, on the data with this hash."""
        return replace(self, data={**self.data, CALIBRATED: fingerprint})

    def calibrated_on(self, fingerprint: str) -> bool:
        """Whether the probabilities were fitted on the data with this hash: after training, else during it."""
        given = self.data.get(CALIBRATED)
        return self.fused_on(fingerprint) if given is None else given == fingerprint

    def fused_on(self, fingerprint: str) -> bool:
        """Whether training or blending fitted a fusion or probabilities on the data with this hash."""
        if self.models:  # what the first of them was calibrated on is not in the blend
            return self.config.get("held_out") == fingerprint
        # 0 documents: they were given, but too few.
        return self.data.get("held_out") != 0 and fingerprint in str(self.data.get("hold_out"))

    def recipes(self, n: int) -> list[str]:
        """The recipe that trained each of the model's `n` members."""
        named = self.data.get("members")
        if isinstance(named, list) and len(named) == n and all(isinstance(name, str) for name in named):
            return [str(name) for name in named]
        found: list[str] = []
        for model in self.models:  # one of them may be a blend itself
            settings = model.get("settings")
            inner = Card(str(model.get("recipe")), settings if isinstance(settings, Mapping) else {})
            found += inner.recipes(min(n, _count(model.get("members"))))
        return found if len(found) == n else [self.recipe] * n

    @property
    def title(self) -> str:
        """The recipe; of a blend also what it was made of, with weights."""
        made_of = ", ".join(f"{model.get('recipe')} ({_plain(model.get('weight'))})" for model in self.models)
        return f"{self.recipe} of {made_of}" if made_of else self.recipe


UNSAVED = Card("unsaved")


def readme(card: Card, n_labels: int, n_train: int) -> str:
    """The README.md of a model folder: where the model comes from and how to use it."""
    data = "\n".join(f"- {_inert(key)}: {_inert(value)}" for key, value in sorted(card.data.items()))
    settings = json.dumps(card.config, indent=1, ensure_ascii=False, sort_keys=True)
    settings = "\n".join(map(visible, settings.split("\n")))
    origin = f"Trained by treetop {VERSION} on {n_train:,} texts, seed {card.seed}."
    if card.models:
        each = "\n".join(f"- {_line(model)}" for model in card.models)
        origin = (
            f"A blend by treetop {VERSION} of models that were trained before:\n\n{each}\n\n"
            f"Counts of texts are those of the first, which was trained on {n_train:,} texts, seed {card.seed}."
        )
    return (
        "---\nlibrary_name: treetop\npipeline_tag: text-classification\ntags: [extreme-multi-label]\n---\n"
        f"# {_inert(card.title)} over {n_labels:,} labels\n\n"
        f"{origin}\n\n{data}\n\n"
        "    import treetop\n    model = treetop.load('.')\n    model.predict('some text', k=5)\n\n"
        "The folder holds data only: nothing in it can run code. `treetop verify` checks every byte.\n\n"
        f"## Settings\n\n```json\n{settings}\n```\n"
    )


def _line(model: Mapping[str, Any]) -> str:
    """One model of a blend."""
    seal = f"seal {_inert(model['seal'])}" if model.get("seal") else "never saved"
    return f"{_inert(model.get('recipe'))}, weight {_inert(_plain(model.get('weight')))}, {seal}"


def _inert(value: object) -> str:
    """A value as Markdown text: unchanged if harmless, else as code, which is not interpreted.

    >>> _inert("wordnet"), _inert("<b>"), _inert("a`b")
    ('wordnet', '`<b>`', '``a`b``')
    """
    text = visible(shortened(str(value), LONGEST))
    if _HARMLESS.fullmatch(text):
        return text
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _count(members: Any) -> int:
    return members if type(members) is int else 0


def _plain(weight: Any) -> str:
    return f"{weight:g}" if isinstance(weight, float) else str(weight)
