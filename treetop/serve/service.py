"""What every route works with: models, feedback, batches, figures."""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from treetop.serve.batch import Batcher
from treetop.serve.feedback.store import FeedbackStore
from treetop.serve.metrics import FAILED, IN_FLIGHT, LIMIT, PINNED, RATE, RELOAD, Metrics
from treetop.serve.pressure import Pressure
from treetop.serve.problem import Problem
from treetop.serve.served import Served
from treetop.serve.settings import Settings, find_report
from treetop.serve.shelf import Shelf


@dataclass(eq=False)
class Service:
    """One worker's parts."""

    settings: Settings
    shelf: Shelf
    metrics: Metrics
    pressure: Pressure
    batcher: Batcher
    store: FeedbackStore | None
    slots: dict[str, int] = field(init=False)  # model -> its row of figures
    _reloads: dict[str, float] = field(init=False)  # model -> when it was last opened again

    def __post_init__(self) -> None:
        self.slots = {id_: i for i, id_ in enumerate(self.shelf.places)}
        self._reloads = dict.fromkeys(self.slots, time.time())

    @classmethod
    def start(cls, settings: Settings, metrics: Metrics | None = None) -> Service:
        """Open the models and everything around them."""
        shelf = Shelf(settings.models, settings.device, fast=settings.fast)
        return cls(
            settings,
            shelf,
            Metrics.alone([id_ for id_, _ in settings.models]) if metrics is None else metrics,
            Pressure(settings.workers),
            Batcher(settings.threads),
            None if settings.feedback is None else FeedbackStore(settings.feedback),
        )

    @property
    def feedback(self) -> FeedbackStore:
        """Where feedback goes; refused where the server keeps none."""
        if self.store is None:
            raise Problem(503, "feedback: this server keeps none. Start it with --feedback FILE.")
        return self.store

    def report(self, served: Served) -> Path | None:
        """The evaluation report: in `--report`, or the folder `report` beside the model; None: there is none."""
        folder = self.settings.report or served.folder.absolute().parent / "report"
        return find_report(folder, served.id, self.settings.models)

    def facts(self, served: Served) -> dict[str, object]:
        """The entry of a model in `/v1/models`."""
        has_report = self.report(served) is not None
        return {
            **served.facts(has_report=has_report, show_texts=self.settings.show_texts),
            "accepts_feedback": self.store is not None,
        }

    def reload(self, id_: str) -> bool:
        """Open a model's folder again, here and soon in the other workers; whether another version answers."""
        now = time.time()
        common, self._reloads[id_] = self.metrics.common[self.slots[id_]], now
        common[PINNED], common[RELOAD] = 0.0, now
        return self.shelf.reload(id_)

    def reload_all(self) -> None:
        """Open all folders again; failures are in `/readyz`."""
        for id_ in self.slots:
            with contextlib.suppress(Problem):
                self.reload(id_)

    def rollback(self, id_: str) -> None:
        """Answer with the version before, here and soon in the other workers."""
        self.shelf.rollback(id_)
        self.metrics.common[self.slots[id_], PINNED] = _number(self.shelf.served(id_))

    def asked(self) -> bool:
        """Whether another worker was asked to do something that this one has not done yet."""
        common = self.metrics.common
        return any(
            common[slot, RELOAD] > self._reloads[id_] or self._pinned_before(id_) for id_, slot in self.slots.items()
        )

    def follow(self) -> None:
        """Do what other workers were asked to do, and take models whose folders changed."""
        for id_, slot in self.slots.items():
            if (when := self.metrics.common[slot, RELOAD]) > self._reloads[id_]:
                self._reloads[id_] = float(when)
                with contextlib.suppress(Problem):  # told in `/readyz`
                    self.shelf.reload(id_)
            elif self._pinned_before(id_):
                self.shelf.rollback(id_)
        for id_ in self.shelf.refresh():
            self.metrics.common[self.slots[id_], PINNED] = 0.0

    def _pinned_before(self, id_: str) -> bool:
        pinned, place = self.metrics.common[self.slots[id_], PINNED], self.shelf.place(id_)
        return bool(pinned) and place.before is not None and pinned == _number(place.before)

    def warm(self) -> None:
        """Build what the first search of a label would wait for."""
        for place in self.shelf.places.values():
            place.now.index()

    def publish(self) -> None:
        """Tell the other workers how this one fares."""
        gauges, pressure = self.metrics.gauges, self.pressure
        gauges[IN_FLIGHT], gauges[LIMIT], gauges[RATE] = pressure.texts, pressure.limit, pressure.rate
        gauges[FAILED] = bool(self.shelf.failures)

    def figures(self) -> str:
        """`/metrics`."""
        self.publish()
        served = [place.now for place in self.shelf.places.values()]
        return self.metrics.text([(one.id, one.version, one.model.card.recipe) for one in served])

    def close(self) -> None:
        """End threads and close files."""
        self.batcher.close()
        if self.store is not None:
            self.store.close()


def _number(served: Served) -> float:
    """A version as a figure."""
    return float(int(hashlib.sha256(served.version.encode()).hexdigest()[:12], 16))
