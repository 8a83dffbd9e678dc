"""Training log: a JSON line every few seconds with loss, learning rate, tokens per second and memory; one an epoch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from treetop.core import curve
from treetop.tensors import devices

SECONDS = 2.0  # between two looks at the device


class Journal:
    """Collects the lines of the run `name` and appends them to files in `work` (first process only)."""

    def __init__(self, work: Path | None, name: str, device: torch.device, rank: int = 0) -> None:
        self.work = work if rank == 0 else None
        self.name, self.device = name, device
        self.lines: list[dict[str, Any]] = []

    def begin(self, step: int, total: int, tokens: int) -> None:
        """A run starts or goes on at `step`."""
        self.total = total
        self._started = self._seen = time.monotonic()
        self._first = (step, tokens)

    def due(self) -> bool:
        return time.monotonic() - self._seen >= SECONDS

    def write(self, step: int, loss: float, factor: float, tokens: int) -> dict[str, Any]:
        self._seen = time.monotonic()
        spent = max(1e-9, self._seen - self._started)
        done = max(1, step - self._first[0])
        line = {
            "step": step,
            "loss": loss,
            "rate": factor,
            "tokens_per_s": round((tokens - self._first[1]) / spent),
            "memory": devices.peak_memory(self.device),
            "seconds_left": round(spent * (self.total - step) / done, 1),
        }
        self._append(f"{self.name}.jsonl", line)
        return line

    def epoch(self, line: dict[str, Any]) -> None:
        """The end of an epoch, as a point of the curve."""
        self._append(curve.FILE, {"stage": self.name, **line})

    def _append(self, file: str, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.work is not None:
            curve.append(self.work / file, line)
