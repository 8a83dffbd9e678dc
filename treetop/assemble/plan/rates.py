"""How fast the stages of a linear tree run on one core: measured on the bundled data, kept with the command.

Each rate is work by CPU seconds, its unit chosen so that other data of other sizes give about the same one: terms read
and labels told apart, not documents.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from treetop.assemble.label_tree import describe_labels
from treetop.assemble.linear.tree import LinearConfig, Task, targets_at, train_member
from treetop.assemble.view import sparse_view
from treetop.core.config import build
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.leftovers import temporary
from treetop.core.log import quiet
from treetop.core.provenance import provenance, versions
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.model import Model
from treetop.partition.balanced import BalancedConfig

DATA = ("wordnet", "metamath")
TEXTS = 40_000  # predicted for the rate of predictions
TFIDF = TfidfConfig(ngrams=(1, 2), min_df=2)
LANES = 16  # labels that are solved together
TIMED = ("read", "tfidf", "describe", "cluster", "first", "middle", "last", "save", "predict")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Work by second on one core, what text is like, and where both come from."""

    read: float  # documents, assignments and ten times the labels
    tfidf: float  # bytes of text
    describe: float  # terms of all assignments
    cluster: float  # terms of all label descriptions, for each halving
    first: float  # terms times groups of sixteen nodes, on the first level
    middle: float  # the same on levels between
    last: float  # the same on the level of labels
    save: float  # bytes of the model
    predict: float  # terms times levels
    terms_per_token: float
    bytes_per_token: float
    described: float  # share of a label's terms that are distinct
    spread: (
        float  # of a document's other labels, those in a cluster of their own on the first level, by bit of its nodes
    )
    weights: float  # kept, for each term of an assignment
    gpu: float = 0.0  # floating-point operations by second in training a network on one GPU
    source: dict[str, Any]

    def save_to(self, file: Path) -> None:
        """Write the rates as JSON."""
        file.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_rates(file: Path | None = None) -> Rates:
    """The rates of a file, or those that come with treetop."""
    place: Any = files("treetop") / "assemble" / "plan" / "rates.json" if file is None else file
    try:
        return build(Rates, dict(json.loads(place.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"--rates {file}: cannot be read ({error}). Measure rates with `treetop plan --measure --rates {file}`."
        ) from None


class _Clock:
    """CPU seconds of each stage."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        self._at = time.process_time()

    def mark(self, name: str) -> None:
        self.spent[name] += time.process_time() - self._at  # type: ignore[assignment]
        self.start()


def measure() -> Rates:
    """Train and ask models of the bundled data, once to compile and once by the clock."""
    with quiet():
        _use(DATA[0], _Clock())
        clock = _Clock()
        counted = [_use(name, clock) for name in DATA]
    total = {name: sum(counts[name] for counts in counted) for name in counted[0]}
    known, source = load_rates(), {**provenance(seed=0), "data": list(DATA), "versions": versions()}
    return Rates(
        **{name: total[name] / clock.spent[name] for name in TIMED}, terms_per_token=total["terms"] / total["tokens"],
        bytes_per_token=total["tfidf"] / total["tokens"], described=_mean(counted, "distinct"),
        spread=total["spread"] / len(DATA), weights=_mean(counted, "weights"), gpu=known.gpu,
        source={**source, "gpu": known.source.get("gpu", "")},
    )  # fmt: skip


def _mean(counted: list[dict[str, float]], name: str) -> float:
    """How much of something there is for a term of an assignment, each data set counting the same."""
    return sum(counts[name] / counts["describe"] for counts in counted) / len(counted)


def _use(name: str, clock: _Clock) -> dict[str, float]:
    """Every stage once by the clock; returns the work of each, and what the text is like."""
    clock.start()
    data = Dataset.read(name)
    clock.mark("read")
    view = sparse_view(data, TFIDF, Job())
    clock.mark("tfidf")
    Z = describe_labels(data, view, "pifa")
    clock.mark("describe")
    tree = BalancedConfig().grow(Z, seed=0)
    clock.mark("cluster")
    levels = _levels(data, view.X, tree, clock)
    size = _ask(Model.over(data, view.features, [levels]), data, clock)
    n, terms, sizes = len(data), view.X.nnz / len(data), tree.sizes
    rows = [float(n), *(float(targets_at(data.Y, tree, t).nnz) for t in range(len(tree.parents) - 1))]
    lanes = [count * math.ceil(b / a / LANES) for count, a, b in zip(rows, [1, *sizes], sizes, strict=False)]
    others = (rows[-1] / n - 1.0) / (data.Y.nnz / n - 1.0)  # of a document's other labels, in another parent's cluster
    return {
        "read": n + data.Y.nnz + 10.0 * data.n_labels, "tfidf": float(len(data.texts.blob)),
        "describe": terms * data.Y.nnz, "cluster": float(Z.nnz) * (sizes[-2] - 1).bit_length(),
        "first": terms * lanes[0], "middle": terms * sum(lanes[1:-1]), "last": terms * lanes[-1], "save": size,
        "predict": min(n, TEXTS) * terms * len(sizes), "terms": float(view.X.nnz), "distinct": float(Z.nnz),
        "tokens": float(sum(len(text.split()) for text in data.texts)), "spread": others / math.log2(sizes[-2]),
        "weights": float(sum(level.rank.weights.slots.size for level in levels)),
    }  # fmt: skip


def _ask(model: Model, data: Dataset, clock: _Clock) -> float:
    """Save a model and ask it; bytes of its folder."""
    with tempfile.TemporaryDirectory() as folder, temporary(Path(folder)):
        clock.start()
        model.save(Path(folder) / "model")
        clock.mark("save")
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    model.predict(data.texts.span(0, 100))
    clock.start()
    model.predict(data.texts.span(0, min(len(data), TEXTS)))
    clock.mark("predict")
    return float(size)


def _levels(data: Dataset, X: Any, tree: LabelTree, clock: _Clock) -> list[Any]:
    """The levels of a tree, each trained by the clock."""
    names = ["first", *["middle"] * (len(tree.sizes) - 2), "last"]

    class Timed(Job):
        def stage(self, name: str, make: Any) -> Any:
            clock.start()
            part = make()
            clock.mark(names[int(name[-2:])])
            return part

    return train_member(Task(X, data.Y), tree, "tfidf", LinearConfig(), job=Timed(), name="member")
