import dataclasses

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from treetop.core.abilities import MovesToDevice
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.features.views import Views
from treetop.predict.unknown import Telling, unknown_rows

NOTHING = ["zzxqy qqqq", "", "?!", "   "]


@pytest.mark.parametrize("recipe", ["xr_linear", "neighbours"])
def test_a_text_without_a_known_term_is_unknown(recipe):
    model = treetop.fit(recipe, toy.dataset())
    texts = [*NOTHING, "cat dogs", "zzxqy cat"]
    assert model.unknown(texts).tolist() == [True] * 4 + [False] * 2
    assert model.unknown(Texts.of(texts)).tolist() == model.unknown(texts).tolist()
    assert model.unknown([]).tolist() == []
    rows, unknown, _ = model.predict_known(texts, 3)
    assert unknown.tolist() == model.unknown(texts).tolist()
    assert rows == model.predict(texts, 3) and all(len(row) == 3 for row in rows if row)
    with pytest.raises(InputError, match="expected a string or a list of strings, got bytes"):
        model.unknown(b"cat")


def test_a_model_that_reads_no_text_knows_every_text():
    assert not treetop.fit("popular", toy.dataset()).unknown(NOTHING).any()


def test_an_encoder_knows_any_text_with_a_letter_or_a_digit(encoder):
    quick = {"encoder": {"model": encoder, "max_length": 32}, "train": {"epochs": 1.0, "batch_size": 32}}
    model = treetop.fit("lightxml", toy.dataset(n=40), settings=quick)
    assert model.unknown([*NOTHING, "cat", "7"]).tolist() == [False, True, True, True, False, False]


def test_in_a_blend_any_view_may_know_a_text():
    one = treetop.fit("xr_linear", toy.dataset())
    data = toy.dataset()
    zebras = Texts.of([text.replace("cat", "zebra") for text in data.texts])
    other = treetop.fit("xr_linear", dataclasses.replace(data, texts=zebras))
    both = treetop.blend([one, other])
    assert both.unknown(["zebra", "cat", "zzxqy"]).tolist() == [False, False, True]


def test_a_threshold_gives_no_labels_to_unknown_texts():
    model = treetop.fit("xr_linear", toy.dataset(n=300), held_out=toy.dataset(1, n=600))
    empty, known = model.predict(["zzxqy", toy.dataset(2).texts[0]], threshold=0.0)
    assert empty == [] and len(known) == 5
    assert len(model.predict("zzxqy")) == 5  # without a threshold the most frequent ones, as always
    many = ["cat dogs"] * 3 + ["zzxqy"]
    assert [len(row) for row in model.predict(many, threshold=0.0)] == [5, 5, 5, 0]


def test_rows_stay_aligned_over_batches(monkeypatch):
    monkeypatch.setattr("treetop.model.views.BATCH", 2)
    model = treetop.fit("neighbours", toy.dataset())
    texts = ["cat", "zzxqy", "dog", "horse", "qqqq"]
    assert np.flatnonzero(model.predict_known(texts, 1)[1]).tolist() == [1, 4]
    assert np.flatnonzero(model.unknown(texts)).tolist() == [1, 4]


class Joined(MovesToDevice):
    """tf-idf beside an encoder, whose views must not be computed."""

    def views(self, texts):
        rows = sparse.csr_matrix(np.array([[1.0] if "cat" in text else [0.0] for text in texts]).reshape(-1, 1))
        return Views({"tfidf": lambda: rows, "fused": lambda: pytest.fail("computed")})

    def to(self, device):
        return self


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({"tfidf"}, [False, True, True]),
        ({"fused"}, [False, False, True]),
        ({"fused", "tfidf"}, [False, False, True]),
        ({"none", "tfidf"}, [False, True, True]),
        ({"none"}, [False, False, False]),
    ],
)
def test_views_of_an_encoder_are_not_computed(read, expected):
    features, texts = {"joined": Joined()}, Texts.of(["cat", "zzxqy", "?! _"])
    assert unknown_rows(Telling.of(features, read), features["joined"].views(texts), texts).tolist() == expected


def test_labels_of_an_unknown_text_have_the_probability_they_have_without_a_text():
    from treetop.sklearn import XMCClassifier

    data = toy.dataset(n=300)
    model = treetop.fit("xr_linear", data, held_out=toy.dataset(1, n=600))
    share = {id_: n / 300 for id_, n in zip(data.labels.ids, data.label_counts.tolist(), strict=True)}
    nothing, known = model.predict(["zzxqy", "cat horses"])
    assert [label.probability for label in nothing] == pytest.approx([share[label.id] for label in nothing])
    assert [label.probability for label in known] != pytest.approx([share[label.id] for label in known])
    assert [e.probability for e in model.explain("zzxqy", 5)] == [label.probability for label in nothing]
    estimator = XMCClassifier()
    estimator.model_ = model
    assert sorted(estimator.predict_proba(["zzxqy"]).data) == sorted(label.probability for label in nothing)


def test_evaluation_judges_what_predict_gives():
    from treetop.evaluate.match import match

    model = treetop.fit("xr_linear", toy.dataset(n=300), held_out=toy.dataset(1, n=600))
    test = dataclasses.replace(toy.dataset(2, n=2), texts=Texts.of(["zzxqy", "cat horses"]))
    found = match(model, test).probability[:, :5]
    assert found.ravel().tolist() == [p.probability for row in model.predict(list(test.texts)) for p in row]


def test_precomputed_features_are_unknown_where_a_row_is_empty():
    data = toy.dataset()
    X = sparse.csr_matrix(np.eye(len(data), 7, dtype=np.float32))
    given = dataclasses.replace(data, texts=Texts.of([""] * len(data)), features={"given": X})
    model = treetop.fit("xr_linear", given)
    assert model.unknown_in(given).tolist() == [row >= 7 for row in range(len(data))]
