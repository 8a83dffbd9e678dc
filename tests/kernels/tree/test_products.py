"""Inner products of a sparse vector with every function of a level, against the slow twin."""

import numpy as np
import pytest

import toy
import treetop
from treetop.kernels.search.topk import largest
from treetop.kernels.tree.products import products, products_slowly


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
@pytest.mark.parametrize("recipe", ["xr_linear", "dismec"])
def test_products_are_those_of_the_slow_twin(storage, recipe):
    settings = {"linear": {"storage": storage}, "tree": {"max_leaf": 5}} if recipe == "xr_linear" else {}
    rank = treetop.fit(recipe, toy.dataset(n=100), settings=settings).members[0][-1].rank
    random = np.random.default_rng(0)
    for n in (0, 1, 20, rank.n_features):
        features = np.sort(random.choice(rank.n_features, n, replace=False))
        values = random.normal(size=n).astype(np.float32)
        fast, slow = (f(rank.weights, features, values) for f in (products, products_slowly))
        np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-4)
        assert n < 20 or np.abs(slow).max() > 0


def test_the_largest_come_first_and_ties_by_id():
    random = np.random.default_rng(1)
    for n, keep in ((0, 3), (5, 9), (200, 7), (200, 200)):
        values, ids = random.integers(0, 6, n).astype(np.float32), random.permutation(n)
        if n > 100:
            values[::9] = np.nan
        order = sorted(range(n), key=lambda i: (-(values[i] if values[i] == values[i] else -np.inf), ids[i]))
        assert largest(values, ids, keep).tolist() == order[:keep]
