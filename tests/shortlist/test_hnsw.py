import dataclasses

import numpy as np
import pytest

pytest.importorskip("faiss")
from treetop.core.errors import ModelError
from treetop.kernels.runtime import threads
from treetop.shortlist.hnsw import LINKS, Hnsw


def vectors(n, seed=0, width=12):
    V = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return V / np.linalg.norm(V, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def graph():
    bias = np.linspace(0, 0.3, 3000, dtype=np.float32)
    with threads.limited(1):
        return Hnsw.of(vectors(3000), bias, keep=20, effort=64), bias


def test_it_finds_nearly_all_of_the_best_and_biases_count(graph):
    made, bias = graph
    Q = vectors(100, 1)
    found = made.candidates(Q, None)
    exact = Q @ vectors(3000).T + bias
    hit = [
        np.isin(np.argsort(-exact[r])[:10], found.ids[found.indptr[r] : found.indptr[r + 1]]).mean() for r in range(100)
    ]
    assert np.mean(hit) > 0.98 and (np.diff(found.indptr) == 20).all()
    plain = np.argsort(-(Q @ vectors(3000).T), axis=1)[:, 0]
    assert np.mean(plain == exact.argmax(1)) < 0.98  # they do change the best


def test_low_biases_of_a_classifier_do_not_rule_the_links():
    W, Q = 1.8 * vectors(3000), 22 * vectors(100, 1)
    bias = np.random.default_rng(3).normal(-22, 2, 3000).astype(np.float32)  # as trained ones lie
    made = Hnsw.of(W, bias, keep=20, effort=64)
    found = made.candidates(Q, None)
    best = np.argsort(-(Q @ W.T + bias), axis=1)[:, :10]
    hit = [np.isin(best[r], found.ids[found.indptr[r] : found.indptr[r + 1]]).mean() for r in range(100)]
    assert np.mean(hit) > 0.98
    part = made.to_part()
    assert np.array_equal(Hnsw.from_part(part).candidates(Q, None).ids, found.ids)
    with pytest.raises(ModelError, match="damaged"):
        Hnsw.from_part(dataclasses.replace(part, config={**part.config, "weight": float("nan")}))


def test_saved_it_finds_the_same(graph):
    made, _ = graph
    again = Hnsw.from_part(made.to_part())
    Q = vectors(30, 2)
    a, b = made.candidates(Q, None), again.candidates(Q, None)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.indptr, b.indptr)
    one = again.candidates(Q[3:4], None)
    assert one.ids.tolist() == a.ids[a.indptr[3] : a.indptr[4]].tolist()
    assert len(again.candidates(Q[:0], None).ids) == 0


def test_threads_change_no_link(graph):
    made, bias = graph
    with threads.limited(2):
        again = Hnsw.of(vectors(3000), bias, keep=20, effort=64)
    assert np.array_equal(again.links.neighbors, made.links.neighbors)


def test_links_that_lead_nowhere_are_refused(graph):
    links = graph[0].links
    links.check(LINKS)
    high = int(np.flatnonzero(links.levels > 1)[0])
    upper = links.neighbors.copy()
    upper[links.offsets[high] + 2 * LINKS] = int(np.flatnonzero(links.levels == 1)[0])
    for changes in (
        {"entry": 3000},
        {"entry": int(np.flatnonzero(links.levels == 1)[0])},
        {"neighbors": np.where(links.neighbors == 5, 3000, links.neighbors).astype(np.int32)},
        {"neighbors": upper},
        {"levels": links.levels + 1},
        {"offsets": links.offsets[::-1].copy()},
    ):
        with pytest.raises(ModelError, match="point outside the graph"):
            dataclasses.replace(links, **changes).check(LINKS)
    with pytest.raises(ModelError, match="got a view of 3 columns"):
        graph[0].candidates(np.zeros((1, 3), np.float32), None)


def test_a_single_label_is_found():
    made = Hnsw.of(vectors(1), np.zeros(1, np.float32))
    assert Hnsw.from_part(made.to_part()).candidates(vectors(2, 1), None).ids.tolist() == [0, 0]
