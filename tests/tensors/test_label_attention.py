"""Label attention against a twin of plain loops, in training and in prediction."""

from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.network.vectors.attention import AttentionPlan, AttentionTable
from treetop.rank.attention import Attention
from treetop.tensors import label_attention
from treetop.tensors.label_attention import LabelVectors
from treetop.tensors.sequences import SequenceRows, Sequences
from treetop.train.optim import AdamConfig

LENGTHS = [5, 0, 1, 7, 3, 7]
WIDTH, LABELS = 6, 11


def slow_logit(states, u, own, bias, layers):
    """One label and one text, word by word."""
    scores = [float(np.dot(u, h)) for h in states]
    top = max(scores, default=0.0)
    total = sum(np.exp(score - top) for score in scores)
    read = np.zeros(len(u))
    for score, h in zip(scores, states, strict=True):
        read += np.exp(score - top) / total * h
    x = read
    for i, (weight, offset) in enumerate(layers):
        x = np.array([np.dot(row, np.maximum(x, 0) if i else x) + b for row, b in zip(weight, offset, strict=True)])
    return float(x[0]) + (0.0 if own is None else float(np.dot(own, read))) + float(bias)


def case(kind, seed=0):
    """(states of each text, attention vectors, own weights or None, biases, layers)"""
    rng = np.random.default_rng(seed)
    draw = (lambda *shape: rng.integers(-1, 2, shape)) if kind == "tied" else (lambda *shape: rng.normal(size=shape))
    scale = 300.0 if kind == "huge" else 1.0
    states = [scale * draw(n, WIDTH).astype(np.float32) for n in LENGTHS]
    sizes = [WIDTH, 4, 1]
    layers = [(draw(b, a).astype(np.float32), draw(b).astype(np.float32)) for a, b in pairwise(sizes)]
    own = None if kind == "shared" else draw(LABELS, WIDTH).astype(np.float32)
    return states, draw(LABELS, WIDTH).astype(np.float32), own, draw(LABELS).astype(np.float32), layers


def padded(states):
    table = np.zeros((len(states), max(1, *map(len, states)), WIDTH), np.float32)
    there = np.zeros(table.shape[:2], bool)
    for row, part in enumerate(states):
        table[row, : len(part)], there[row, : len(part)] = part, True
    return Sequences(torch.from_numpy(table), torch.from_numpy(there))


def view_of(states):
    return SequenceRows(
        lambda rows: padded([states[row] for row in rows]), np.array(list(map(len, states))), WIDTH, torch.device("cpu")
    )


def slow(kind):
    states, u, own, bias, layers = case(kind)
    return np.array(
        [
            [slow_logit(part, u[i], None if own is None else own[i], bias[i], layers) for i in range(LABELS)]
            for part in states
        ]
    )


@pytest.mark.parametrize("kind", ["random", "shared", "tied", "huge"])
def test_logits_are_those_of_plain_loops(kind):
    states, u, own, bias, layers = case(kind)
    vectors = LabelVectors(*(None if x is None else torch.from_numpy(x) for x in (u, own, bias)))
    tensors = [(torch.from_numpy(w), torch.from_numpy(b)) for w, b in layers]
    found = label_attention.logits(padded(states), vectors, tensors).numpy()
    np.testing.assert_allclose(found, slow(kind), rtol=2e-4, atol=2e-4)
    weights = label_attention.attention(padded(states), vectors.attention).numpy()
    np.testing.assert_allclose(weights.sum(2), np.broadcast_to(np.sign(LENGTHS)[:, None], weights.shape[:2]), atol=1e-5)


@pytest.mark.parametrize("kind", ["random", "shared", "tied", "huge"])
@pytest.mark.parametrize("candidates", ["all", "some"])
def test_rankings_are_those_of_plain_loops(kind, candidates):
    states, u, own, bias, layers = case(kind)
    bias = bias.copy()
    bias[3] = -np.inf  # never seen
    rank, expected = Attention(u, own, bias, layers), slow(kind)
    rng = np.random.default_rng(1)
    counts = np.full(len(states), LABELS) if candidates == "all" else np.array([4, 0, 11, 2, 3, 1])
    ids = np.concatenate([np.sort(rng.permutation(LABELS)[:n]) for n in counts]).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(counts)])
    parent = rng.uniform(0.1, 1.0, len(ids)).astype(np.float32)
    given = Candidates.all(len(states), LABELS)
    if candidates == "some":
        given = Candidates(len(states), LABELS, ends, ids, parent, parent)
    join = Join("sigmoid", "own" if candidates == "all" else "path")
    found = rank.rank(view_of(states), given, join, 5)
    for row in range(len(states)):
        here = ids[ends[row] : ends[row + 1]]
        score = 1 / (1 + np.exp(-np.clip(expected[row, here], -99, 99)))
        score = score if candidates == "all" else score * parent[ends[row] : ends[row + 1]]
        score = np.where(here == 3, -1, score)
        best = np.sort(score[score >= 0])[::-1][:5]
        mine = slice(found.indptr[row], found.indptr[row + 1])
        np.testing.assert_allclose(found.score[mine], best, rtol=1e-3, atol=1e-4)
        assert 3 not in found.ids[mine] and set(found.ids[mine]) <= set(here.tolist())


def test_slices_and_means_of_a_view():
    states = case("random")[0]
    view = view_of(states)
    means = np.array([part.mean(0) if len(part) else np.zeros(WIDTH) for part in states])
    np.testing.assert_allclose(np.asarray(view), means, atol=1e-6)
    np.testing.assert_allclose(np.asarray(view[2:5]), means[2:5], atol=1e-6)
    assert view[2:5].shape == (3, WIDTH) and view[:0].batches() == []


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_gradients_are_those_of_a_dense_table(own, some):
    """Gathered rows learn what rows of a plain parameter would; padding and labels that are no candidates nothing."""
    states, u, weights, bias, _ = case("random")
    plan = AttentionPlan(hidden=(4,), own=own, tokens=4.0)
    config = AdamConfig(lr=0.1, weight_decay=0.0)
    table = AttentionTable(LABELS, WIDTH, plan, config, torch.device("cpu"), bias=True)
    table.rows.init(torch.from_numpy(np.concatenate([u, weights], 1) if own else u), torch.from_numpy(bias))
    ids = torch.tensor([[0, 4, -1], [2, 2, 1], [5, -1, -1], [0, 1, 2], [9, 8, 4], [4, 5, 0]]) if some else None
    texts = padded(states)
    dense = table.rows.weight.clone().requires_grad_()
    gathered = dense[ids.clamp_min(0)] if some else dense
    split = LabelVectors(gathered[..., :WIDTH], gathered[..., WIDTH : 2 * WIDTH] if own else None, gathered[..., -1])
    expected = label_attention.logits(texts, split, table.shared.layers())
    slope = torch.from_numpy(np.random.default_rng(2).normal(size=expected.shape).astype(np.float32))
    if some:
        slope = slope.masked_fill(ids < 0, 0.0)
    expected.backward(slope)
    table.rows.prepare(1.0, fuse=False, value=True)
    found = table.logits(texts, ids)
    there = torch.ones_like(found, dtype=torch.bool) if ids is None else ids >= 0
    torch.testing.assert_close(found[there], expected[there])
    found.backward(slope)
    [(grads, local, _)] = table.rows.pending
    total = torch.zeros_like(dense).index_add_(0, local[:, 0].clamp_min(0), grads * (local >= 0))
    torch.testing.assert_close(total, dense.grad)


def test_it_is_stored_refuses_damage_and_other_views():
    states, u, own, bias, layers = case("random")
    rank = Attention(u, own, bias, layers)
    again = Attention.from_part(rank.to_part())
    a, b = (r.rank(view_of(states), Candidates.all(6, LABELS), Join(), 4) for r in (rank, again))
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)
    with pytest.raises(
        ModelError, match=r"rank.attention.1: reads token sequences of width 6, got a view of 3 columns"
    ):
        rank.rank(np.zeros((2, 3), np.float32), Candidates.all(2, LABELS), Join(), 4)
    part = rank.to_part()
    part.arrays["layer-01"] = np.zeros((2, 4), np.float32)
    with pytest.raises(ModelError, match="layer-01"):
        Attention.from_part(part)


def test_neighbours_of_a_label_are_those_whose_vectors_point_the_same_way():
    _, u, own, bias, layers = case("random")
    for weights in (None, own):
        rank, table = Attention(u, weights, bias, layers), u if weights is None else weights
        ids, cosines = rank.similar(rank.vector(4), 3)
        expected = table @ table[4] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[4])
        assert ids[0] == 4 and np.allclose(cosines, np.sort(expected)[::-1][:3], atol=1e-5)
