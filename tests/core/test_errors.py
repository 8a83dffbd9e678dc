"""Hints name what was meant, or nothing."""

import pytest

from treetop.core.dataset import LabelSet
from treetop.core.errors import LabelError, did_you_mean

FAR = [f"label {i:03d}: something of kind {i % 7}" for i in range(300)]


@pytest.mark.parametrize(
    ("word", "near"), [("addcomm", "addcom"), ("domestik cat", "domestic cat"), ("horze", "horse")]
)
def test_a_slip_is_seen_in_any_list(word, near):
    for choices in ([near], [*FAR, near]):
        assert did_you_mean(word, choices) == f" Did you mean '{near}'?"


def test_a_long_list_asks_for_more_than_a_short_one():
    word, half_alike = "12345", "n15236475"
    assert did_you_mean(word, [half_alike]) == f" Did you mean '{half_alike}'?"
    assert did_you_mean(word, [*FAR, half_alike]) == ""


def test_an_unknown_label_among_many_is_not_guessed():
    labels = LabelSet.of([f"n{i:08d}" for i in range(1000)], FAR * 3 + ["smell: emit an odor"] * 100)
    with pytest.raises(LabelError, match=r"'umbrella stand': unknown id or name. `treetop labels list` shows all"):
        labels.find("umbrella stand")
    with pytest.raises(LabelError, match=r"Did you mean 'n00000930'\?"):
        labels.find("n0000930")
