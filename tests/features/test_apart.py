"""Features under a name of their own: same views, computed once and only when read, the same again from data."""

import numpy as np
import pytest

from treetop.core.abilities import Gradient
from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.features.namespaced import Namespaced, shares
from treetop.features.tfidf.tfidf import Tfidf
from treetop.features.views import Views

TEXTS = Texts.of(["a black cat", "the black dog"])


class Counted:
    """Two views; says which were made."""

    def __init__(self):
        self.made = []

    def views(self, texts):
        return Views({name: lambda name=name: self.made.append(name) or name for name in ("tfidf", "more")})


def test_views_are_lazy_and_the_first_of_a_name_counts():
    one, other = Counted(), Counted()
    views = Namespaced("second", {"tfidf": one, "other": other}).views(TEXTS)
    assert list(views) == ["second/tfidf", "second/more"] and one.made == []
    assert views["second/more"] == "more" and views["second/more"] == "more"
    assert one.made == ["more"] and other.made == []


def test_round_trip_and_terms():
    tfidf = Tfidf.fit(TEXTS)
    apart = Namespaced("second", {"tfidf": tfidf})
    again = Namespaced.from_part(apart.to_part())
    a, b = tfidf.views(TEXTS)["tfidf"], again.views(TEXTS)["second/tfidf"]
    assert np.array_equal(a.indices, b.indices) and np.array_equal(a.data, b.data) and again.name == "second"
    features = {"tfidf": Tfidf.fit(["horse"]), "second": again}
    one = Gradient(np.ones(3, np.float32), 0.0)
    assert [share.term for share in shares(features, "cat, horse", "second/tfidf", [one])[0].words] == ["cat"]
    assert [share.spans for share in shares(features, "cat, horse", "tfidf", [one])[0].words] == [((5, 10),)]
    assert (
        shares(features, "cat", "second/embedding", [one]) is None and shares({"x": Counted()}, "", "more", []) is None
    )


@pytest.mark.parametrize(("name", "parts"), [("", 1), ("a/b", 1), ("second", 0), (7, 1)])
def test_damage_is_refused(name, parts):
    held = {"tfidf": Tfidf.fit(TEXTS).to_part()} if parts else {}
    with pytest.raises(ModelError, match="features.apart.1"):
        Namespaced.from_part(Part(Namespaced.kind, {"name": name}, {}, held))
