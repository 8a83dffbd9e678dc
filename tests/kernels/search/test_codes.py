import numpy as np

from treetop.kernels.search.codes import Codes, code_dots


def test_products_of_codes_are_close():
    rng = np.random.default_rng(0)
    table, query = rng.normal(size=(500, 33)).astype(np.float32), rng.normal(size=33).astype(np.float32)
    table[7], bias = 0.0, rng.normal(size=500).astype(np.float32)
    codes = Codes.of(table)
    assert codes.codes.dtype == np.int8 and np.abs(codes.codes[np.arange(500) != 7]).max(1).min() == 127
    found = np.concatenate([code_dots(codes, 0, 200, query, bias), code_dots(codes, 200, 500, query, bias)])
    expected = table @ query + bias
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    assert found[7] == bias[7]
    assert np.array_equal(code_dots(codes, 0, 3, np.zeros(33, np.float32), bias), bias[:3])
