"""Where a model answers: its encoders and label vectors on the CPU (or in a faster form there) or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from treetop.core.abilities import HasFastForm, MovesToDevice, check_device
from treetop.core.log import logger
from treetop.core.types import Features, Level


def device_of(features: Mapping[str, Features], name: str) -> Any:
    """The device (`torch.device`) behind a name for a model with these features; None where it has nothing to move.

    Ranks move with the encoders whose vectors they read, so features decide.
    """
    check_device(name)
    if not any(isinstance(item, MovesToDevice) and item.movable for item in features.values()):
        if name.startswith("cuda"):
            logger.info("device: nothing in this model runs on a GPU, so it answers on the CPU.")
        return None
    from treetop.tensors import devices

    return devices.pick(name)


def features_on(features: Mapping[str, Features], device: Any) -> dict[str, Features]:
    """The same features, those that can on the device."""
    return {name: item.to(device) if isinstance(item, MovesToDevice) else item for name, item in features.items()}


def members_on(members: Sequence[Sequence[Level]], device: Any) -> list[list[Level]]:
    """The same levels, ranks on the device where they can be."""
    return [
        [
            replace(level, rank=level.rank.to(device)) if isinstance(level.rank, MovesToDevice) else level
            for level in item
        ]
        for item in members
    ]


def fast_features(features: Mapping[str, Features]) -> dict[str, Features]:
    """The same features, those that have one in their fast form."""
    return {name: item.fast() if isinstance(item, HasFastForm) else item for name, item in features.items()}


def fast_members(members: Sequence[Sequence[Level]]) -> list[list[Level]]:
    """The same levels, ranks in their fast form where they have one."""
    return [
        [replace(level, rank=level.rank.fast()) if isinstance(level.rank, HasFastForm) else level for level in item]
        for item in members
    ]
