"""Where a model comes from, and the same as a model card in the form model hubs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treetop.core.version import VERSION


@dataclass(frozen=True)
class Card:
    """Where a model comes from: recipe, settings, seed and a fingerprint of its data."""

    recipe: str
    config: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


UNSAVED = Card("unsaved")


def readme(card: Card, n_labels: int, n_train: int) -> str:
    """The README.md of a model folder: where the model comes from and how to ask it."""
    data = "\n".join(f"- {key}: {value}" for key, value in sorted(card.data.items()))
    settings = json.dumps(card.config, indent=1, ensure_ascii=False, sort_keys=True)
    return (
        "---\nlibrary_name: treetop\npipeline_tag: text-classification\ntags: [extreme-multi-label]\n---\n"
        f"# {card.recipe} over {n_labels:,} labels\n\n"
        f"Trained by treetop {VERSION} on {n_train:,} texts, seed {card.seed}.\n\n{data}\n\n"
        "    import treetop\n    model = treetop.load('.')\n    model.predict('some text', k=5)\n\n"
        "The folder holds data only: nothing in it can run code. `treetop verify` checks every byte.\n\n"
        f"## Settings\n\n```json\n{settings}\n```\n"
    )
