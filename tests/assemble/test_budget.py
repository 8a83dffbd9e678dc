import logging

import pytest

import toy
import treetop
from treetop.core.errors import ResourceError

SETTINGS = {"tree": {"max_leaf": 5, "width": 2}, "tfidf": {"min_df": 1}}


def bytes_below(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.fixture(scope="module")
def data():
    return toy.dataset(n=2000)


def test_models_fit_the_budget_and_the_cost_is_told(data, tmp_path, caplog):
    treetop.fit("xr_linear", data, settings=SETTINGS, out=tmp_path / "free")
    free = bytes_below(tmp_path / "free")
    caplog.set_level(logging.INFO, "treetop")
    for share in (0.9, 0.75, 0.62):
        limit = int(free * share)
        out = tmp_path / f"m{limit}"
        model = treetop.fit("xr_linear", data, settings=SETTINGS, budget=f"model={limit}B", out=out)
        assert bytes_below(out) <= limit
        assert "held-out texts" in caplog.records[-1].getMessage()
        assert model.predict(data.texts[0], k=1)


def test_an_impossible_budget_is_refused_with_numbers(data):
    with pytest.raises(ResourceError, match=r"model: .*(no room for weights|is the least found)"):
        treetop.fit("xr_linear", data, settings=SETTINGS, budget="model=20KB")
    with pytest.raises(ResourceError, match=r"model: the job needs about .*, --budget model allows 1 B"):
        treetop.fit("popular", data, budget="model=1B")
