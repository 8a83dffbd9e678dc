"""The settings tried so far, one JSON line each, so that an interrupted search can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from treetop.assemble.tune.space import Settings, key
from treetop.core.errors import WorkError


@dataclass(frozen=True)
class Try:
    """Settings tried on `size` documents: their scores, and the gain over the defaults on the same documents."""

    settings: Settings
    size: int
    p1: float
    p5: float
    psp5: float  # relative to the defaults
    gain: float  # mean gain of the scores that the aim names, relative to the defaults
    error: float  # standard error of the gain
    seconds: float


@dataclass(eq=False)
class Tries:
    """All tries of one search, in memory and optionally in a file."""

    file: Path | None = None
    done: list[Try] = field(default_factory=list)

    @classmethod
    def open(cls, file: Path | None, job: Mapping[str, Any], *, resume: bool = False) -> Tries:
        """Start a new file, or resume that of an interrupted search; its first line identifies the job."""
        if file is None or not file.exists():
            if file is not None:
                file.write_text(json.dumps(job, sort_keys=True) + "\n", encoding="utf-8")
            return cls(file)
        if not resume:
            raise WorkError(f"{file}: an earlier search exists. Add --resume to continue it, or choose another --out.")
        first, *rest = file.read_text(encoding="utf-8").splitlines() or [""]
        if first != json.dumps(job, sort_keys=True):
            raise WorkError(f"{file}: belongs to a search of other data or settings. Choose another --out.")
        tries = [_read(line) for line in rest]
        return cls(file, [each for each in tries if each is not None])

    def find(self, settings: Settings, size: int) -> Try | None:
        """The try of these settings on `size` documents, if there was one."""
        return next((t for t in self.done if t.size == size and key(t.settings) == key(settings)), None)

    def add(self, new: Try) -> Try:
        """Record one more try."""
        self.done.append(new)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(new)) + "\n")
        return new


def _read(line: str) -> Try | None:
    """The try on this line; None if the process was killed while writing it."""
    try:
        return Try(**json.loads(line))
    except (ValueError, TypeError):
        return None
