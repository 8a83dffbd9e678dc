import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from treetop.assemble.label_rows import are_informative, with_label_rows
from treetop.core.dataset import LabelSet
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig


def parts(**changes):
    data = dataclasses.replace(toy.dataset(n=80), **changes)
    return data, *Tfidf.fit_transform(data.texts, TfidfConfig())


@pytest.mark.parametrize("weighed", [False, True])
def test_each_label_text_is_a_row_with_its_label(weighed):
    plain = toy.dataset(n=80).Y
    data, tfidf, X = parts(relevance=plain * 2 if weighed else None, filter_pairs=np.array([[3, 5]]))
    names = [*data.labels.texts]
    names[4] = ""
    data = dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids], [""] * 40, names))
    more, both = with_label_rows(data, X, tfidf, "always", seed=0)
    labels = [i for i in range(40) if i != 4]
    assert len(more) == 80 + 39 == both.shape[0]
    assert [more.texts[80 + i] for i in range(39)] == [names[label] for label in labels]
    assert np.array_equal(more.Y[:80].toarray(), data.Y.toarray())
    assert np.array_equal(more.Y[80:].toarray(), np.eye(40)[labels])
    assert more.documents.sum() == 80 and np.array_equal(more.label_counts, data.label_counts)
    assert np.array_equal(
        both.toarray(), np.vstack([X.toarray(), tfidf.transform(more.texts.take(range(80, 119))).toarray()])
    )
    if weighed:
        assert np.array_equal(more.relevance[80:].data, np.ones(39))
    assert np.array_equal(more.filter_pairs, data.filter_pairs)


def test_names_tell_and_codes_do_not():
    data, tfidf, X = parts()
    assert are_informative(X, tfidf.transform(data.labels.names), data, 0)
    codes = [f"code {i}" for i in range(40)]
    assert not are_informative(X, tfidf.transform(codes), data, 0)
    everywhere = [" ".join(toy.WORDS)] * 40  # words of all documents: no label's own
    assert not are_informative(X, tfidf.transform(everywhere), data, 0)
    silent = dataclasses.replace(data, labels=LabelSet.of(codes))
    assert with_label_rows(silent, X, tfidf, "auto", seed=0) == (silent, X)
    assert len(with_label_rows(data, X, tfidf, "auto", seed=0)[0]) == 120
    assert with_label_rows(data, X, tfidf, "never", seed=0) == (data, X)


def test_a_label_barred_for_its_own_text_gets_no_row(caplog):
    caplog.set_level("INFO", "treetop")
    data = toy.barred()
    tfidf, X = Tfidf.fit_transform(data.texts, TfidfConfig())
    more, both = with_label_rows(data, X, tfidf, "always", seed=0)
    n, labels = len(data), [label for label in range(40) if label != 4]
    assert np.array_equal(more.Y[n:].toarray(), np.eye(40)[labels]) and both.shape[0] == n + 39
    assert "label_rows: no row for labels that the filter excludes for their own text: 1" in caplog.text
    # the text of label 11 may not learn the label that is barred for an equal document as a negative
    assert more.filter_pairs.tolist() == [*data.filter_pairs.tolist(), [n + 10, data.filter_pairs[0, 1]]]
    own = dataclasses.replace(data.take(np.arange(40)), texts=data.labels.texts)
    everything = dataclasses.replace(own, filter_pairs=np.stack([np.arange(40)] * 2, 1))
    assert len(with_label_rows(everything, X[:40], tfidf, "always", seed=0)[0]) == 40
