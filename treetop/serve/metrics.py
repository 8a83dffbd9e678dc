"""Figures of all workers in one memory-mapped file: every worker writes its own row, `/metrics` adds them up.

Rows outlive a worker that died, so counters never fall. Figures are 8 bytes each, written whole, by one process. A last
row is common to all: what one worker was asked to do with a model, which the others do, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROUTES = ("predict", "explain", "labels", "tree", "models", "feedback", "projects", "admin", "page", "other")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, np.inf)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, np.inf)
OF_MODEL = ("texts", "unknown", "known_words", "with_words")
IN_FLIGHT, LIMIT, RATE, FAILED = range(4)  # gauges
WIDE = len(ROUTES) * (len(STATUSES) + len(SECONDS) + 1) + 4
PER_MODEL = len(OF_MODEL) + 2 * len(SHARES) + 1  # and the sum of scores
PINNED, RELOAD = 0, 1  # of a model in the common row: the version to answer with (0: the newest); when to open it again


@dataclass
class Metrics:
    """The figures of one worker (`slot`), and those of all to add up."""

    models: Sequence[str]
    rows: NDArray[np.float64]  # (workers + 1, figures)
    slot: int = 0
    requests: NDArray[np.float64] = field(init=False)  # (routes, statuses)
    seconds: NDArray[np.float64] = field(init=False)  # (routes, buckets + sum)
    gauges: NDArray[np.float64] = field(init=False)
    of_model: NDArray[np.float64] = field(init=False)  # (models, figures)
    common: NDArray[np.float64] = field(init=False)  # (models, PINNED and RELOAD)

    def __post_init__(self) -> None:
        self.common = self._cut(self.rows[-1])[-1]
        self.requests, self.seconds, self.gauges, self.of_model = self._cut(self.rows[self.slot])

    def _cut(self, row: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        a = len(ROUTES) * len(STATUSES)
        b = a + len(ROUTES) * (len(SECONDS) + 1)
        return (
            row[:a].reshape(len(ROUTES), -1), row[a:b].reshape(len(ROUTES), -1), row[b:WIDE],
            row[WIDE:].reshape(len(self.models), PER_MODEL),
        )  # fmt: skip

    @classmethod
    def alone(cls, models: Sequence[str]) -> Metrics:
        """Those of a single process."""
        return cls(models, np.zeros((2, width(models))))

    @classmethod
    def shared(cls, file: Path, models: Sequence[str], workers: int, slot: int) -> Metrics:
        """Those of one of several workers, in a file of `create`."""
        shared = np.memmap(file, np.float64, "r+", shape=(workers + 1, width(models)))
        return cls(models, shared.view(np.ndarray), slot)  # a plain array: items of a memmap are slow

    def count(self, route: int, status: int, seconds: float) -> None:
        """One request answered."""
        self.requests[route, 3 if status == 429 else min(max(status // 100 - 2, 0), 3) + (status >= 500)] += 1
        self.seconds[route, _bucket(SECONDS, seconds)] += 1
        self.seconds[route, -1] += seconds

    def saw(self, model: int, unknown: bool, known_words: float | None, score: float | None, p: float | None) -> None:
        """One text answered: what the model knew of it, and the score and probability of its best label."""
        row = self.of_model[model]
        row[0] += 1
        row[1] += unknown
        if known_words is not None:
            row[2] += known_words
            row[3] += 1
        if score is not None:
            row[4 + _bucket(SHARES, score)] += 1
            row[-1] += score
        if p is not None:
            row[4 + len(SHARES) + _bucket(SHARES, p)] += 1

    def text(self, infos: Sequence[tuple[str, str, str]] = ()) -> str:
        """The figures of all workers in the text format of Prometheus; `infos`: models, versions and recipes."""
        return "\n".join([*_lines(self), *_infos(infos), ""])

    def total(self) -> tuple[NDArray[np.float64], ...]:
        """requests, seconds, gauges, of_model, over all workers."""
        return self._cut(self.rows[:-1].sum(0))


def width(models: Sequence[str]) -> int:
    """Figures of one worker."""
    return WIDE + PER_MODEL * len(models)


def create(models: Sequence[str], workers: int) -> Path:
    """A new file for the figures of workers; who creates it removes it."""
    with tempfile.NamedTemporaryFile(prefix="treetop-", suffix=".metrics", delete=False) as file:
        file.write(bytes(8 * (workers + 1) * width(models)))
        return Path(file.name)


def _bucket(bounds: Sequence[float], value: float) -> int:
    for i, bound in enumerate(bounds):
        if value <= bound:
            return i
    return len(bounds) - 1


def _lines(metrics: Metrics) -> Iterator[str]:
    requests, seconds, gauges, of_model = metrics.total()
    yield from _head("requests_total", "counter", "Requests answered, by route and status.")
    for r, route in enumerate(ROUTES):
        for s, status in enumerate(STATUSES):
            if requests[r, s]:
                yield f'treetop_requests_total{{route="{route}",status="{status}"}} {requests[r, s]:.0f}'
    yield from _head("request_seconds", "histogram", "Time from the end of a request to its answer.")
    for r, route in enumerate(ROUTES):
        if seconds[r, :-1].any():
            yield from _histogram("request_seconds", f'route="{route}"', SECONDS, seconds[r, :-1], seconds[r, -1])
    for name, kind, help_, value in (
        ("in_flight", "gauge", "Texts being answered, in all workers.", gauges[IN_FLIGHT]),
        ("in_flight_limit", "gauge", "Texts in flight above which requests get 429.", gauges[LIMIT]),
        ("rate", "gauge", "Texts per second the workers can answer, as measured.", gauges[RATE]),
        ("reload_failed", "gauge", "Workers whose last reload failed.", gauges[FAILED]),
        ("workers", "gauge", "Worker processes.", float(len(metrics.rows) - 1)),
    ):
        yield from _head(name, kind, help_)
        yield f"treetop_{name} {value:.6g}"
    yield from _of_models(metrics.models, of_model)


def _of_models(models: Sequence[str], rows: NDArray[np.float64]) -> Iterator[str]:
    names = ["texts_total", "unknown_texts_total", "known_words_sum", "known_words_count"]
    helps = [
        "Texts answered.", "Texts of which the model knows nothing.",
        "Shares of known words, added up over texts.", "Texts that have words.",
    ]  # fmt: skip
    for i, (name, help_) in enumerate(zip(names, helps, strict=True)):
        yield from _head(name, "counter", help_)
        yield from (f'treetop_{name}{{model="{_quoted(m)}"}} {rows[j, i]:.6g}' for j, m in enumerate(models))
    for first, name, help_ in (
        (4, "best_score", "Score of the best label of each text."),
        (4 + len(SHARES), "best_probability", "Probability of the best label of each text."),
    ):
        yield from _head(name, "histogram", help_)
        for j, model in enumerate(models):
            counts = rows[j, first : first + len(SHARES)]
            total = rows[j, -1] if first == 4 else None
            yield from _histogram(name, f'model="{_quoted(model)}"', SHARES, counts, total)


def _infos(infos: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield from _head("model_info", "gauge", "The version that answers.")
    for model, version, recipe in infos:
        labels = zip(("model", "version", "recipe"), (model, version, recipe), strict=True)
        yield "treetop_model_info{" + ",".join(f'{key}="{_quoted(value)}"' for key, value in labels) + "} 1"


def _head(name: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# HELP treetop_{name} {help_}"
    yield f"# TYPE treetop_{name} {kind}"


def _histogram(
    name: str, labels: str, bounds: Sequence[float], counts: NDArray[np.float64], total: float | None
) -> Iterator[str]:
    running = 0.0
    for bound, count in zip(bounds, counts.tolist(), strict=True):
        running += count
        yield f'treetop_{name}_bucket{{{labels},le="{"+Inf" if np.isinf(bound) else f"{bound:g}"}"}} {running:.0f}'
    if total is not None:
        yield f"treetop_{name}_sum{{{labels}}} {total:.6g}"
    yield f"treetop_{name}_count{{{labels}}} {running:.0f}"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
