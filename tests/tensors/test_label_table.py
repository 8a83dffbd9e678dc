"""Label vectors on a device, here on CPU tensors, against the ranks that run on numpy."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from treetop.core.errors import ConfigError, ModelError
from treetop.core.types import TRANSFORMS, Candidates, Join, Level, Ranking
from treetop.predict.beam import step
from treetop.rank.dual import Dual
from treetop.rank.head import Head
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything
from treetop.shortlist.ivf import Ivf
from treetop.tensors import label_table
from treetop.tensors.label_table import keys, own_scores
from treetop.tensors.rows import DeviceRows, rows_on

CPU = torch.device("cpu")


def on_tensors(head):
    """What `to` makes on a GPU."""
    moved = head.to(CPU)
    moved.table = head.table_on(CPU)
    return moved


def made(n=200, width=6, *, kind="random", squeeze=False, seed=0):
    rng = np.random.default_rng(seed)
    inner = 4 if squeeze else width
    weight, bias = rng.normal(size=(n, inner)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    if kind == "tied":  # few different sums, each exact
        weight, bias = rng.integers(-1, 2, (n, inner)).astype(np.float32), np.zeros(n, np.float32)
    if kind == "saturated":
        weight, bias = weight * 40, bias + 40
    if kind == "zero":
        weight, bias = weight, bias - 2000
    bias[rng.permutation(n)[: n // 10]] = -np.inf
    more = {}
    if squeeze:
        more = {"squeeze": np.eye(4, width, dtype=np.float32), "squeeze_bias": np.ones(4, np.float32)}
    view = rng.integers(-2, 3, (30, width)).astype(np.float32) if kind == "tied" else rng.normal(size=(30, width))
    return Head(weight, bias, **more), view.astype(np.float32)


def alike(found, expected, *, exact):
    assert np.array_equal(found.indptr, expected.indptr)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.own, expected.own, rtol=1e-5, atol=1e-6)
    assert found.ids.dtype == np.int32 and found.score.dtype == np.float32
    rows = np.repeat(np.arange(len(found)), np.diff(found.indptr))
    order = np.lexsort((found.ids, -found.score, rows))
    assert np.array_equal(order, np.arange(len(rows)))  # by score, then id
    if exact:
        assert np.array_equal(found.ids, expected.ids)


@pytest.mark.parametrize("scores", [1 << 26, 700])  # one block, or blocks of texts and of labels
@pytest.mark.parametrize("keep", [1, 7, 150, 10_000])
@pytest.mark.parametrize("transform", ["noop", "sigmoid", "log_sigmoid", "hinge2", "log_hinge3"])
@pytest.mark.parametrize("kind", ["random", "tied", "saturated", "zero"])
def test_all_labels_as_on_numpy(kind, transform, keep, scores, monkeypatch):
    monkeypatch.setattr(label_table, "SCORES", scores)
    monkeypatch.setattr(label_table, "ROWS", 8)
    head, view = made(kind=kind, squeeze=kind == "tied")
    everything, join = Candidates.all(len(view), head.n), Join(transform)
    expected = head.rank(view, everything, join, keep)
    for given in (view, DeviceRows(torch.from_numpy(view))):
        alike(on_tensors(head).rank(given, everything, join, keep), expected, exact=kind in ("random", "tied"))


@pytest.mark.parametrize("combine", ["own", "parent", "path"])
@pytest.mark.parametrize("transform", ["sigmoid", "log_sigmoid", "hinge3"])
@pytest.mark.parametrize("kind", ["random", "tied"])
@pytest.mark.parametrize("keep", [1, 9, 10_000])
def test_children_of_the_nodes_above_as_on_numpy(kind, transform, combine, keep, monkeypatch):
    monkeypatch.setattr(label_table, "SCORES", 600)
    monkeypatch.setattr(label_table, "ROWS", 8)
    rng = np.random.default_rng(1)
    head, view = made(kind=kind)
    cut = np.sort(rng.integers(0, head.n, 19))
    tree = Descend(np.array([0, *cut, head.n]), rng.permutation(head.n).astype(np.int32))  # some nodes have no child
    counts = rng.integers(0, 9, len(view))
    ids = np.concatenate([rng.permutation(20)[:count] for count in counts]).astype(np.int32)
    score, own = (np.round(rng.random(len(ids)), 1).astype(np.float32) for _ in range(2))
    above = Ranking.sorted(np.concatenate([[0], np.cumsum(counts)]), ids, score, own)
    levels = [Level("v", tree, rank, Join(transform, combine)) for rank in (head, on_tensors(head))]
    expected, found = (step(level, {"v": view}, above, keep) for level in levels)
    alike(found, expected, exact=True)
    outside = Ranking(above.indptr, np.full(len(ids), 20, np.int32), score, own)
    with pytest.raises(ModelError, match="ranks more than 20 nodes"):
        step(levels[1], {"v": view}, outside, keep)


def test_no_texts_and_labels_that_are_never_returned():
    head, view = made()
    nobody = Head(head.weight, np.full(head.n, -np.inf, np.float32))
    for join in (Join(), Join("sigmoid")):
        assert len(on_tensors(head).rank(view[:0], Candidates.all(0, head.n), join, 5)) == 0
        assert on_tensors(nobody).rank(view, Candidates.all(30, head.n), join, 5).indptr.tolist() == [0] * 31


def test_a_table_without_room_is_refused_in_a_sentence(monkeypatch):
    def full(array):
        raise torch.OutOfMemoryError("CUDA out of memory")

    head, _ = made()
    monkeypatch.setattr(torch, "from_numpy", full)
    with pytest.raises(ConfigError, match=r"device: cpu has no room for .* of label vectors\. Free its memory, or use"):
        head.table_on(CPU)


def test_on_a_device_lists_and_permuted_rows_give_the_exact_search():
    rng = np.random.default_rng(2)
    weight, bias = rng.normal(size=(600, 5)).astype(np.float32), rng.normal(size=600).astype(np.float32)
    view = rng.normal(size=(12, 5)).astype(np.float32)
    plain = Dual(weight, bias, widths={"dual": 5})
    lists = Ivf.of(weight, bias, probe=1, size=50)
    exact = step(Level("v", Everything(600), plain, Join("sigmoid")), {"v": view}, None, 9)
    near = step(Level("v", lists, plain.ordered(lists.members), Join("sigmoid")), {"v": view}, None, 9)
    moved = Level("v", lists, on_tensors(plain.ordered(lists.members)), Join("sigmoid"))
    assert not np.array_equal(near.ids, exact.ids)
    alike(step(moved, {"v": view}, None, 9), exact, exact=True)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_are_those_of_numpy(transform):
    margin = np.concatenate([np.linspace(-30, 30, 101), [-2000.0, 0.0, 2000.0]]).astype(np.float32)
    found = own_scores(torch.from_numpy(margin), Join(transform)).numpy()
    np.testing.assert_allclose(found, Join(transform).own(margin), rtol=1e-5, atol=1e-7)


def test_keys_are_in_the_order_of_score_then_id():
    score = torch.tensor([[-np.inf, -1.0, -0.0, 0.0, 1e-40, 2.0, 2.0, np.inf]])
    ids = torch.tensor([[0, 1, 3, 2, 4, 9, 5, 7]])
    order = keys(score, ids).argsort(1, descending=True)[0]
    assert ids[0][order].tolist() == [7, 5, 9, 4, 2, 3, 1, 0]


def test_a_view_of_a_device_can_be_sliced_and_copied():
    numbers = np.arange(12, dtype=np.float32).reshape(4, 3)
    view = DeviceRows(torch.from_numpy(numbers))
    assert view.shape == (4, 3) and len(view[1:3]) == 2
    assert np.array_equal(np.asarray(view[1:3]), numbers[1:3]) and np.asarray(view, np.float64).dtype == np.float64
    assert np.array_equal(rows_on(numbers, CPU), rows_on(view, CPU))
