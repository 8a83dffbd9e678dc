import dataclasses

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
from treetop.augment import synonym
from treetop.core.dataset import SYNTHETIC, Dataset
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.core.work import Job


def test_candidates_share_a_synset():
    found = synonym.candidates(["a car by the river", "blorp"])
    assert "auto" in found["car"] and "automobile" in found["car"] and "car" not in found["car"]
    assert all(others for others in synonym.candidates(Dataset.read("wordnet").texts).values())  # "Cat, cat": none
    assert "blorp" not in found and all(" " not in other for others in found.values() for other in others)


def test_some_known_words_are_replaced():
    best = {"cat": "feline", "dog": "hound"}
    rng = np.random.default_rng(0)
    assert synonym.replaced("A Cat, a fox!", best, 0.2, rng) == "A feline, a fox!"
    assert synonym.replaced("cat dog", best, 1.0, rng) == "feline hound"
    assert synonym.replaced("cat dog", best, 0.0, rng) in ("feline dog", "cat hound")  # one at least
    assert synonym.replaced("a fox", best, 1.0, rng) is None


def test_copies_have_the_labels_of_their_text(monkeypatch):
    data = toy.dataset()
    texts = [*data.texts]
    texts[3] = "zzz"  # no known word: no copy
    data = dataclasses.replace(data, texts=Texts.of(texts))
    monkeypatch.setattr(synonym, "candidates", lambda texts: {word: [word + "x"] for word in toy.WORDS})
    made = synonym.rows(data, synonym.Config(copies=2, encoder="", word_fraction=1.0), Job())
    assert len(made) == 60 + 2 * 59 and (made.roles[60:] == SYNTHETIC).all()
    assert np.array_equal(made.label_counts, data.label_counts)
    owners = [row for row in range(60) if row != 3 for _ in range(2)]
    assert np.array_equal(made.Y[60:].toarray(), data.Y[owners].toarray())
    assert all("x" in text for text in [*made.texts][60:])
    some = dataclasses.replace(data, sample=np.arange(60) < 10)  # copies of what is not learned from would undo that
    assert len(synonym.rows(some, synonym.Config(encoder="", word_fraction=1.0), Job())) == 60 + 9
    given = dataclasses.replace(data, features={"given": sparse.csr_matrix((60, 3), dtype=np.float32)})
    with pytest.raises(InputError, match="synonym: toy has precomputed features"):
        synonym.rows(given, synonym.Config(), Job())


def test_copies_have_the_weights_and_the_barred_pairs_of_their_text(monkeypatch):
    data = toy.dataset()
    weights = data.Y.copy()
    weights.data = np.arange(1, weights.nnz + 1, dtype=np.float32)
    data = dataclasses.replace(data, relevance=weights, filter_pairs=np.array([[5, 7], [2, 1], [5, 3]]))
    monkeypatch.setattr(synonym, "candidates", lambda texts: {word: [word + "x"] for word in toy.WORDS})
    made = synonym.rows(data, synonym.Config(copies=2, encoder="", word_fraction=1.0), Job())
    owners = np.repeat(np.arange(60), 2)
    assert np.array_equal(made.relevance[60:].toarray(), weights[owners].toarray())
    copies = {(60 + 2 * row + i, column) for row, column in data.filter_pairs.tolist() for i in range(2)}
    assert set(map(tuple, made.filter_pairs.tolist())) == {*map(tuple, data.filter_pairs.tolist()), *copies}


def test_the_nearest_candidate_by_the_encoder(tmp_path):
    folder = toy_encoder.write_encoder(tmp_path / "encoder")
    found = synonym.nearest({"cat": ["stone", "cats"], "dog": ["dog", "salt"]}, str(folder), "cpu")
    assert found["dog"] == "dog" and found["cat"] in ("stone", "cats")
    assert synonym.nearest({}, str(folder), "cpu") == {}
