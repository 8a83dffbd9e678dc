"""treetop itself, measured like any peer: in processes of its own, on the same ready matrices."""

# ruff: noqa: D103  (what each function is for stands in the docstring of the package)

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def versions() -> dict[str, str]:
    from importlib.metadata import version

    import treetop.model
    import treetop.training  # numba and scipy too: a peer's imports are not on the clock either

    return {"treetop": treetop.__version__, **{name: version(name) for name in ("numpy", "scipy", "numba")}}


def _dataset(X: Any, Y: Any) -> Any:
    """Rows without text: the view 'given' is all a linear recipe needs."""
    from treetop.core.dataset import Dataset, LabelSet

    labels = LabelSet.of([str(i) for i in range(Y.shape[1])])
    return Dataset(_no_texts(X.shape[0]), Y, labels, features={"given": X}, name="bench")


# --- the calls into treetop: everything that depends on its API is between these two lines --------------------------


def train(job: dict[str, Any], X: Any, Y: Any) -> Any:
    import treetop

    wanted = job["settings"]
    return treetop.fit(
        wanted["recipe"], _dataset(X, Y), settings=wanted["config"], seed=job["seed"], threads=job["threads"],
        calibrate=False,
    )  # fmt: skip


def save(model: Any, folder: str) -> None:
    model.save(folder)


def load(job: dict[str, Any], setting: Any) -> Any:
    import treetop

    return treetop.load(job["model"])


def _rank(model: Any, X: Any, k: int, threads: int) -> Any:
    """The ranking of ready rows; the texts are empty, because the view 'given' is there."""
    from treetop.kernels.runtime.threads import limited

    with limited(threads):
        return model._rank(_no_texts(X.shape[0]), {"given": X}, k)


# --------------------------------------------------------------------------------------------------------------------


@functools.cache
def _no_texts(n: int) -> Any:
    from treetop.core.texts import Texts

    return Texts.of([""] * n)


def predict(predictor: Any, rows: Any, job: dict[str, Any]) -> Any:
    return _rank(predictor, rows, job["settings"]["topk"], job["threads"])


def predict_one(predictor: Any, row: Any, job: dict[str, Any]) -> Any:
    return _rank(predictor, row, job["settings"]["topk"], 1)


def settings(job: dict[str, Any]) -> dict[str, Any]:
    return {"default": None}


def unpack(raw: Any, job: dict[str, Any]) -> tuple[Any, Any]:
    n, k = len(raw.indptr) - 1, job["settings"]["topk"]
    ids, scores = np.full((n, k), -1, np.int64), np.zeros((n, k), np.float32)
    for i in range(n):
        part = slice(raw.indptr[i], min(raw.indptr[i + 1], raw.indptr[i] + k))
        size = part.stop - part.start
        ids[i, :size], scores[i, :size] = raw.ids[part], raw.score[part]
    return ids, scores
