import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from treetop.core.errors import ConfigError, InputError
from treetop.kernels.runtime import threads
from treetop.sklearn import XMCClassifier, scorer

SPARSE = "predict marks the best k labels in a sparse indicator, so it has no single class per row"
EXCLUDED = {
    "check_classifiers_train": SPARSE,
    "check_classifiers_classes": SPARSE,
    "check_classifiers_one_label": SPARSE,
    "check_classifiers_one_label_sample_weights": SPARSE,
    "check_classifiers_regression_target": "a number may be a label name, so none is refused",
    "check_supervised_y_2d": SPARSE,
    "check_classifiers_multilabel_output_format_decision_function": "scores are sparse, never rows x labels",
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifiers_multilabel_representation_invariance": SPARSE,
    "check_methods_sample_order_invariance": SPARSE,
    "check_methods_subset_invariance": SPARSE,
    "check_fit_idempotent": SPARSE,
    "check_estimator_sparse_array": SPARSE,
    "check_estimator_sparse_matrix": SPARSE,
    "check_classifier_data_not_an_array": SPARSE,
    "check_decision_proba_consistency": "without calibration there are no probabilities",
}


@parametrize_with_checks([XMCClassifier("neighbours")], expected_failed_checks=lambda estimator: EXCLUDED)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def lists(data):
    return [[data.labels.ids[c] for c in data.Y[row].indices] for row in range(len(data))]


def test_same_answers_as_the_model():
    data = toy.dataset()
    estimator = XMCClassifier("neighbours", k=4).fit(list(data.texts), lists(data))
    model = treetop.fit("neighbours", list(data.texts), lists(data))
    texts = list(toy.dataset(1).texts)
    names, scores = estimator.predict_topk(texts, 4)
    for row, labels in enumerate(model.predict(texts, 4)):
        assert names[row] == [label.name for label in labels] and scores[row] == [label.score for label in labels]
    marked = estimator.predict(texts)
    assert sparse.issparse(marked) and marked.shape == (60, len(estimator.classes_)) and marked.sum(1).max() == 4
    assert np.array_equal(estimator.decision_function(texts).indices, marked.indices)
    assert not hasattr(estimator, "predict_proba")
    assert 0 < estimator.score(texts, lists(toy.dataset(1))) <= 1


def test_indicator_targets_and_matrices():
    data = toy.dataset()
    Y = MultiLabelBinarizer().fit_transform(lists(data))
    estimator = XMCClassifier("popular").fit(list(data.texts), Y)
    assert estimator.predict(["x"]).shape == (1, Y.shape[1])
    X = sparse.random(60, 30, 0.2, format="csr", random_state=0)
    estimator = XMCClassifier("neighbours").fit(X, sparse.csr_matrix(Y))
    assert estimator.predict(X.toarray()).shape == Y.shape and estimator.n_features_in_ == 30


def test_pipeline_and_clone():
    data = toy.dataset()
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.upper() for text in texts]), XMCClassifier())
    pipeline = clone(pipeline).set_params(xmcclassifier__recipe="popular")
    assert pipeline.fit(list(data.texts), lists(data)).predict(["x"]).sum() == 5


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        ("one text", [["a"]], "expected a list of strings, got one string"),
        (["a", "b"], [["a"]], "labels for 1 rows, but X has 2"),
    ],
)
def test_mistakes_are_told_in_a_sentence(X, y, sentence):
    with pytest.raises(InputError, match=sentence):
        XMCClassifier("popular").fit(X, y)


def test_cross_validation_takes_lists_of_labels_and_scorers_by_name():
    data = toy.dataset()
    texts, labels = list(data.texts), lists(data)
    plain = cross_val_score(XMCClassifier("neighbours"), texts, labels, cv=3)
    assert len(plain) == 3 and (plain > 0).all()
    for metric in ("P@1", "nDCG@3"):
        found = cross_val_score(XMCClassifier("neighbours"), texts, labels, cv=3, scoring=scorer(metric))
        first = XMCClassifier("neighbours").fit(texts[20:], labels[20:]).model_
        assert found[0] == first.evaluate(data.take(np.arange(20)), resamples=0)[metric]
    assert plain[0] * 100 == pytest.approx(cross_val_score(
        XMCClassifier("neighbours"), texts, labels, cv=3, scoring=scorer("P@1")
    )[0])  # fmt: skip
    for wrong, sentence in (("P", "no number of labels"), ("Q@5", "scorer"), ("P@0", "no number")):
        with pytest.raises(ConfigError, match=sentence):
            scorer(wrong)


def test_scorers_look_into_pipelines_and_searches():
    data = toy.dataset()
    texts, labels = list(data.texts), lists(data)
    words = make_pipeline(TfidfVectorizer(), XMCClassifier("neighbours"))
    found = cross_val_score(words, texts, labels, cv=2, scoring=scorer("P@1"))
    assert (found > 0).all()
    search = GridSearchCV(words, {"xmcclassifier__settings__k": [1, 30]}, cv=2, scoring=scorer("P@5")).fit(
        texts, labels
    )
    assert search.best_params_ and scorer("P@5")(search, texts, labels) >= search.best_score_
    with pytest.raises(
        ConfigError, match="expected an XMCClassifier, a pipeline or a search of one, got TfidfVectorizer"
    ):
        scorer("P@1")(TfidfVectorizer(), texts, labels)


def test_columns_of_an_indicator_table_are_names_of_labels():
    pandas = pytest.importorskip("pandas")
    data = toy.dataset()
    marks = pandas.DataFrame(data.Y.toarray(), columns=list(data.labels.ids), index=np.arange(len(data)) + 7)
    estimator = XMCClassifier("neighbours").fit(pandas.Series(list(data.texts)), marks)
    assert list(estimator.classes_) == list(data.labels.ids)
    assert estimator.score(list(data.texts), marks) > 0.9


def test_a_grid_goes_over_settings_of_the_recipe():
    data = toy.dataset()
    search = GridSearchCV(XMCClassifier("neighbours"), {"settings__k": [1, 30], "tfidf__ngrams": [[1, 1]]}, cv=2)
    search.fit(list(data.texts), data.Y)
    assert set(search.best_params_) == {"settings__k", "tfidf__ngrams"}
    assert search.best_estimator_.model_.card.config["k"] == search.best_params_["settings__k"]
    nested = XMCClassifier("xr_linear", settings={"linear": {"cost": 2.0}}).set_params(linear__beam=3, k=2)
    assert nested.settings == {"linear": {"cost": 2.0, "beam": 3}} and nested.k == 2
    assert nested.get_params()["linear__beam"] == 3 and "linear__beam" not in nested.get_params(deep=False)
    with pytest.raises(ConfigError, match=r"linear\.boom: unknown setting"):
        XMCClassifier("xr_linear").set_params(linear__boom=3).fit(list(data.texts), lists(data))
    with pytest.raises(ValueError, match="Invalid parameter 'boom'"):
        XMCClassifier().set_params(boom=3)


def test_a_table_is_told_to_give_its_column():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"title": ["a cat", "a dog"], "price": [1, 2]})
    estimator = XMCClassifier("popular").fit(table["title"], [["x"], ["y"]])
    for ask in (estimator.predict, estimator.model_.predict, lambda rows: treetop.fit("popular", rows, [["x"], ["y"]])):
        with pytest.raises(InputError, match=r"got a table with the columns 'title', 'price'.*table\['title'\]"):
            ask(table)


def test_a_model_shows_what_it_is():
    model = treetop.fit("popular", ["a", "b"], [["x"], ["y", "z"]])
    assert repr(model) == "Model(recipe: popular, labels: 3, training texts: 2, probabilities: no)"
    assert model._repr_html_().startswith("<table><tr><th>recipe</th><td>popular</td></tr>")


def test_known_words():
    model = treetop.fit("neighbours", ["a small cat", "a dog"], [["x"], ["y"]])
    assert model.known_words(["small dog", "small bird", "", "bird"]).tolist()[:2] == [1.0, 0.5]
    assert np.isnan(treetop.fit("popular", ["a"], [["x"]]).known_words(["a"])).all()


def test_jobs_are_counted_as_scikit_learn_counts(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 8)
    found = {n: XMCClassifier("popular", n_jobs=n)._threads for n in (None, 1, 3, -1, -2, -9)}
    assert found == {None: None, 1: 1, 3: 3, -1: 8, -2: 7, -9: 1}
    with pytest.raises(ConfigError, match="threads: 0 is out of range"):
        XMCClassifier("popular", n_jobs=0).fit(["a", "b"], [["a"], ["b"]])


def test_probabilities_where_the_model_is_calibrated():
    data = toy.dataset(n=6000)
    estimator = XMCClassifier("popular", k=3)
    assert not hasattr(estimator, "predict_proba")
    few = estimator.fit(list(data.texts)[:50], lists(data)[:50])
    assert not hasattr(few, "predict_proba")
    many = clone(estimator).fit(list(data.texts), lists(data))
    found = many.predict_proba(["cat dogs", "x"])
    assert sparse.issparse(found) and found.shape == (2, len(many.classes_)) and found.nnz == 6
    for row, labels in enumerate(many.model_.predict(["cat dogs", "x"], 3)):
        for label in labels:
            assert found[row, list(many.classes_).index(label.id)] == pytest.approx(label.probability)
    without = XMCClassifier("popular", calibrate=False).fit(list(data.texts), lists(data))
    assert not hasattr(without, "predict_proba")


def test_import_treetop_is_enough_and_needs_no_scikit_learn():
    code = (
        "import sys, treetop; print({'sklearn', 'treetop.sklearn'} & {*sys.modules}); "
        "print(treetop.sklearn.XMCClassifier('popular'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nXMCClassifier(recipe='popular')\n"
    code = "import sys; sys.modules['sklearn'] = None; from treetop import *; treetop = sys.modules['treetop']; "
    done = subprocess.run([sys.executable, "-c", code + "print(fit); treetop.sklearn"], capture_output=True, text=True)
    assert "function fit" in done.stdout and "pip install" in done.stderr
