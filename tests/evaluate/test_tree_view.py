from types import SimpleNamespace

import numpy as np

import toy
import treetop
from ranking_cases import random_case
from treetop.core.types import LabelTree
from treetop.evaluate.match import Matches, match
from treetop.evaluate.tree_view import WIDTHS, TreeView
from treetop.shortlist.descend import Descend


def levels_of(tree):
    return [
        SimpleNamespace(shortlist=Descend.of(tree, t), rank=SimpleNamespace(n=size))
        for t, size in enumerate(tree.sizes)
    ]


def test_nodes_have_the_labels_below_them():
    rng = np.random.default_rng(0)
    middle = rng.integers(0, 3, 9).astype(np.int32)
    leaves = np.concatenate([np.arange(9), rng.integers(0, 9, 27)]).astype(np.int32)
    tree = LabelTree((np.zeros(3, np.int32), middle, leaves))
    matches = Matches.of(*random_case(1).arguments)  # 36 labels of the model, 4 it does not know
    view = TreeView.of(levels_of(tree), matches)
    assert view.sizes == (3, 9, 36)
    found = matches.correct(10)
    expected = []
    for node in range(3):
        below = [label for label in range(36) if middle[leaves[label]] == node]
        if below:
            missed = int((matches.positives - found)[below].sum())
            frequent = sorted(below, key=lambda label: (-matches.counts[label], label))[:5]
            expected.append((missed, len(below), int(matches.positives[below].sum()), tuple(frequent)))
    shown = [(node.true - node.found, node.labels, node.true, node.frequent) for node in view.nodes]
    assert sorted(shown) == sorted(expected) and [m for m, *_ in shown] == sorted(
        (m for m, *_ in expected), reverse=True
    )
    for node in view.nodes:
        assert sum(child.labels for child in node.children) <= node.labels
        assert node.hidden > 0 or sum(child.labels for child in node.children) == node.labels


def test_a_large_tree_is_cut():
    tree = LabelTree((np.zeros(40, np.int32), np.arange(400, dtype=np.int32) // 10, np.arange(36, dtype=np.int32)))
    tree = LabelTree((*tree.parents[:2], (np.arange(36) * 11).astype(np.int32)))
    view = TreeView.of(levels_of(tree), Matches.of(*random_case(1).arguments))
    assert len(view.nodes) == WIDTHS[0] and all(len(node.children) <= WIDTHS[1] for node in view.nodes)


def test_models_with_and_without_a_tree():
    data = toy.dataset()
    tree = treetop.fit("xr_linear", data, settings={"tree": {"max_leaf": 5, "branching": 2}})
    view = TreeView.of(tree.members[0], match(tree, toy.dataset(1)))
    assert len(view.sizes) > 2 and sum(node.labels for node in view.nodes) == 40
    flat = treetop.fit("popular", data)
    assert TreeView.of(flat.members[0], match(flat, toy.dataset(1))) is None
    assert TreeView.of((), match(flat, toy.dataset(1))) is None
