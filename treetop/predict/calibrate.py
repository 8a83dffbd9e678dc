"""Calibration: maps from a score to the share of labels with this score that were right on held-out documents.

There is one non-decreasing, piecewise linear map for each of three bins of label frequency (isotonic regression, fitted
by `assemble/held_out/calibration.py`). The table of cuts has precision and recall of the labels at or above each
threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError, ModelError
from treetop.core.part_checks import DAMAGED, floats, whole
from treetop.core.store import Part
from treetop.core.types import Floats
from treetop.kernels.interpolate import interpolate

BOUNDS = (10, 100)  # training texts of a tail label and of a torso label, at most; labels with more are the head
BINS = len(BOUNDS) + 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """The maps of all bins, and precision and recall of thresholds on the documents they were fitted on."""

    kind: ClassVar[str] = "calibration.isotonic.1"

    knots: Floats  # (2, bins, length) scores and probabilities, both ascending
    cuts: Floats  # (3, length) ascending thresholds; precision and mean recall of the labels at or above each
    documents: int  # number of held-out documents it was fitted on

    def probabilities(self, score: Floats, counts: NDArray[np.integer]) -> Floats:
        """Probabilities of labels with these scores and label frequencies."""
        return interpolate(np.ascontiguousarray(score, np.float32), np.asarray(counts, np.int64), BOUNDS, self.knots)

    def threshold_for_precision(self, precision: float) -> float | None:
        """The lowest threshold at which the precision was at least this; None where there is none."""
        _check_share("precision", precision)
        threshold, reached, _ = self.cuts
        enough = np.flatnonzero(reached >= precision)
        return float(threshold[enough[0]]) if len(enough) else None

    def threshold_for_recall(self, recall: float) -> float:
        """The highest threshold whose labels are expected to hold this share of a document's true labels.

        Conformal risk control: one document more, with nothing found, must not lower the recall below the level.
        """
        _check_share("recall", recall)
        threshold, _, reached = self.cuts
        most = float(reached[0]) * self.documents / (self.documents + 1)
        if recall > most:
            raise ConfigError(
                f"recall: {recall:g} is out of reach. Even its best 100 labels hold {most:.3f} of a document's true "
                "labels on held-out documents. Ask for less."
            )
        return float(threshold[np.flatnonzero(reached * self.documents / (self.documents + 1) >= recall)[-1]])

    def threshold_for_f1(self) -> float:
        """The threshold at which the harmonic mean of precision and mean recall was highest; of equals the highest."""
        threshold, precision, recall = self.cuts.astype(np.float64)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        return float(threshold[len(f1) - 1 - np.argmax(f1[::-1])])

    def to_part(self) -> Part:
        return Part(self.kind, {"documents": self.documents}, {"knots": self.knots, "cuts": self.cuts})

    @classmethod
    def from_part(cls, part: Part) -> Calibration:
        knots, cuts = floats(part, "knots", 2, BINS, None), floats(part, "cuts", 3, None)
        shares = (knots[1], cuts)
        sound = knots.size and cuts.size and all((a.min() >= 0) and (a.max() <= 1) for a in shares)
        if not sound or (np.diff(knots, axis=2) < 0).any() or (np.diff(cuts[0]) < 0).any():
            raise ModelError(f"{part.kind}: its maps fall or leave the range from 0 to 1. {DAMAGED}")
        return cls(knots, cuts, whole(part, "documents", 1))


def frequency_bin(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """0 (tail, labels without training texts too), 1 (torso) or 2 (head)."""
    return np.searchsorted(BOUNDS, counts, side="left")


def _check_share(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ConfigError(f"{name}: {value:g} is out of range. Allowed is above 0, up to 1.")
