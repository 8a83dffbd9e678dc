"""Words that explain a label are those that count, for every recipe. `make slow`."""

import numpy as np
import pytest

import toy
import treetop
from faithful import falls, gaps
from test_battery import RECIPES, tiny
from treetop.core.dataset import Dataset

pytestmark = pytest.mark.slow
# Texts are six words, two of them of the label, so no recipe could reach much more than three times; convolutions
# over places also change when words behind a gap move up.
LEAST = {"inceptionxml": 1.5, "inceptionxml_lf": 1.5}


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe != "popular"])
def test_without_its_words_a_label_loses_at_least_twice_as_much(recipe):
    model = treetop.fit(recipe, toy.dataset(n=200), **tiny(recipe))
    top, random, n = falls(model, toy.dataset(seed=3, n=20).texts, drop=2, member=-1)
    assert n >= 24 and top > 0 and top >= LEAST.get(recipe, 2) * random, (top, random)


@pytest.mark.parametrize(("recipe", "preset"), [("xr_linear", "default"), ("lightxml", "cpu"), ("unidec", "cpu")])
def test_on_real_texts(recipe, preset):
    """A few thousand rows of WordNet, unseen definitions; with the encoder of the package for tests."""
    data, test = Dataset.read("wordnet"), Dataset.read("wordnet", "test")
    rng = np.random.default_rng(0)
    settings = {} if preset == "default" else {"train": {"epochs": 3.0}}
    rows = np.sort(rng.permutation(len(data))[:4000])
    model = treetop.fit(recipe, data.take(rows), preset=preset, settings=settings)
    texts = [test.texts[int(row)] for row in rng.permutation(len(test))[:20]]
    top, random, n = falls(model, texts, k=3)
    print(f"{recipe}: {n} pairs, margin falls by {top:.3f} and by {random:.3f} at random")
    assert n >= 24 and top > 0 and top >= 2 * random
    steps = [way.steps[-1] for text in texts for found in model.explain(text, 3) for way in found.members]
    relative, of_sizes = np.array([gaps(step) for step in steps]).T
    assert ((relative < 0.0101) | (of_sizes < 1e-3)).all()
