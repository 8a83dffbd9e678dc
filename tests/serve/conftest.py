import pytest

import toy
import treetop

QUICK = {"tfidf": {"min_df": 1}}


@pytest.fixture(scope="session")
def calibrated(tmp_path_factory):
    """The folder of a tree with probabilities."""
    folder = tmp_path_factory.mktemp("served") / "toy"
    settings = {**QUICK, "tree": {"max_leaf": 4, "branching": 4}}
    treetop.fit("xr_linear", toy.dataset(n=400), settings=settings, out=folder, held_out=toy.dataset(1, 600))
    return folder


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """The folder of a model without tree and probabilities, which counts votes of training texts."""
    folder = tmp_path_factory.mktemp("served") / "plain"
    treetop.fit("neighbours", toy.dataset(), settings=QUICK, out=folder, calibrate=False)
    return folder
