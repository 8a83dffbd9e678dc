"""One model as it is served: the model, what the API says about it, and its indexes, built when first asked for."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.abilities import HasNearTexts
from treetop.core.errors import ConfigError
from treetop.core.steady import file_state
from treetop.model import UNCALIBRATED, Model, load
from treetop.serve.browse import Browser
from treetop.serve.search import LabelIndex

PRECISIONS = (0.5, 0.7, 0.9)
WARM_UP = "a text to compile kernels and read the model's pages into memory"
State = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Served:
    """A model under its id; never changed, only replaced."""

    id: str
    folder: Path
    model: Model
    state: State  # of the folder it was read from
    card: str  # the folder's README.md
    loaded_at: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    _building: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, id_: str, folder: Path, device: str = "cpu", *, fast: bool = False) -> Served:
        """Read a model folder and answer one text, so that the first request is as fast as the next."""
        state = folder_state(folder)  # before: a change while it is read is noticed as a change later
        model = load(folder, device=device, fast=fast)
        if not model.answers_texts:
            raise ConfigError(
                f"{folder}: was trained on precomputed features, which a request cannot bring. Train a model on texts."
            )
        card = folder / "README.md"
        served = cls(
            id_, folder, model, state, card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        )
        model.predict([WARM_UP])
        return served

    @cached_property
    def version(self) -> str:
        """The beginning of the hash in the manifest, and how often labels were changed since."""
        edits = 0 if self.model.edits is None else len(self.model.edits.log)
        return f"{self.model.seal[:12]}+{edits}" if edits else self.model.seal[:12]

    @property
    def stamp(self) -> dict[str, str]:
        """What every answer carries."""
        return {"model": self.id, "version": self.version}

    @cached_property
    def stamp_json(self) -> str:
        return json.dumps(self.stamp)[:-1]

    @property
    def keeps_texts(self) -> bool:
        """Whether the model knows which training texts are behind a label, or keeps them itself."""
        votes = any(isinstance(levels[-1].rank, HasNearTexts) for levels in self.model.members)
        return votes or self.model.documents is not None

    def index(self) -> LabelIndex:
        """Search by name; about four seconds for a million labels, once."""
        with self._building:
            return self._index

    @cached_property
    def _index(self) -> LabelIndex:
        return LabelIndex.of(self.model.labels, self.model.counts)

    @cached_property
    def browser(self) -> Browser:
        """The label tree."""
        return Browser.of(self.model)

    def lowest(self, threshold: float | None, precision: float | None) -> float | None:
        """The lowest probability to return; None: whatever it is. Infinite where no threshold is precise enough."""
        if threshold is None and precision is None:
            return None
        if threshold is not None and precision is not None:
            raise ConfigError("threshold, precision: each sets the lowest probability. Give one of them.")
        if self.model.calibration is None:
            raise ConfigError(UNCALIBRATED)
        if precision is None:
            return threshold
        found = self.model.calibration.threshold_for_precision(precision)
        return np.inf if found is None else found

    def facts(self, *, has_report: bool, show_texts: bool) -> dict[str, Any]:
        """The entry of `/v1/models`."""
        model = self.model
        return {
            "id": self.id, "recipe": model.card.recipe, "version": self.version, "labels": len(model.labels),
            "documents": model.n_train, "calibrated": model.calibration is not None, "loaded_at": self.loaded_at,
            "has_report": has_report, "has_texts": show_texts and self.keeps_texts, "has_tree": self.browser.deep,
        }  # fmt: skip

    def thresholds(self) -> dict[str, Any] | None:
        """What accepting above a threshold did on held-out documents; None where the model is not calibrated."""
        calibration = self.model.calibration
        if calibration is None:
            return None
        rows = []
        for precision in PRECISIONS:
            threshold = calibration.threshold_for_precision(precision)
            at = None if threshold is None else int(np.searchsorted(calibration.cuts[0], np.float32(threshold)))
            accepted = None if at is None else float(calibration.cuts[2][at])
            rows.append({"precision": precision, "threshold": threshold, "accepted": accepted})
        return {"thresholds": rows}


def folder_state(folder: Path) -> State:
    """What changes when the model in a folder is replaced or its labels are edited."""
    return file_state(folder), file_state(folder / "manifest.json"), file_state(folder / "edits" / "log.json")
