"""A model at the prompt and in a notebook: what it is, not all it holds."""

from __future__ import annotations

from html import escape

from treetop.core.card import Card
from treetop.core.dataset import LabelSet
from treetop.predict.calibrate import Calibration


class ShowsItself:
    """A model's side that is printed."""

    labels: LabelSet
    card: Card
    n_train: int
    calibration: Calibration | None

    def __repr__(self) -> str:
        return f"Model({', '.join(f'{name}: {value}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self._facts())
        return f"<table>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        calibration = self.calibration
        sure = "no" if calibration is None else f"from {calibration.documents:,} held-out documents"
        facts = [("recipe", self.card.recipe or "none"), ("labels", f"{len(self.labels):,}")]
        return [*facts, ("training texts", f"{self.n_train:,}"), ("probabilities", sure)]
