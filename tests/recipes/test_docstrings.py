"""Docstrings of recipes and augmentations name the settings that these have today."""

import importlib
import re

import pytest

from treetop.core import registry
from treetop.core.renamed import NAMES
from treetop.training import plan

RECIPES, AUGMENTATIONS = registry.names("recipe"), registry.names("augment")


def paths(values, before=""):
    """Names of all settings, with their groups."""
    for name, value in values.items():
        yield before + name
        if isinstance(value, dict):
            yield from paths(value, f"{before}{name}.")


@pytest.mark.parametrize("name", [*RECIPES, *AUGMENTATIONS])
def test_settings_in_docstrings_exist(name):
    package = "recipes" if name in RECIPES else "augment"
    text = importlib.import_module(f"treetop.{package}.{name}").__doc__
    known = {*paths(plan(name).settings if name in RECIPES else plan(f"{name}+renee").settings[name]), *RECIPES}
    for code in re.findall(r"`([^`]+)`", text):
        for found, assigned in re.findall(r"(?:^|, )([a-z_.]+[a-z])(=|: )?", code):
            leaf = found.rpartition(".")[2]
            if assigned or leaf in NAMES or any(path.endswith(f".{found}") for path in known):
                assert found in known, f"`{code}`: write today's name, with its group"
