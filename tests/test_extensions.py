"""A new answer from another package is one file and an entry point: one toy answer of each kind, used by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import toy
import treetop
from treetop.core import registry
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import Level
from treetop.model import Model

Install = Callable[[str, str, str], None]

RECIPE = '''
"""The most frequent labels, by another package."""
from dataclasses import dataclass
from treetop.core.config import setting
from treetop.core.forecast import Forecast
from treetop.core.types import Level
from treetop.model import Model
from treetop.rank.popular import Popular
from treetop.shortlist.everything import Everything

GROUP = "baselines"
HOOKS = ("rows",)

@dataclass(frozen=True, kw_only=True)
class Config:
    extra: int = setting(0, "texts added to each label's count", low=0)

def forecast(dataset, config):
    return Forecast(memory=1e6, model=1e3, time=0.1)

def fit(dataset, config, job):
    rank = Popular.fit(dataset.label_counts + config.extra, len(dataset))
    return Model.over(dataset, {}, [[Level("none", Everything(dataset.n_labels), rank)]])
'''

RANK = """
import numpy as np
from treetop.core.store import Part
from treetop.core.types import Ranking

class Mine:
    kind = "rank.mine.1"

    def __init__(self, n):
        self.n = n

    def rank(self, view, candidates, join, keep):
        rows, keep = candidates.n_documents, min(keep, self.n)
        ids = np.tile(np.arange(self.n)[::-1][:keep], rows)
        return Ranking.sorted(np.arange(rows + 1) * keep, ids, join.own(ids.astype(np.float32)))

    def to_part(self):
        return Part(self.kind, {"n": self.n})

    @classmethod
    def from_part(cls, part):
        return cls(part.setting("n", int))
"""

SHORTLIST = """
import numpy as np
from treetop.core.store import Part
from treetop.core.types import Candidates

class Mine:
    kind = "shortlist.mine.1"

    def __init__(self, n):
        self.n = n

    def candidates(self, view, above):  # the first two labels
        rows = view.shape[0]
        return Candidates(rows, self.n, np.arange(rows + 1) * 2, np.tile(np.arange(2, dtype=np.int32), rows))

    def to_part(self):
        return Part(self.kind, {"n": self.n})

    @classmethod
    def from_part(cls, part):
        return cls(part.setting("n", int))
"""

FEATURES = """
import numpy as np
from treetop.core.store import Part

class Mine:
    kind = "features.mine.1"

    def views(self, texts):
        return {"length": np.array([[len(text)] for text in texts], np.float32)}

    def to_part(self):
        return Part(self.kind, {})

    @classmethod
    def from_part(cls, part):
        return cls()
"""

LOSS = """
from treetop.network.losses.pairs import each_label

CALLS = []

def loss(pairs, config):
    CALLS.append(config.kind)
    return each_label(pairs, (pairs.logits.float() - pairs.target.float()) ** 2, config.bce_reduction)
"""

FORMAT = """
from treetop.data.format import Format
from treetop.data.parse.lines import lines, writer
from treetop.data.parse.rows import Row

def sniff(head):
    return head.line.startswith("MINE;")

def rows(file, reading):
    for number, line in lines(file, reading.problem):
        _, label, text = line.split(";", 2)
        yield Row(number, text, [label] if label else [])

def write(writing):
    for split, data in writing.splits.items():
        with writer(writing.file(f"{split}.txt")) as out:
            for i, text in enumerate(data.texts):
                labels = [data.labels.ids[c] for c in data.Y[i].indices[:1]]
                out.write(f"MINE;{''.join(labels)};{text}\\n")

FORMAT = Format("mine", frozenset({"texts", "label ids"}), write, sniff=sniff, rows=rows)
"""

METRIC = """
def answered(matches, k):
    return 100.0 * float((matches.top[:, :k] >= 0).mean())
"""

LABELS = """
import numpy as np
from scipy import sparse

def describe(source):
    assert source.X.shape[0] == source.Y.shape[0]
    return sparse.identity(len(source.labels), np.float32, format="csr")
"""

PARTITION = """
from dataclasses import dataclass
import numpy as np
from treetop.core.types import LabelTree

@dataclass(frozen=True, kw_only=True)
class Config:
    nodes: int = 3

    def grow(self, Z, *, seed):
        return LabelTree((np.zeros(self.nodes, np.int32), (np.arange(Z.shape[0]) % self.nodes).astype(np.int32)))
"""

AUGMENT = '''
"""Every document twice."""
from dataclasses import dataclass, replace
import numpy as np
from treetop.augment.offers import Offers
from treetop.core.dataset import DOCUMENT, SYNTHETIC

NAME = "mine"

@dataclass(frozen=True, kw_only=True)
class Config:
    """No settings."""

def needs(config):
    return ["rows"]

def rows(dataset, config, job):
    twice = dataset.take(np.tile(np.arange(len(dataset)), 2))
    roles = np.repeat(np.array([DOCUMENT, SYNTHETIC], np.uint8), len(dataset))
    return replace(twice, roles=roles)

OFFERS = Offers(rows=rows, added=lambda dataset, config: len(dataset))
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package of one file whose entry point is `question.name`, for one test."""
    site, modules = tmp_path / "site", list[str]()
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def plugin(question: str, source: str, attribute: str = "") -> None:
        module = f"treetop_mine_{question}"
        modules.append(module)
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        target = f"{module}:{attribute}" if attribute else module
        (info / "entry_points.txt").write_text(f"[treetop]\n{question}.mine = {target}\n")
        importlib.invalidate_caches()
        registry._plugins.cache_clear()

    yield plugin
    registry._plugins.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


def reloaded(model: Model, folder: Path) -> Model:
    model.save(folder)
    return treetop.load(folder)


def test_recipe(install: Install, tmp_path: Path) -> None:
    install("recipe", RECIPE, "")
    data = toy.dataset()
    model = treetop.fit("mine", data, settings=["extra=1"], out=tmp_path / "model")
    again = treetop.load(tmp_path / "model")
    assert again.card.recipe == "mine" and again.card.config == {"extra": 1}
    plain = treetop.fit("popular", data)
    assert again.predict(["x"], 3)[0][0].id == plain.predict(["x"], 3)[0][0].id == model.predict(["x"], 3)[0][0].id
    with pytest.raises(ConfigError, match=r"extra: -1 is out of range"):
        treetop.fit("mine", data, settings=["extra=-1"])
    treetop.fit("identity+mine", data)  # its HOOKS are read as those of a built-in recipe


def test_rank(install: Install, tmp_path: Path) -> None:
    install("rank", RANK, "Mine")
    data, everything = toy.dataset(), registry.find("shortlist", "everything")
    level = Level("none", everything(data.n_labels), registry.find("rank", "mine")(data.n_labels))
    again = reloaded(Model.over(data, {}, [[level]]), tmp_path / "model")
    assert again.rank(["x"], 2).ids.tolist() == [data.n_labels - 1, data.n_labels - 2]


def test_shortlist_and_features(install: Install, tmp_path: Path) -> None:
    install("shortlist", SHORTLIST, "Mine")
    install("features", FEATURES, "Mine")
    data = toy.dataset()
    rank = registry.find("rank", "head")(np.ones((data.n_labels, 1), np.float32), np.zeros(data.n_labels, np.float32))
    level = Level("length", registry.find("shortlist", "mine")(data.n_labels), rank)
    model = Model.over(data, {"mine": registry.find("features", "mine")()}, [[level]])
    again = reloaded(model, tmp_path / "model")
    found = again.rank(["x", "four"], 5)
    assert found.ids.tolist() == [0, 1, 0, 1] and found.score.tolist() == [1.0, 1.0, 4.0, 4.0]


def test_loss(install: Install, encoder: str) -> None:
    install("loss", LOSS, "")
    settings = {
        "encoder": {"model": encoder, "max_length": 16},
        "train": {"epochs": 1.0, "batch_size": 16},
        "min_steps_per_epoch": 1,
        "dual": {"loss": {"kind": "mine"}},
    }
    treetop.fit("dexml", toy.dataset(n=32), settings=settings)
    assert set(registry.find("loss", "mine").CALLS) == {"mine"}
    with pytest.raises(ConfigError, match=r"dual\.loss\.kind: unknown value 'mime'.*'soft_topk', 'mine'"):
        treetop.fit("dexml", toy.dataset(), settings={"dual": {"loss": {"kind": "mime"}}})


def test_format(install: Install, tmp_path: Path) -> None:
    install("format", FORMAT, "FORMAT")
    (tmp_path / "data").write_text("MINE;a;one text\nMINE;b;another text\n")
    data = Dataset.read(tmp_path / "data")
    assert [*data.labels.ids] == ["a", "b"] and [*data.texts] == ["one text", "another text"]
    from treetop.data.write import write

    write(data, tmp_path / "out", "mine", lossy=True)
    assert (tmp_path / "out" / "train.txt").read_text() == (tmp_path / "data").read_text()
    assert [*Dataset.read(tmp_path / "out").texts] == [*data.texts]


def test_metric(install: Install) -> None:
    data = toy.dataset()
    model = treetop.fit("popular", data)
    before = model.evaluate(data, resamples=0).values
    install("metric", METRIC, "answered")
    after = model.evaluate(data, resamples=0).values
    assert after["mine@1"] == 100.0 and {name: after[name] for name in before} == before


def test_label_description(install: Install) -> None:
    install("labels", LABELS, "describe")
    data = toy.dataset()
    settings = {"tree": {"max_leaf": 5}}
    mine = treetop.fit("xr_linear", data, settings={**settings, "label_features": "mine"})
    pifa = treetop.fit("xr_linear", data, settings=settings)
    assert not np.array_equal(mine.rank([*data.texts], 5).score, pifa.rank([*data.texts], 5).score)


def test_partition(install: Install) -> None:
    install("partition", PARTITION, "Config")
    data = toy.dataset()
    model = treetop.fit("xr_linear", data, settings={"partition": "mine"})
    assert [level.shortlist.n for level in model.members[0]] == [3, data.n_labels]
    assert treetop.fit("xr_linear", data, settings={"partition": "kmeans"}).predict(["x"], 1)
    with pytest.raises(ConfigError, match=r"partition: unknown value 'mime'.*'balanced', 'kmeans', 'mine'"):
        treetop.fit("xr_linear", data, settings={"partition": "mime"})


def test_augmentation(install: Install) -> None:
    install("augment", AUGMENT, "")
    data = toy.dataset()
    model = treetop.fit("mine+xr_linear", data)
    assert model.card.recipe == "mine+xr_linear" and model.n_train == len(data)
