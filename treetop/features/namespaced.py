"""Namespaced features: the same views under a prefix.

In a blend, two models may both have a view `tfidf` with different words; the second one becomes `model-2/tfidf`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from treetop.core import registry
from treetop.core.abilities import MovesToDevice, NamesTerms
from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Features
from treetop.features.views import Views


class Namespaced(MovesToDevice):
    """Views of `held` (name -> Features), called `name/view`."""

    kind: ClassVar[str] = "features.apart.1"

    def __init__(self, name: str, held: Mapping[str, Features]) -> None:
        self.name, self.held = name, dict(held)

    def views(self, texts: Texts) -> Mapping[str, Any]:
        makers: dict[str, Any] = {}
        for features in self.held.values():
            inner = features.views(texts)
            for view in inner:
                makers.setdefault(f"{self.name}/{view}", lambda inner=inner, view=view: inner[view])
        return Views(makers)

    @property
    def movable(self) -> bool:
        return any(isinstance(item, MovesToDevice) and item.movable for item in self.held.values())

    def to(self, device: Any) -> Namespaced:
        """The same with its encoders on another device."""
        held = {name: item.to(device) if isinstance(item, MovesToDevice) else item for name, item in self.held.items()}
        return Namespaced(self.name, held)

    def to_part(self) -> Part:
        return Part(self.kind, {"name": self.name}, {}, {key: item.to_part() for key, item in self.held.items()})

    @classmethod
    def from_part(cls, part: Part) -> Namespaced:
        name = part.setting("name", str)
        if not name or "/" in name or not part.parts:
            raise ModelError(
                f"{cls.kind}: no name ({name!r}) or no features inside. The model is damaged; copy it again."
            )
        return cls(name, {key: registry.restore(item, "features") for key, item in part.parts.items()})


def with_terms(features: Mapping[str, Features], view: str) -> NamesTerms | None:
    """The features behind a view, if they can name the terms of its columns; else None."""
    name, _, inner = view.partition("/")
    apart = features.get(name)
    held, own = (apart.held, inner) if isinstance(apart, Namespaced) else (features, view)
    found = held.get(own.partition("-")[0])  # `fused-1` is a view of `fused`
    return found if isinstance(found, NamesTerms) else None
