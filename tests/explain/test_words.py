import numpy as np
import pytest

import toy
import treetop
from treetop.core.errors import ConfigError


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("xr_linear", {"tree": {"max_leaf": 5, "branching": 2}, "tfidf": {"min_df": 1}}),
        ("xr_linear", {"tree": {"max_leaf": 5}, "linear": {"storage": "int8"}, "trees": 2}),
        ("bonsai", {"tree": {"max_leaf": 5, "branching": 4}, "trees": 1}),
        ("extremetext", {"tree": {"max_leaf": 5}}),
    ],
)
def test_words_add_up_to_margins_and_levels_to_the_score(recipe, settings):
    model = treetop.fit(recipe, toy.dataset(n=200), settings=settings)
    for text in list(toy.dataset(1).texts)[:40]:
        explained = model.explain(text, k=5)
        assert len(explained) == 5
        for found in explained:
            scores = []
            for way in found.members:
                for seen in way:
                    total = seen.step.bias + sum(word.contribution for word in seen.words)
                    if seen.words or seen.step.bias:
                        assert abs(total - seen.step.margin) < 1e-5
                    assert all(word.term in text for word in seen.words)
                    sizes = [abs(word.contribution) for word in seen.words]
                    assert sizes == sorted(sizes, reverse=True)
                scores.append(way[-1].step.score)
            if len(found.members) == 1:
                assert abs(scores[0] - found.label.score) < 1e-5
            else:
                assert found.label.score <= np.mean(scores) + 1e-5


def test_recipes_without_words_say_so():
    with pytest.raises(ConfigError, match=r"explain: rank.popular.1 has no terms to show. Use a linear recipe"):
        treetop.fit("popular", toy.dataset()).explain("a cat")
