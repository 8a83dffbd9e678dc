import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
import treetop
from treetop.assemble.dual import index
from treetop.assemble.dual.index import recall_by_lists, search_index
from treetop.assemble.dual.settings import IndexConfig
from treetop.core.types import Candidates, Join
from treetop.rank.dual import Dual
from treetop.shortlist.everything import Everything
from treetop.shortlist.hnsw import Hnsw
from treetop.shortlist.ivf import Ivf

N, WIDTH, VIEW = 4000, 12, "v"


class Vectors:
    """Features that read a text as the number of its vector."""

    def __init__(self, near):
        self.near = near

    def views(self, texts):
        return {VIEW: self.near[[int(text) for text in texts]].copy()}


def made(spread):
    """Labels in 100 heaps, the narrower the easier for lists, and texts near some labels."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(100, WIDTH))
    weight = (np.repeat(centres, N // 100, axis=0) + spread * rng.normal(size=(N, WIDTH))).astype(np.float32)
    bias = (0.01 * rng.normal(size=N)).astype(np.float32)
    near = weight[rng.integers(0, N, 300)]
    dataset = dataclasses.replace(toy.dataset(n=300), texts=treetop.core.texts.Texts.of([str(i) for i in range(300)]))
    return dataset, Vectors(near), Dual(weight, bias, widths={"dual": WIDTH})


def recall(shortlist, rank, queries, depth=100):
    best = rank.rank(queries, Candidates.all(len(queries), rank.n), Join(), depth).padded(depth)
    near = shortlist.candidates(queries, None)
    rows = [near.ids[a:b] for a, b in zip(near.indptr[:-1], near.indptr[1:], strict=True)]
    return np.mean([np.isin(want, row).mean() for want, row in zip(best, rows, strict=True)])


def test_the_recall_of_lists_is_that_of_their_candidates():
    _, vectors, rank = made(0.5)
    held = recall_by_lists(Ivf.of(rank.weight, rank.bias, probe=1, size=20), rank, vectors.near)
    for probe in (1, 3, 20, len(held)):
        lists = Ivf.of(rank.weight, rank.bias, probe=probe, size=20)
        assert held[probe - 1] == pytest.approx(recall(lists, rank, vectors.near), abs=1e-3)
    assert (np.diff(held) >= 0).all() and held[-1] == pytest.approx(1.0)
    assert recall_by_lists(lists, rank, vectors.near[:0]).tolist() == [1.0] * len(held)


def test_auto_scores_all_labels_unless_few_lists_will_do(monkeypatch):
    dataset, vectors, rank = made(0.05)
    found = search_index(dataset, vectors, VIEW, rank, IndexConfig(), 0)
    assert isinstance(found.shortlist, Everything) and found.rank is rank and found.summary == "exact, 4,000 labels"
    monkeypatch.setattr(index, "EXACT", 100)
    monkeypatch.setattr(index, "SHARE", 2)
    monkeypatch.setattr(index, "DEPTH", 20)
    for name in ("faiss", "nothing"):
        monkeypatch.setitem(__import__("sys").modules, name, None)  # whatever is installed
        found = search_index(dataset, vectors, VIEW, rank, IndexConfig(), 0)
        assert isinstance(found.shortlist, Ivf) and found.shortlist.probe < 8
        assert recall(found.shortlist, rank, vectors.near, 20) >= 0.97 and "inverted lists" in found.summary
        best, near = (
            r.rank(vectors.near, s.candidates(vectors.near, None), Join("sigmoid"), 5)
            for s, r in ((Everything(N), rank), found[:2])
        )
        assert np.mean(best.ids == near.ids) > 0.9
    scattered = made(30.0)
    assert isinstance(search_index(*scattered[:2], VIEW, scattered[2], IndexConfig(), 0).shortlist, Everything)


def test_what_is_asked_for_is_taken():
    dataset, vectors, rank = made(0.5)
    lists = search_index(dataset, vectors, VIEW, rank, IndexConfig(index="ivf", nprobe=3), 0)
    assert lists.shortlist.probe == 3 and lists.summary.startswith("3 of 8 inverted lists, ")
    few = search_index(dataset, vectors, VIEW, rank, IndexConfig(index="ivf"), 0)
    assert recall(few.shortlist, rank, vectors.near) >= 0.97
    pytest.importorskip("faiss")
    graph = search_index(dataset, vectors, VIEW, rank, IndexConfig(index="hnsw"), 0)
    assert isinstance(graph.shortlist, Hnsw)
    share = float(graph.summary.split(", ")[1].split(" %")[0])
    assert share == pytest.approx(100 * recall(graph.shortlist, rank, vectors.near), abs=0.1)


def test_the_card_says_how_labels_are_searched(encoder, tmp_path):
    given = {"encoder": {"model": encoder, "max_length": 16}, "train": {"epochs": 1.0}, "pool": {"size": 24}}
    given["search"] = {"index": "ivf"}
    treetop.fit("unidec", toy.dataset(), settings=given, out=tmp_path / "m", device="cpu")
    model = treetop.load(tmp_path / "m")
    assert model.card.data["search"].startswith("1 of 1 inverted lists, 100.0 % of the exact search's best 100 labels")
    assert "- search: 1 of 1 inverted lists" in (tmp_path / "m" / "README.md").read_text()
