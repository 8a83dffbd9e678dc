"""napkinXC: probabilistic label tree; the model is written during training."""

# ruff: noqa: D103  (the package's docstring says what each function is for)
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from typing import Any

import numpy as np


def versions() -> dict[str, str]:
    from importlib.metadata import version

    import napkinxc.models  # noqa: F401  (imports before the clock starts)

    return {name: version(name) for name in ("napkinxc", "numpy", "scipy")}


def _model(job: dict[str, Any], **more: Any) -> Any:
    from napkinxc.models import BR, PLT

    kind = {"plt": PLT, "br": BR}[job["settings"]["kind"]]
    return kind(job["model"], threads=job["threads"], seed=job["seed"], **job["settings"]["hyper"], **more)


def train(job: dict[str, Any], X: Any, Y: Any) -> Any:
    model = _model(job)
    labels = [row.tolist() for row in np.split(Y.indices, Y.indptr[1:-1])]
    model.fit(X, labels)
    return model


def save(model: Any, folder: str) -> None:
    """Nothing to do: training has written the model."""


def settings(job: dict[str, Any]) -> dict[str, Any]:
    return {"map": "map", "sparse": "sparse"}


def load(job: dict[str, Any], setting: Any) -> Any:
    model = _model(job, load_as=setting)
    model.load()
    return model


def predict(predictor: Any, rows: Any, job: dict[str, Any]) -> Any:
    return predictor.predict_proba(rows, top_k=job["settings"]["topk"])


predict_one = predict


def unpack(raw: Any, job: dict[str, Any]) -> tuple[Any, Any]:
    k = job["settings"]["topk"]
    ids, scores = np.full((len(raw), k), -1, np.int64), np.zeros((len(raw), k), np.float32)
    for i, row in enumerate(raw):
        for j, (label, score) in enumerate(row[:k]):
            ids[i, j], scores[i, j] = label, score
    return ids, scores
