"""The models a server answers with: by id, replaced as a whole when a folder changes, with the version before kept."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from treetop.core.errors import LabelError, TreetopError
from treetop.core.log import logger
from treetop.serve.problem import Problem
from treetop.serve.served import Served, State, folder_state


@dataclass
class Place:
    """One id: what answers now, what answered before, and why the last reload failed (empty: it did not)."""

    now: Served
    before: Served | None = None
    failed: str = ""
    seen: State = ()  # the folder's state when it was last looked at


class Shelf:
    """All models of one worker; answers in progress keep the model they began with."""

    def __init__(self, models: Sequence[tuple[str, Path]], device: str, *, fast: bool = False) -> None:
        self._open, self._lock = partial(Served.open, device=device, fast=fast), threading.Lock()
        opened = [self._open(id_, folder) for id_, folder in models]
        self.places = {served.id: Place(served, seen=served.state) for served in opened}
        self.default = models[0][0]

    def served(self, id_: str | None = None) -> Served:
        """The model with an id, or the first."""
        return self.place(id_).now

    def place(self, id_: str | None = None) -> Place:
        """Like `served`, with the version before."""
        place = self.places.get(id_ or self.default)
        if place is None:
            raise LabelError(f"model '{id_}': not served here. Choose one of {', '.join(map(repr, self.places))}.")
        return place

    def reload(self, id_: str | None = None) -> bool:
        """Open the folder again; whether another version answers now. A folder that does not open changes nothing."""
        place = self.place(id_)
        with self._lock:
            old = place.now
            place.seen = folder_state(old.folder)
            try:
                fresh = self._open(old.id, old.folder)
            except (TreetopError, OSError) as error:
                place.failed = f"model '{old.id}': not reloaded, version {old.version} still answers: {error}"
                logger.warning("%s", place.failed)
                raise Problem(503, place.failed) from error
            place.failed = ""
            if fresh.version == old.version:
                return False
            place.now, place.before = fresh, old
            logger.info("model '%s': version %s took the place of %s", old.id, fresh.version, old.version)
            return True

    def rollback(self, id_: str | None = None) -> None:
        """Answer with the version before; the next rollback comes back."""
        place = self.place(id_)
        with self._lock:
            if place.before is None:
                raise Problem(409, f"model '{place.now.id}': there is no version before {place.now.version}.")
            place.now, place.before, place.failed = place.before, place.now, ""
            logger.info("model '%s': rolled back to version %s", place.now.id, place.now.version)

    def refresh(self) -> list[str]:
        """Reload the models whose folders changed since they were looked at, and return those that answer now.

        Failures are kept for `/readyz`.
        """
        changed = []
        for id_, place in self.places.items():
            if folder_state(place.now.folder) != place.seen:
                with contextlib.suppress(Problem):
                    changed += [id_] * self.reload(id_)
        return changed

    @property
    def failures(self) -> list[str]:
        """Reloads that failed."""
        return [place.failed for place in self.places.values() if place.failed]
