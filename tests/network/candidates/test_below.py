import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.network.candidates.below import Below, Children
from treetop.network.candidates.chosen import Scored, best_places
from treetop.network.targets import BatchTargets, Targets
from treetop.train.batches import Message

PARENT = np.array([2, 0, 0, 1, 2, 2])


def test_candidates_and_targets_equal_the_plain_way():
    children = Children.of(PARENT, 4, torch.device("cpu"))  # parent 3 has no child
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.2], [0.3, 0.2, 0.1, 0.9]])
    positives = {0: {1: 1.0, 3: 0.5}, 1: {4: 1.0}}
    rows = [(i, c, v) for i, row in positives.items() for c, v in row.items()]
    targets = Targets(
        torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows]), torch.tensor([r[2] for r in rows]), 2
    )
    forced = best_places(scores, targets.mapped(children.parent).dense(4), keep=2)
    assert set(forced[0].tolist()) == {0, 1} and 2 in forced[1].tolist() and 3 in forced[1].tolist()
    chosen = children.below(forced)
    ids, made = chosen.ids, chosen.find(targets)
    for i in range(2):
        plain = [label for parent in forced[i].tolist() for label in np.flatnonzero(parent == PARENT)]
        assert [label for label in ids[i].tolist() if label >= 0] == plain
        for label, value in zip(ids[i].tolist(), made[i].tolist(), strict=True):
            assert value == (positives[i].get(label, 0.0) if label >= 0 else 0.0)


def test_without_teacher_forcing_a_missed_parent_loses_its_positives():
    children = Children.of(PARENT, 3, torch.device("cpu"))
    scores = torch.tensor([[0.1, 0.2, 0.9]])
    targets = Targets(torch.tensor([0, 0]), torch.tensor([1, 5]), torch.tensor([1.0, 1.0]), 1)
    chosen = best_places(scores, None, keep=1)
    assert children.below(chosen).ids.tolist() == [[0, 4, 5]]
    assert children.below(chosen).find(targets).tolist() == [[0.0, 0.0, 1.0]]
    assert best_places(scores, None, keep=9).shape == (1, 3)


def test_no_parent_has_no_children_and_hides_no_positive():
    children = Children.of(PARENT, 3, torch.device("cpu"))
    targets = Targets(torch.tensor([0, 0]), torch.tensor([1, 5]), torch.tensor([1.0, 1.0]), 1)
    chosen = torch.tensor([[-1, 0]])
    assert children.below(chosen).ids.tolist() == [[-1, -1, -1, 1, 2, -1]]
    assert children.below(chosen).find(targets).tolist() == [[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]


def test_of_too_many_true_parents_the_surest_stay():
    scores, positive = torch.tensor([[9.0, 1.0, 2.0, 3.0]]), torch.tensor([[0.0, 0.2, 1.0, 0.5]])
    assert best_places(scores, positive, 2).tolist() == [[2, 3]]
    assert best_places(scores, positive, 4).tolist() == [[2, 3, 1, 0]]


@pytest.mark.parametrize("forced", [False, True])
def test_children_of_what_the_head_above_likes_best(forced):
    """The head above has candidates of its own: nodes by id, padding never among the best."""
    children = Children.of(PARENT, 3, torch.device("cpu"))
    ids, logits = torch.tensor([[2, 0, -1], [1, -1, -1]]), torch.tensor([[0.5, 0.1, 9.0], [0.0, 9.0, 9.0]])
    above = Scored(ids, logits, torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    known = BatchTargets(Targets(torch.tensor([0]), torch.tensor([1]), torch.tensor([1.0]), 2))
    made = Below(children, 1, forced).choose(known, Message(), above)
    assert made.ids.tolist() == [[1, 2, -1] if forced else [0, 4, 5], [3, -1, -1]]
    assert made.find(known.positives).tolist() == [[float(forced), 0.0, 0.0], [0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="need a head above"):
        Below(children, 1, forced).choose(known, Message(), None)
