"""How much time trials may take, and how seconds grow with the number of documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

CPU_SECONDS, GPU_SECONDS = 900.0, 300.0  # where no time budget is given
POWER = 1.05  # by which seconds grow with documents, beyond what was measured
LEAST = 0.5  # of the seconds per document at the largest sample: what every further document takes at least


@dataclass(frozen=True)
class Clock:
    """The time of one job, running since it was made."""

    seconds: float
    now: Callable[[], float] = time.monotonic
    started: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.started:
            self.started.append(self.now())

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self.now() - self.started[0]

    def excuse(self, seconds: float) -> None:
        """Leave these seconds out of what was spent."""
        self.started[0] += seconds

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.seconds - self.spent


def seconds_at(n: int, sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Seconds for `n` documents: measured at the largest of these rising sizes, further ones by the last difference."""
    last, taken = sizes[-1], seconds[-1]
    each = taken / max(last, 1)
    if len(sizes) > 1 and sizes[-1] > sizes[-2]:
        each = max((taken - seconds[-2]) / (sizes[-1] - sizes[-2]), LEAST * each)
    if n <= last:
        return taken * n / max(last, 1)
    return (taken + each * (n - last)) * (n / last) ** (POWER - 1.0)
