"""Early stopping goes by documents held out of training: refused where a recipe's settings hold out none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treetop.core.errors import ConfigError


def check_patience(settings: Mapping[str, Any]) -> None:
    """Refuse `patience` in a recipe's settings (plain values) without a share of `validation`."""
    validation = settings.get("validation")
    for name, values in settings.items():
        if validation or not isinstance(values, Mapping) or not values.get("patience"):
            continue
        if validation is None:
            missing, remedy = "this recipe holds out none", f"Leave {name}.patience at 0."
        else:
            missing, remedy = "validation is 0", f"Set validation=0.1, or {name}.patience=0."
        raise ConfigError(
            f"{name}.patience: early stopping goes by documents held out of training, and {missing}. {remedy}"
        )
