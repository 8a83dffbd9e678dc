import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.train.shortlists import Children, choose, expand, targets_of

from treetop.network.targets import Targets

PARENT = np.array([2, 0, 0, 1, 2, 2])


def test_candidates_and_targets_equal_the_plain_way():
    children = Children.of(PARENT, 4, torch.device("cpu"))  # parent 3 has no child
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.2], [0.3, 0.2, 0.1, 0.9]])
    positives = {0: {1: 1.0, 3: 0.5}, 1: {4: 1.0}}
    rows = [(i, c, v) for i, row in positives.items() for c, v in row.items()]
    targets = Targets(
        torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows]), torch.tensor([r[2] for r in rows]), 2
    )
    forced = choose(scores, targets.mapped(children.parent).dense(4), keep=2)
    assert set(forced[0].tolist()) == {0, 1} and 2 in forced[1].tolist() and 3 in forced[1].tolist()
    ids, made = expand(forced, children), targets_of(forced, children, targets)
    for i in range(2):
        plain = [label for parent in forced[i].tolist() for label in np.flatnonzero(parent == PARENT)]
        assert [label for label in ids[i].tolist() if label >= 0] == plain
        for label, value in zip(ids[i].tolist(), made[i].tolist(), strict=True):
            assert value == (positives[i].get(label, 0.0) if label >= 0 else 0.0)


def test_without_teacher_forcing_a_missed_parent_loses_its_positives():
    children = Children.of(PARENT, 3, torch.device("cpu"))
    scores = torch.tensor([[0.1, 0.2, 0.9]])
    targets = Targets(torch.tensor([0, 0]), torch.tensor([1, 5]), torch.tensor([1.0, 1.0]), 1)
    chosen = choose(scores, None, keep=1)
    assert expand(chosen, children).tolist() == [[0, 4, 5]]
    assert targets_of(chosen, children, targets).tolist() == [[0.0, 0.0, 1.0]]
    assert choose(scores, None, keep=9).shape == (1, 3)


def test_no_parent_has_no_children_and_hides_no_positive():
    children = Children.of(PARENT, 3, torch.device("cpu"))
    targets = Targets(torch.tensor([0, 0]), torch.tensor([1, 5]), torch.tensor([1.0, 1.0]), 1)
    chosen = torch.tensor([[-1, 0]])
    assert expand(chosen, children).tolist() == [[-1, -1, -1, 1, 2, -1]]
    assert targets_of(chosen, children, targets).tolist() == [[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]


def test_of_too_many_true_parents_the_surest_stay():
    scores, positive = torch.tensor([[9.0, 1.0, 2.0, 3.0]]), torch.tensor([[0.0, 0.2, 1.0, 0.5]])
    assert choose(scores, positive, 2).tolist() == [[2, 3]]
    assert choose(scores, positive, 4).tolist() == [[2, 3, 1, 0]]
