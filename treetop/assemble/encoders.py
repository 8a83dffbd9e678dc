"""Names of encoders in settings: those on a hub stand for one commit before anything is trained with them.

The commit is part of the model's settings then, so that the same settings get the same encoder, whatever its owner
publishes later.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from treetop.core.log import logger
from treetop.features.encoder.sources import pinned

ENCODER = "encoder"  # the setting, wherever there is one: a name, or settings whose `model` is it


def pin(config: Any, *, say: bool = False) -> Any:
    """A recipe's settings with the commit of every encoder that a hub would be asked for."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name == ENCODER and isinstance(value, str) and value:
            changed[field.name] = _said(value, say)
        elif field.name == ENCODER and dataclasses.is_dataclass(value) and not isinstance(value, type):
            named = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
            if name := named.get("model"):
                changed[field.name] = dataclasses.replace(value, model=_said(name, say))
    return dataclasses.replace(config, **changed) if changed else config


def _said(name: str, say: bool) -> str:
    there = pinned(name)
    if say and there != name:
        logger.info("encoder %s: it is %s now; the model's settings keep this", name, there)
    return there
