import numpy as np
import pytest

from treetop.core.executor import blas, threads


@pytest.fixture
def controls():
    found = blas._controls()
    if found is None:
        pytest.skip("this numpy has no OpenBLAS of its own")
    get, put = found
    before = get()
    put(3)
    yield get
    put(before)


def test_blocks_have_one_thread_of_the_blas_each_and_others_get_theirs_back(controls):
    seen = threads.run(lambda a, b: (controls(), *threads.run(lambda c, d: controls(), [(0, 1), (1, 2)])), [(0, 1)] * 4)
    assert seen == [(1, 1, 1)] * 4 and controls() == 3
    with threads.limited(1):
        assert threads.run(lambda a, b: controls(), [(0, 1)] * 2) == [1, 1]
    assert threads.run(lambda a, b: controls(), [(0, 1)]) == [3]
    for first in threads.stream(lambda a, b: controls(), [(0, 1)] * 9):
        assert first == 1
        break  # a loop that is left early
    assert controls() == 3


def test_an_error_restores_them(controls):
    def fails(a, b):
        raise ValueError

    with pytest.raises(ValueError):
        threads.run(fails, [(0, 1)] * 3)
    assert controls() == 3


def test_another_blas_is_left_alone(monkeypatch):
    monkeypatch.setattr(blas, "_controls", lambda: None)
    assert threads.run(lambda a, b: np.ones((4, 4)) @ np.ones(4), [(0, 1)] * 2)[1].tolist() == [4.0] * 4
