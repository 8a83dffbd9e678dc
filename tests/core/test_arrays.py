import numpy as np

from treetop.core import arrays


def test_letting_go_keeps_the_values(tmp_path):
    arrays.write_arrays(tmp_path / "a", {"x": np.arange(100_000, dtype=np.float32)})
    x = arrays.read_arrays(tmp_path / "a")["x"]
    assert x.sum() > 0
    arrays.let_go(x)
    assert np.array_equal(x, np.arange(100_000)) and not x.flags.writeable
    arrays.let_go(np.zeros(3))  # memory of its own stays
