"""Namespaced features: the same views under a prefix.

In a blend, two models may both have a view `tfidf` with different words; the second one becomes `model-2/tfidf`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core import registry
from treetop.core.abilities import CutsTexts, Gradient, HasFastForm, MovesToDevice, Shares, SharesOut
from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Features
from treetop.features.views import Views, merged_cuts


class Namespaced(MovesToDevice, HasFastForm, SharesOut, CutsTexts):
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

    def cut(self, texts: Texts) -> Mapping[int, NDArray[np.bool_]]:
        return merged_cuts(item.cut(texts) for item in self.held.values() if isinstance(item, CutsTexts))

    @property
    def movable(self) -> bool:
        return any(isinstance(item, MovesToDevice) and item.movable for item in self.held.values())

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        return shares(self.held, text, view.removeprefix(f"{self.name}/"), gradients)

    def to(self, device: Any) -> Namespaced:
        """The same with its encoders on another device."""
        held = {name: item.to(device) if isinstance(item, MovesToDevice) else item for name, item in self.held.items()}
        return Namespaced(self.name, held)

    def fast(self) -> Namespaced:
        """The same with the fast forms of what it holds."""
        held = {name: item.fast() if isinstance(item, HasFastForm) else item for name, item in self.held.items()}
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


def shares(
    features: Mapping[str, Features], text: str, view: str, gradients: Sequence[Gradient]
) -> list[Shares] | None:
    """What the words of a text add to linear functions of a view, by the features that make it; None: not known."""
    nothing = Texts.of([])
    for item in features.values():
        if view in item.views(nothing):
            return item.shares(text, view, gradients) if isinstance(item, SharesOut) else None
    return None
