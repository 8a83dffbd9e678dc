import numpy as np
import pytest
from scipy import sparse

import toy
from treetop.core.dataset import LabelSet
from treetop.core.errors import InputError
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.labels.combine import concatenated, mixed
from treetop.labels.pifa import pifa, unit_rows
from treetop.labels.text import label_text


def slow_pifa(X, Y, normalise):
    made = np.zeros((Y.shape[1], X.shape[1]))
    for row in range(len(X)):
        length = np.sqrt((Y[row] ** 2).sum()) if normalise else 1.0
        for label in np.flatnonzero(Y[row]):
            made[label] += Y[row, label] / length * X[row]
    length = np.linalg.norm(made, axis=1, keepdims=True)
    return made / np.where(length > 0, length, 1)


@pytest.mark.parametrize("normalise", [True, False])
def test_pifa_equals_the_definition(normalise):
    data = toy.dataset()
    X = Tfidf.fit_transform(data.texts, TfidfConfig())[1]
    Z = pifa(X, data.Y, normalise_targets=normalise)
    wanted = slow_pifa(X.toarray(), data.Y.toarray(), normalise)
    assert np.allclose(Z.toarray(), wanted, atol=1e-6)
    assert Z[toy.N_LABELS - 1].nnz == 0  # no texts: empty, not NaN
    assert np.allclose(pifa(X.toarray(), data.Y, normalise_targets=normalise), wanted, atol=1e-6)


def test_unit_rows_have_length_one_or_are_empty():
    Y = sparse.csr_matrix(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], np.float32))
    assert np.allclose(unit_rows(Y).toarray(), [[0.5**0.5, 0.5**0.5, 0], [0, 1, 0], [0, 0, 0]])


def test_label_text_and_combinations():
    data = toy.dataset()
    features = Tfidf.fit(data.texts, TfidfConfig())
    text = label_text(data.labels, features, "tfidf")
    assert text.shape[0] == toy.N_LABELS and text.nnz > 0
    assert concatenated(text, text).shape == (toy.N_LABELS, 2 * text.shape[1])
    assert np.allclose(mixed(text, text * 0).toarray(), 0.5 * text.toarray())
    with pytest.raises(InputError, match="cannot mix descriptions"):
        mixed(text, text[:, :3])
    with pytest.raises(InputError, match="no label has a text or a name"):
        label_text(LabelSet.of(["a"]), features, "tfidf")
