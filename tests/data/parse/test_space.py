"""Labels that differ only in case or spaces."""

from treetop.core.texts import Texts
from treetop.data.parse import space


def test_labels_alike_are_grouped_in_their_order(monkeypatch):
    labels = Texts.of(["Cat", "dog", "cat", "Dog ", "a  b", "CAT", "A b", "bird"])
    assert space.alike(labels) == [["Cat", "cat", "CAT"], ["dog", "Dog "], ["a  b", "A b"]]
    assert space.alike(Texts.of(["x", "y"])) == [] and space.alike(Texts.of([])) == []
    monkeypatch.setattr(space, "hash", lambda key: len(key), raising=False)  # others of the same hash are no group
    assert space.alike(labels) == [["Cat", "cat", "CAT"], ["dog", "Dog "], ["a  b", "A b"]]
