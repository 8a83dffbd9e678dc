import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.kernels import reference
from treetop.kernels.search import products


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("bias", [False, True])
def test_best_equals_sorting_everything(k, bias, monkeypatch):
    monkeypatch.setattr(products, "QUERIES", 3)
    monkeypatch.setattr(products, "ROWS", 7)
    rng = np.random.default_rng(k)
    Q, V = (rng.normal(size=(n, 5)).astype(np.float32) for n in (8, 23))
    b = rng.normal(size=23).astype(np.float32) if bias else None
    values, ids = products.best(*map(torch.from_numpy, (Q, V)), k, None if b is None else torch.from_numpy(b))
    for row, expected in enumerate(reference.largest_products(Q, V, k, b)):
        assert ids[row].tolist() == [label for label, _ in expected]
        np.testing.assert_allclose(values[row], [value for _, value in expected], rtol=1e-5, atol=1e-6)


def test_no_queries_and_one_row():
    values, ids = products.best(torch.zeros(0, 4), torch.ones(3, 4), 2)
    assert values.shape == ids.shape == (0, 2)
    assert products.best(torch.ones(2, 4), torch.ones(1, 4), 9)[1].tolist() == [[0], [0]]
