"""Hints name what was meant, or nothing."""

import pytest

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError, LabelError, did_you_mean, visible

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


def test_a_message_about_a_huge_value_keeps_its_beginning_and_its_end():
    for made in (LabelError("label '" + "x" * 5_000_000 + "': unknown. Fix it."), DataError("y" * 9999 + ".", line=3)):
        assert len(str(made)) <= 2000 and " ... " in str(made) and str(made).endswith(".")
    assert str(LabelError("short")) == "short"


def test_a_huge_word_is_compared_with_nothing():
    assert did_you_mean("x" * 5_000_000, ["x" * 5_000_000]) == ""


def test_letters_of_all_languages_stay_as_they_are():
    for text in ("naïve café", "می‌خواهم", "👩‍👩‍👧", "שלום", "中文", "a\u00a0b"):
        assert visible(text) == text
    assert visible("\x1b\x9b\u202e\ud800") == r"\u001b\u009b\u202e\ud800"
