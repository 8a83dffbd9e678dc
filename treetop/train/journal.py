"""Training log: one JSON line every few seconds with loss, learning rate, tokens per second and memory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from treetop.tensors import devices

SECONDS = 2.0  # between two looks at the device


class Journal:
    """Collects lines and appends them to a file (first process only)."""

    def __init__(self, file: Path | None, device: torch.device, rank: int = 0) -> None:
        self.file = file if rank == 0 else None
        self.device = device
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
        self._append(line)
        return line

    def note(self, step: int, score: float) -> None:
        """A validation score."""
        self._append({"step": step, "validation": score})

    def _append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")
