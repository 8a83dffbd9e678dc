import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treetop.core.errors import InputError
from treetop.core.texts import Texts


@given(st.lists(st.text(max_size=20), max_size=20), st.data())
def test_texts_behave_like_a_list(strings, data):
    texts = Texts.of(strings)
    assert list(texts) == strings and len(texts) == len(strings)
    rows = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=9)) if strings else []
    assert list(texts.take(rows)) == [strings[row] for row in rows]
    a, b = sorted(data.draw(st.tuples(st.integers(0, len(strings)), st.integers(0, len(strings)))))
    assert list(texts[a:b]) == strings[a:b]
    assert list(Texts.concat([texts, texts[a:b]])) == strings + strings[a:b]
    assert Texts.of(strings) == texts


def test_wrong_strings_and_places_are_refused():
    texts = Texts.of(["a", "b\ud800"])
    assert texts[-1] == "b�"
    assert list(texts[::-1]) == ["b�", "a"]
    with pytest.raises(IndexError):
        texts[2]
    with pytest.raises(InputError, match="text 1: expected a string, got float"):
        Texts.of(["a", float("nan")])
    with pytest.raises(InputError, match="offsets"):
        Texts(np.zeros(3, np.uint8), np.array([0, 2]))
