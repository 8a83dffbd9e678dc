"""LibMultiLabel: k-means label tree and one-vs-rest with LIBLINEAR; the model is a pickle, as its own code saves it."""

# ruff: noqa: D103  (the package's docstring says what each function is for)
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 1_000  # documents per call: it scores every label in float64, which takes much memory


def versions() -> dict[str, str]:
    from importlib.metadata import version

    import libmultilabel.linear  # noqa: F401  (imports before the clock starts)

    return {name: version(name) for name in ("libmultilabel", "liblinear-multicore", "numpy", "scipy")}


def _use_threads(n: int) -> None:
    """The package takes its thread count from the number of physical cores; this is the only way to set it."""
    import psutil

    psutil.cpu_count = lambda logical=True: n


def train(job: dict[str, Any], X: Any, Y: Any) -> Any:
    from libmultilabel import linear

    wanted = job["settings"]
    _use_threads(job["threads"])
    np.random.seed(job["seed"])  # noqa: NPY002  (its tree draws from the global generator)
    fit = {"tree": linear.train_tree, "1vsrest": linear.train_1vsrest}[wanted["kind"]]
    return fit(Y, X, options=wanted["options"], verbose=False)


def save(model: Any, folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with (Path(folder) / "linear_pipeline.pickle").open("wb") as out:
        pickle.dump(model, out, protocol=pickle.HIGHEST_PROTOCOL)


def settings(job: dict[str, Any]) -> dict[str, Any]:
    return {"default": None}


def load(job: dict[str, Any], setting: None) -> Any:
    with (Path(job["model"]) / "linear_pipeline.pickle").open("rb") as source:
        return pickle.load(source)


def predict_one(predictor: Any, row: Any, job: dict[str, Any]) -> Any:
    from libmultilabel import linear

    k = job["settings"]["topk"]
    values = linear.predict_values(predictor, row)
    k = min(k, values.shape[1])
    best = np.argpartition(-values, k - 1, axis=1)[:, :k]
    return best, np.take_along_axis(values, best, 1)


def predict(predictor: Any, rows: Any, job: dict[str, Any]) -> Any:
    return [predict_one(predictor, rows[i : i + BLOCK], job) for i in range(0, rows.shape[0], BLOCK)]


def unpack(raw: Any, job: dict[str, Any]) -> tuple[Any, Any]:
    ids, scores = np.concatenate([part[0] for part in raw]), np.concatenate([part[1] for part in raw])
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)
