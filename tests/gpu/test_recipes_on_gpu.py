"""Every recipe that trains a network, on a GPU: it learns, repeats, and recorded steps give what plain ones do.

Run on a machine with a GPU: `make gpu`. Imports nothing that such a machine may lack (hypothesis, pandas, faiss).
"""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is visible here"),
]

import numpy as np

import toy
import treetop
from network_forms import FORMS, settings_of


def fitted(form, encoder, *, epochs=20.0, seed=0, **train):
    recipe, settings = settings_of(form, encoder, {"epochs": epochs, "batch_size": 16, **train})
    return treetop.fit(recipe, toy.dataset(), settings=settings, seed=seed, device="cuda")


@pytest.mark.parametrize("form", FORMS)
def test_it_learns_and_its_model_answers_on_the_cpu(form, encoder, tmp_path):
    model = fitted(form, encoder)
    popular = treetop.fit("popular", toy.dataset()).evaluate(toy.dataset(), resamples=0)["P@1"]
    assert model.evaluate(toy.dataset(), resamples=0)["P@1"] > popular
    model.save(tmp_path / "m")
    again = treetop.load(tmp_path / "m", check="full").rank(toy.dataset(seed=1).texts, 5)
    np.testing.assert_array_equal(again.ids, model.rank(toy.dataset(seed=1).texts, 5).ids)


@pytest.mark.parametrize("form", FORMS)
def test_recorded_steps_teach_what_plain_ones_do(form, encoder):
    """One epoch at a time is too short to drift apart: scores differ by rounding alone."""
    plain, recorded = (fitted(form, encoder, epochs=3.0, cuda_graphs=graphs) for graphs in (False, True))
    a, b = (model.evaluate(toy.dataset(), resamples=0)["P@5"] for model in (plain, recorded))
    assert abs(a - b) <= 3.0


@pytest.mark.parametrize("form", ["lightxml", "lightxml, clusters", "renee", "unidec"])
def test_the_same_seed_gives_nearly_the_same_scores(form, encoder):
    texts = toy.dataset(seed=1).texts
    fitted(form, encoder, epochs=1.0)  # programs are compiled and tuned: a first training may take others than the next
    one, two = (fitted(form, encoder, epochs=3.0).rank(texts, 5) for _ in range(2))
    assert np.mean(one.ids == two.ids) > 0.9
