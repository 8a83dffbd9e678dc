"""Extreme multi-label text classification: from a text to the few right labels out of thousands or millions.

>>> import treetop
>>> model = treetop.fit("popular", ["a cat", "a dog"], [["animal", "cat"], ["animal"]])
>>> model.predict("a mouse", k=1)[0].name
'animal'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from treetop.core.version import VERSION as __version__

if TYPE_CHECKING:
    from treetop import hub
    from treetop import sklearn as sklearn
    from treetop.assemble.adapt import adapt
    from treetop.assemble.blend import blend
    from treetop.core.dataset import Dataset
    from treetop.core.executor.ray import cluster
    from treetop.data.parse.skipped import Skipped
    from treetop.model import Model, load
    from treetop.training import fit

__all__ = ["Dataset", "Model", "Skipped", "__version__", "adapt", "blend", "cluster", "fit", "hub", "load"]
_HOMES = {
    "Dataset": "treetop.core.dataset",
    "Model": "treetop.model",
    "Skipped": "treetop.data.parse.skipped",
    "adapt": "treetop.assemble.adapt",
    "blend": "treetop.assemble.blend",
    "cluster": "treetop.core.executor.ray",
    "fit": "treetop.training",
    "load": "treetop.model",
}
_MODULES = ("hub", "sklearn")  # sklearn is not in __all__: `from treetop import *` must not need scikit-learn


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import treetop` and `treetop --help` stay fast."""
    if name in _MODULES:
        return importlib.import_module(f"treetop.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'treetop' has no attribute '{name}'. Public names: {', '.join(__all__)}.")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
