"""What a job will need, estimated before it starts (memory, disk, time), and the user's limits."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treetop.core.errors import ConfigError, ResourceError, choose

if TYPE_CHECKING:
    from treetop.core.dataset import Dataset

PROCESS, COMPILED = 7.5e7, 2.3e8  # bytes of the command alone, and with kernels read from the cache
LABEL = 235  # bytes of a label besides its strings: the table of ids, offsets, counts, and their copies while reading
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
LEAST = 0.2  # share of its size below which a model is not shrunk to save memory
TIMES = {"S": 1, "SEC": 1, "MIN": 60, "H": 3600, "HOUR": 3600}

GROUPS = {  # where control groups of version 2 and 1 say what they allow, use, and could drop
    "": (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    "memory": (
        Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
    ),
}  # fmt: skip

_device: ContextVar[str] = ContextVar("device", default="auto")


@contextmanager
def for_device(name: str) -> Iterator[None]:
    """Inside, forecasts are for training on this device."""
    token = _device.set(name)
    try:
        yield
    finally:
        _device.reset(token)


def device() -> str:
    """The device that forecasts are for; 'auto': the first GPU, if there is one."""
    return _device.get()


@dataclass(frozen=True)
class Forecast:
    """Peak memory and model size in bytes, training time in seconds on this machine."""

    memory: float
    model: float
    time: float
    shrinks: bool = False  # the recipe can make its model fit a budget
    # Where memory depends on the model: bytes per byte of the model, bytes besides it, and the minimum.
    copies: float = 0.0
    beside: float = 0.0
    floor: float = 0.0
    step: float = 0.0  # bytes of the memory that one update takes, which shrink with the parts it is split into
    parts: int = 1
    shared: float = 0.0  # bytes that every node of a cluster reads
    spilled: float = 0.0  # bytes of memory if large arrays lie in files (core/spill.py); 0: the recipe cannot do that
    files: float = 0.0  # bytes of these files
    disk: float = 0.0  # bytes on disk besides the model

    def describe(self) -> str:
        return f"about {size(self.memory)} of memory, a model of {size(self.model)}, {duration(self.time)} of training"

    def sized(self, model: float) -> Forecast:
        """The same job with a model of another size."""
        return dataclasses.replace(self, model=model, memory=max(self.floor, self.beside + self.copies * model))

    def model_within(self, memory: float) -> float:
        """Bytes the model may have so that the job stays below `memory`; 0 where a smaller model would not help."""
        return (memory - self.beside) / self.copies if self.copies and self.floor <= memory else 0.0

    def needs_files(self, budget: Mapping[str, float], out: Path | None) -> bool:
        """Whether the job stays within memory only if large arrays lie in files."""
        room = budget.get("memory", available_memory())
        return out is not None and 0.0 < self.spilled <= room < self.memory

    def in_files(self) -> Forecast:
        """The same job with large arrays in files."""
        return dataclasses.replace(
            self, memory=self.spilled, floor=self.spilled, beside=self.spilled, copies=0.0, disk=self.files
        )

    def _way_out(self, memory: float) -> str:
        """Into how many parts an update must be split so that the job stays below `memory`."""
        room = memory - (self.memory - self.step)
        if not 0 < room < self.step:
            return "Use a smaller preset or less data, or raise the budget."
        parts = self.parts * 2 ** math.ceil(math.log2(self.step / room))
        return f"Set train.accumulate={parts}, use a smaller preset or less data, or raise the budget."

    def check(self, budget: Mapping[str, float], out: Path | None) -> None:
        """Refuse a job that would break the budget, the machine's memory or the disk."""
        limits = {"memory": available_memory(), **budget}
        if self.shrinks:
            limits.pop("model", None)  # the recipe makes the model fit, or refuses itself
        if "memory" in budget and self.model_within(budget["memory"]) > LEAST * self.model:
            limits.pop("memory")
        for name, limit in limits.items():
            needed = getattr(self, name)
            if needed > limit:
                show = duration if name == "time" else size
                source = f"--budget {name}" if name in budget else "this machine"
                more = self._way_out(limit if name == "memory" else 0.0)
                raise ResourceError(
                    f"{name}: the job needs about {show(needed)}, {source} allows {show(limit)}. {more}"
                )
        if out is not None:
            free = shutil.disk_usage(nearest(out)).free
            needed = 2.2 * self.model + self.disk  # stages and the final copy are on disk at the same time
            if needed > free:
                raise ResourceError(
                    f"{out}: about {size(needed)} of disk space needed, {size(free)} available. "
                    "Free some, or choose another --out."
                )


def nearest(out: Path) -> Path:
    """The folder that a path lies in, or the nearest above it that is there."""
    return next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())


def data_memory(dataset: Dataset) -> float:
    """Peak memory of reading a data set; most of it stays allocated during training."""
    labels = dataset.labels
    strings = (dataset.texts, labels.ids, labels.names, labels.texts)
    blobs = 1.1 * sum(len(part.blob) for part in strings)
    return float(blobs + 9.0 * len(dataset) + 22.0 * dataset.Y.nnz + 1.1 * LABEL * dataset.n_labels)


def with_documents(needs: Forecast, dataset: Dataset, *, encoded: bool, char_ngrams: int = 0) -> Forecast:
    """The same job where the model keeps the training texts: their bytes, labels, and an index.

    The index has six bytes for a term of a text, of which there are at most 2 for 6 bytes (word 1- and 2-grams), and
    one a byte for each length of character n-grams; where texts are `encoded`, a byte for each of some 384 values.
    """
    blob, n = float(len(dataset.texts.blob)), float(len(dataset))
    kept = blob + 24.0 * n + 4.0 * dataset.Y.nnz + (384.0 * n if encoded else (2.0 + 6.0 * char_ngrams) * blob)
    more = 3.0 * kept  # the view, its index, and their copy while they are written
    return dataclasses.replace(needs, model=needs.model + kept, memory=needs.memory + more, floor=needs.floor + more)


def size(count: float) -> str:
    """Bytes in readable units."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Seconds in readable units."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 else "under a second"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def parse_budget(text: str) -> dict[str, float]:
    """'memory=8GB,time=10min,model=50MB' as bytes and seconds.

    >>> parse_budget("memory=8GB,time=10min")
    {'memory': 8000000000.0, 'time': 600.0}
    """
    if not isinstance(text, str):
        raise ConfigError(f"budget: expected text such as 'memory=8GB,time=10min', got {text!r}.")
    limits: dict[str, float] = {}
    for item in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, amount = item.partition("=")
        choose("--budget", name, ("memory", "time", "model"))
        units = TIMES if name == "time" else UNITS
        match = re.fullmatch(r"([0-9.]+)\s*([A-Za-z]+)", amount.strip())
        if match is None or match[2].upper() not in units or match[1].count(".") > 1 or match[1] == ".":
            example = "10min" if name == "time" else "8GB"
            raise ConfigError(f"--budget {item}: cannot read '{amount}'. Write a number and a unit, such as {example}.")
        limits[name] = float(match[1]) * units[match[2].upper()]
    return limits


def available_memory() -> float:
    """Bytes this process may still take: what the machine has free, or its control group allows."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        free = physical_memory() or 2**62
    return float(min(free, _left_by_groups()))


def physical_memory() -> int:
    """Bytes of memory of this machine; 0 where the system does not say (Windows)."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


def peak_memory() -> int:
    """The most bytes of memory this process has held; 0 where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return 0
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _left_by_groups() -> float:
    """Bytes that the control groups of this process leave; pages of files that can be dropped count as free."""
    left = math.inf
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return left
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in GROUPS and "memory" not in controllers.split(","):
            continue
        root, limit, used, stat = GROUPS.get(controllers, GROUPS["memory"])
        here = root / path.lstrip("/")
        for folder in (here, *here.parents):
            with suppress(OSError, ValueError):  # no limit, or not visible from here
                allowed = int((folder / limit).read_text(encoding="ascii"))
                facts = dict(fact.split() for fact in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
                left = min(left, allowed - int((folder / used).read_text(encoding="ascii")) + int(facts.get(stat, 0)))
            if folder == root:
                break
    return left
