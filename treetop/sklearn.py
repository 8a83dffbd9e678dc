"""A scikit-learn estimator over any recipe: texts (or a feature matrix) in, sparse top-k indicators out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.errors import ConfigError, InputError, choose, extra
from treetop.core.texts import Texts, refuse_table
from treetop.core.types import Ranking
from treetop.data.frame import from_lists
from treetop.evaluate.metrics import METRICS
from treetop.kernels.runtime import threads
from treetop.model import Model
from treetop.training import fit

extra("sklearn", "sklearn")
from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.utils.metaestimators import available_if  # noqa: E402
from sklearn.utils.validation import check_array, check_is_fitted, validate_data  # noqa: E402


def _calibrated(estimator: XMCClassifier) -> bool:
    """Whether the fitted model is calibrated."""
    check_is_fitted(estimator)
    return estimator.model_.calibration is not None


class XMCClassifier(BaseEstimator):  # type: ignore[misc]
    """A treetop recipe with scikit-learn's interface.

    `X` is a list (or Series) of strings, or a sparse or dense matrix of features; `y` is a list of lists of label
    names, an indicator matrix, or one label per row. `predict` returns a sparse indicator matrix of the best `k` labels
    of each row; no dense matrix of rows x labels is ever created. With `calibrate`, some documents are held out if
    there are enough (`docs/probabilities.md`), and `predict_proba` is available.

    Settings of the recipe are parameters, too, with two underscores for a dot: `set_params(linear__beam=20)` or
    `GridSearchCV(XMCClassifier(), {"linear__beam": [10, 20]}, scoring=scorer("P@5"))`; those without a dot follow
    `settings__`. To scikit-learn it is no classifier, as that would refuse lists of labels in cross-validation.
    """

    def __init__(
        self,
        recipe: str = "xr_linear",
        *,
        k: int = 5,
        preset: str = "default",
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        calibrate: bool = True,
    ) -> None:
        self.recipe = recipe
        self.k = k
        self.preset = preset
        self.settings = settings
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.calibrate = calibrate

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters and, where `deep`, the settings that were given."""
        named = super().get_params(deep=False)
        nested = self.settings if deep and isinstance(self.settings, Mapping) else {}
        return named | dict(_flat(nested))

    def set_params(self, **params: Any) -> XMCClassifier:
        """Change parameters, and settings of the recipe such as `linear__beam`."""
        nested = {key: value for key, value in params.items() if "__" in key}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for key, value in nested.items():
            self.settings = _changed(self.settings or {}, key.removeprefix("settings__").split("__"), value)
        return self

    @property
    def _threads(self) -> int | None:
        """Threads as scikit-learn counts them: -1 is all cores, -2 all but one."""
        if self.n_jobs is None or not isinstance(self.n_jobs, int) or self.n_jobs >= 0:
            return self.n_jobs
        return max(1, threads.count() + 1 + self.n_jobs)

    def fit(self, X: Any, y: Any) -> XMCClassifier:
        """Train on texts or features `X` and labels `y`."""
        if y is None:
            raise ValueError("XMCClassifier requires y to be passed, but the target y is None.")
        texts, features = self._inputs(X, reset=True)
        labels, Y = _targets(y)
        n = len(texts)
        if Y.shape[0] != n:
            raise InputError(f"y: labels for {Y.shape[0]} rows, but X has {n}. Give one entry per text.")
        given = {} if features is None else {"given": features}
        dataset = Dataset(texts, Y, labels, features=given)
        model = fit(
            self.recipe,
            dataset,
            preset=self.preset,
            settings=self.settings or {},
            seed=_seed(self.random_state),
            threads=self._threads,
            calibrate=self.calibrate,
        )
        self.model_: Model = model
        return self

    @property
    def classes_(self) -> Any:
        """(labels,) ids; labels that were added after training come last."""
        return np.array(list(self.model_.labels.ids), dtype=object)

    def predict_topk(self, X: Any, k: int | None = None) -> tuple[list[list[str]], list[list[float]]]:
        """(label names, scores) of the best `k` labels of each row, best first."""
        ranking = self._rank(X, k or self.k)
        names, ends = self.model_.labels.names, ranking.indptr.tolist()
        words = [names[column] for column in ranking.ids.tolist()]
        scores, spans = ranking.score.tolist(), list(pairwise(ends))
        return [words[a:b] for a, b in spans], [scores[a:b] for a, b in spans]

    def predict(self, X: Any) -> Csr:
        """(rows, labels) sparse indicator of the best `k` labels."""
        matrix = self._rank(X, self.k).to_csr(len(self.model_.labels))
        matrix.data = np.ones(len(matrix.data), np.int64)
        matrix.sort_indices()
        return matrix

    def decision_function(self, X: Any) -> Csr:
        """(rows, labels) sparse scores of the best `k` labels; higher is better, comparable within one model."""
        matrix = self._rank(X, self.k).to_csr(len(self.model_.labels))
        matrix.sort_indices()
        return matrix

    @available_if(_calibrated)
    def predict_proba(self, X: Any) -> Csr:
        """(rows, labels) sparse probabilities of the best `k` labels; only where the fitted model is calibrated.

        For a row without any known word, they are the label frequencies in training.
        """
        check_is_fitted(self)
        rows = self._dataset(X)
        with threads.limited(self._threads):
            ranking, unknown = self.model_.rank_dataset(rows, self.k), self.model_.unknown_in(rows)
        matrix = ranking.to_csr(len(self.model_.labels))
        matrix.data = np.asarray(self.model_.probabilities(ranking, unknown))
        matrix.sort_indices()
        return matrix

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean precision at 1."""
        check_is_fitted(self)
        best = self._rank(X, 1).padded(1)[:, 0]
        labels, Y = _targets(y)
        dataset = Dataset(Texts.of([""] * Y.shape[0]), Y, labels).align(self.model_.labels)
        keys = np.repeat(np.arange(len(dataset), dtype=np.int64), np.diff(dataset.Y.indptr)) * dataset.n_labels
        hits = np.isin(np.arange(len(best)) * dataset.n_labels + best, keys + dataset.Y.indices)
        return float(np.average(hits & (best >= 0), weights=sample_weight))

    def _rank(self, X: Any, k: int) -> Ranking:
        check_is_fitted(self)
        rows = self._dataset(X)
        with threads.limited(self._threads):
            return self.model_.rank_dataset(rows, k)

    def _dataset(self, X: Any) -> Dataset:
        """Rows without labels."""
        texts, features = self._inputs(X, reset=False)
        no_targets = sparse.csr_matrix((len(texts), len(self.model_.labels)), dtype=np.float32)
        return Dataset(texts, no_targets, self.model_.labels, features={} if features is None else {"given": features})

    def _inputs(self, X: Any, *, reset: bool) -> tuple[Texts, Csr | None]:
        """Texts, or empty ones with a checked feature matrix."""
        if isinstance(X, str):
            raise InputError("X: expected a list of strings, got one string. Wrap it: [text].")
        if isinstance(X, Texts) or (not sparse.issparse(X) and _holds_strings(X)):
            return Texts.of(X), None
        matrix = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float32)
        features = sparse.csr_matrix(matrix)
        features.sum_duplicates()
        return Texts.of([""] * features.shape[0]), features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def scorer(metric: str) -> Callable[[XMCClassifier, Any, Any], float]:
    """A scorer for cross-validation by the name of a metric, such as "P@5" or "nDCG@3", in percent.

    >>> scorer("P@5")
    scorer('P@5')
    """
    return _Scorer(metric)


class _Scorer:
    def __init__(self, metric: str) -> None:
        name, _, k = metric.partition("@")
        choose("scorer", name, METRICS)
        if not k.isdigit() or int(k) < 1:
            raise ConfigError(f"scorer: '{metric}' has no number of labels. Write it behind @, such as {name}@5.")
        self.metric, self.k = metric, int(k)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        estimator, X = _innermost(estimator, X)
        labels, Y = _targets(y)
        texts, features = estimator._inputs(X, reset=False)
        rows = Dataset(texts, Y, labels, features={} if features is None else {"given": features})
        return float(estimator.model_.evaluate(rows, ks=(self.k,), resamples=0)[self.metric])

    def __repr__(self) -> str:
        return f"scorer({self.metric!r})"


def _innermost(estimator: Any, X: Any) -> tuple[XMCClassifier, Any]:
    """The XMCClassifier in a fitted search or at the end of a pipeline, and the input as it gets it."""
    if (best := getattr(estimator, "best_estimator_", None)) is not None:
        return _innermost(best, X)
    if isinstance(estimator, Pipeline):
        return _innermost(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X)
    if not isinstance(estimator, XMCClassifier):
        kind = type(estimator).__name__
        raise ConfigError(f"scorer: expected an XMCClassifier, a pipeline or a search of one, got {kind}.")
    return estimator, X


def _flat(settings: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Nested settings as parameters: {"linear": {"beam": 20}} is linear__beam."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*path, key))
        else:
            yield "__".join((*path, key) if path else ("settings", key)), value


def _changed(settings: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """The same settings with one of them changed."""
    first, *rest = path
    within = settings.get(first)
    return {**settings, first: _changed(within if isinstance(within, Mapping) else {}, rest, value) if rest else value}


def _holds_strings(X: Any) -> bool:
    refuse_table(X)
    if isinstance(X, Iterable):
        for item in X:
            return isinstance(item, str)
    return False


def _seed(random_state: Any) -> int:
    return random_state if isinstance(random_state, int) else 0


def _targets(y: Any) -> tuple[LabelSet, Csr]:
    """Labels and Y from lists of names, an indicator matrix (a table's columns are names) or one label per row."""
    names = getattr(y, "columns", None)
    y = y if names is None else np.asarray(y)
    if not sparse.issparse(y):
        first = next(iter(y), None) if isinstance(y, Iterable) else None
        if isinstance(first, list | tuple | set | frozenset):
            dataset = from_lists([""] * len(y), y)
            return dataset.labels, dataset.Y
        array = check_array(y, ensure_2d=False, dtype=None)
        if array.ndim == 1:
            names, columns = np.unique(array, return_inverse=True)
            rows = np.arange(len(array))
            Y = sparse.csr_matrix((np.ones(len(array), np.float32), (rows, columns)), (len(array), len(names)))
            return LabelSet.of([str(name) for name in names]), Y
        y = array
    Y = sparse.csr_matrix(y, dtype=np.float32)
    Y.eliminate_zeros()
    return LabelSet.of([str(column) for column in (range(Y.shape[1]) if names is None else names)]), Y
