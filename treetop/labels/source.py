"""What a label description is made from; a description is a function `describe(source) -> Z` (labels x features)."""

from __future__ import annotations

from dataclasses import dataclass

from treetop.core.dataset import Csr, LabelSet
from treetop.core.errors import ConfigError
from treetop.core.types import Features


@dataclass(frozen=True, eq=False)
class Source:
    """Rows are documents only; `features` made `X` as their view `view`, None if precomputed."""

    name: str  # the description asked for
    dataset: str
    X: Csr
    Y: Csr
    labels: LabelSet
    features: Features | None
    view: str
    normalise_targets: bool = True

    @property
    def text_features(self) -> Features:
        """The features, for descriptions that read label texts."""
        if self.features is None:
            raise ConfigError(
                f"label_features: '{self.name}' needs texts, but {self.dataset} has precomputed features. Use pifa."
            )
        return self.features
