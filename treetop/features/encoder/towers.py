"""A text as the vectors a dual encoder compares: one per head, concatenated for the search.

The encoder's vector goes through each head: a linear layer and a tanh where there are any, then to length 1 where the
head compares directions. `search` joins the heads, each at its weight, so that one inner product adds their scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from treetop.core.abilities import CutsTexts, Gradient, HasFastForm, MovesToDevice, Shares, SharesOut
from treetop.core.errors import ModelError
from treetop.core.part_checks import floats
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Floats
from treetop.features.encoder.transformer import Transformer
from treetop.features.pullback import Pullback, affine, linear, normalised
from treetop.features.views import Views
from treetop.tensors import devices
from treetop.tensors.rows import DeviceRows

NAMES = ("dual", "classifier")  # of the heads; levels and new labels find their views by them


@dataclass(frozen=True, eq=False)
class Tower:
    """From the encoder's vector to that of one head; `factor` is its weight in a search over several."""

    name: str
    weight: Floats | None = None  # (dimension, width)
    bias: Floats | None = None
    tanh: bool = False
    unit: bool = True
    factor: float = 1.0

    def vectors(self, base: Floats) -> Floats:
        """(rows, dimension)"""
        projected = base if self.weight is None else base @ self.weight.T
        projected = projected if self.bias is None else projected + self.bias
        projected = np.tanh(projected) if self.tanh else projected
        if self.unit:
            projected = projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-12)
        return projected.astype(np.float32, copy=False)

    def scaled(self, base: Floats) -> Floats:
        """(rows, dimension) its part of a search vector."""
        result: Floats = np.float32(self.factor) * self.vectors(base)
        return result

    def before(self, outer: Pullback) -> Pullback:
        """A function of this head's vectors as one of the encoder's."""
        return affine(normalised(outer) if self.unit else outer, self.weight, self.bias, tanh=self.tanh)


class DeviceTower:
    """The same on a device: its torch twin."""

    def __init__(self, tower: Tower, device: torch.device) -> None:
        self.tower = tower
        self.weight, self.bias = (
            None if array is None else torch.from_numpy(np.array(array)).to(device)
            for array in (tower.weight, tower.bias)
        )

    def vectors(self, base: Tensor) -> Tensor:
        """(rows, dimension)"""
        projected = base if self.weight is None else base @ self.weight.T
        projected = projected if self.bias is None else projected + self.bias
        projected = projected.tanh() if self.tower.tanh else projected
        return F.normalize(projected, dim=1) if self.tower.unit else projected


class Towers(MovesToDevice, HasFastForm, SharesOut, CutsTexts):
    """Views of texts by a transformer and the heads on it.

    `encoder/dual` and `encoder/classifier` are the heads' vectors; `encoder/search` joins them, each at its weight, and
    `encoder/search-dual`, `encoder/search-classifier` are its parts.
    """

    kind: ClassVar[str] = "features.towers.1"

    def __init__(self, transformer: Transformer, towers: Sequence[Tower]) -> None:
        self.transformer, self.towers = transformer, tuple(towers)
        self._there = [DeviceTower(tower, transformer.device) for tower in towers] if transformer.keeps_views else []

    @property
    def name(self) -> str:
        return self.transformer.name

    def view_name(self, tower: str = "search") -> str:
        """What a level calls the vectors of a head."""
        return f"{self.name}/{tower}"

    def views(self, texts: Texts) -> Mapping[str, Any]:
        views_ = self.transformer.views(texts)
        base = self.transformer.view_name(self.transformer.poolings[0])
        if self._there:
            chosen = {"search": [(item.tower.factor, item) for item in self._there]}
            for item in self._there:
                name = item.tower.name
                chosen |= {name: [(1.0, item)], f"search-{name}": [(item.tower.factor, item)]}
            return Views({self.view_name(name): partial(_joined, views_, base, some) for name, some in chosen.items()})
        makers: dict[str, Any] = {self.view_name(): lambda: self.join(views_[base])}
        for tower in self.towers:
            makers |= {
                self.view_name(tower.name): lambda tower=tower: tower.vectors(views_[base]),
                self.view_name(f"search-{tower.name}"): lambda tower=tower: tower.scaled(views_[base]),
            }
        return Views(makers)

    def cut(self, texts: Texts) -> Mapping[int, NDArray[np.bool_]]:
        return self.transformer.cut(texts)

    def join(self, base: Floats) -> Floats:
        """The search vectors of the encoder's vectors."""
        return np.hstack([tower.scaled(base) for tower in self.towers])

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        if view == self.view_name():
            outers = [self._before(gradient) for gradient in gradients]
        else:
            factors = {self.view_name(tower.name): (1.0, tower) for tower in self.towers}
            factors |= {self.view_name(f"search-{tower.name}"): (tower.factor, tower) for tower in self.towers}
            if view not in factors:
                return None
            factor, tower = factors[view]
            outers = [tower.before(linear(np.float32(factor) * gradient.weights)) for gradient in gradients]
        return self.transformer.shares_of(text, self.transformer.poolings[0], outers)

    def _before(self, gradient: Gradient) -> Pullback:
        """A function of the search vector as one of the encoder's vector: the sum of what its heads' parts say."""
        outers, start = [], 0
        for tower in self.towers:
            width = self._width(tower)
            part = np.float32(tower.factor) * gradient.weights[start : start + width]
            outers.append(tower.before(linear(part)))
            start += width

        def whole(H: Floats) -> tuple[Floats, Floats]:
            found = [outer(H) for outer in outers]
            return sum(values for values, _ in found), sum(G for _, G in found)  # type: ignore[return-value]

        return whole

    def _width(self, tower: Tower) -> int:
        """Columns of a head's vectors."""
        if tower.weight is not None:
            return len(tower.weight)
        return self.transformer.encoder.view_width(self.transformer.poolings[0])

    def to(self, device: torch.device) -> Towers:
        """The same on another device."""
        moved = self.transformer.to(device)
        return self if moved is self.transformer else Towers(moved, self.towers)

    def fast(self) -> Towers:
        """The same with the encoder's fast form."""
        return Towers(self.transformer.fast(), self.towers)

    def to_part(self) -> Part:
        arrays: dict[str, Floats] = {}
        for tower in self.towers:
            arrays |= {f"{tower.name}.weight": tower.weight} if tower.weight is not None else {}
            arrays |= {f"{tower.name}.bias": tower.bias} if tower.bias is not None else {}
        flags = [{"name": t.name, "tanh": t.tanh, "unit": t.unit, "factor": t.factor} for t in self.towers]
        return Part(self.kind, {"towers": flags}, arrays, {"encoder": self.transformer.to_part()})

    @classmethod
    def from_part(cls, part: Part) -> Towers:
        transformer = Transformer.from_part(part.parts["encoder"])
        width = transformer.encoder.view_width(transformer.poolings[0])
        towers = [_tower(item, part, width) for item in part.setting("towers", list)]
        names = [tower.name for tower in towers]
        if not names or len(set(names)) < len(names) or not set(names) <= set(NAMES):
            raise ModelError(
                f"{part.kind}: its heads are {names!r:.100}; known are {' and '.join(NAMES)}, each at most once. "
                "The model is damaged; copy it again."
            )
        return cls(transformer, towers)


def _joined(views: Mapping[str, Any], base: str, towers: Sequence[tuple[float, DeviceTower]]) -> DeviceRows:
    """What towers make of the encoder's vectors on a device, each at its weight."""
    vectors = views[base].tensor
    with torch.inference_mode(), devices.full_precision():
        return DeviceRows(torch.cat([factor * tower.vectors(vectors) for factor, tower in towers], 1))


def _tower(item: Any, part: Part, width: int) -> Tower:
    kinds = {"name": str, "tanh": bool, "unit": bool, "factor": float}
    sound = isinstance(item, dict) and {key: type(value) for key, value in item.items()} == kinds
    if not sound or not np.isfinite(item["factor"]):
        raise ModelError(f"{part.kind}: {item!r} does not describe a head. The model is damaged; copy it again.")
    name = item["name"]
    weight = floats(part, f"{name}.weight", None, width) if f"{name}.weight" in part.arrays else None
    has_bias = f"{name}.bias" in part.arrays and weight is not None
    bias = floats(part, f"{name}.bias", len(weight)) if has_bias and weight is not None else None
    return Tower(name, weight, bias, item["tanh"], item["unit"], item["factor"])
