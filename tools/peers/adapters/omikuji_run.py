"""omikuji: trains from a text file only and predicts one document per call.

Reading the text file is kept off the training clock and recorded apart, so that all systems start from matrices in
memory. Prediction is tried through the Python API and by handing ready arrays to the compiled library.
"""

# ruff: noqa: D103  (what each function is for stands in the docstring of the package)
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def versions() -> dict[str, str]:
    import omikuji

    return {"omikuji": omikuji.__version__, "numpy": np.__version__}


def _file(job: dict[str, Any]) -> Path:
    return Path(job["data"]) / "omikuji.txt"


def prepare(job: dict[str, Any], load_matrix: Any) -> None:
    """The training side in the format of the Extreme Classification Repository.

    Its parser refuses a row without features, so the few texts that have none are left out.
    """
    if _file(job).exists():
        return
    X, Y = load_matrix(job, "X_train"), load_matrix(job, "Y_train")
    part, kept = _file(job).with_suffix(".part"), np.flatnonzero(np.diff(X.indptr))
    with part.open("w") as out:
        out.write(f"{len(kept)} {X.shape[1]} {Y.shape[1]}\n")
        for i in kept:
            labels = ",".join(map(str, Y.indices[Y.indptr[i] : Y.indptr[i + 1]]))
            row = slice(X.indptr[i], X.indptr[i + 1])
            words = " ".join(f"{f}:{v:.9g}" for f, v in zip(X.indices[row], X.data[row], strict=True))
            out.write(f"{labels} {words}\n")
    part.rename(_file(job))


def load_data(job: dict[str, Any]) -> tuple[Any, ...]:
    from omikuji import _ThreadPoolHandle, ffi, lib

    pool = _ThreadPoolHandle(job["threads"])
    data = lib.load_omikuji_data_set(ffi.new("char[]", str(_file(job)).encode()), pool.ptr)
    if data == ffi.NULL:
        raise RuntimeError("omikuji could not read its data file")
    return ffi.gc(data, lib.free_omikuji_data_set), pool


def train(job: dict[str, Any], data: Any, pool: Any) -> Any:
    from omikuji import Model, ffi, lib

    wanted = Model.default_hyper_param()
    for name, value in job["settings"]["hyper"].items():
        setattr(wanted, name, value)
    model = lib.train_omikuji_model(data, wanted, pool.ptr)
    if model == ffi.NULL:
        raise RuntimeError("omikuji training failed")
    return Model(model)


def save(model: Any, folder: str) -> None:
    model.save(folder)


def settings(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "library, densified": {"density": 0.1, "api": False},
        "library": {"density": None, "api": False},
        "python api, densified": {"density": 0.1, "api": True},
    }


def load(job: dict[str, Any], setting: dict[str, Any]) -> Any:
    import omikuji

    model = omikuji.Model.load(job["model"])
    model.init_prediction_thread_pool(1)  # one document per call leaves nothing to share between threads
    if setting["density"] is not None:
        model.densify_weights(setting["density"])
    return model, setting["api"]


def pack(X: Any) -> list[Any]:
    rows = []
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        ids, values = X.indices[part].astype(np.uint32), X.data[part].astype(np.float32)
        rows.append((ids, values, list(zip(ids.tolist(), values.tolist(), strict=True))))
    return rows


def predict_one(predictor: Any, row: Any, job: dict[str, Any]) -> Any:
    from omikuji import ffi, lib

    (model, api), (ids, values, pairs) = predictor, row
    k, beam = job["settings"]["topk"], job["settings"]["beam"]
    if api:
        return model.predict(pairs, beam_size=beam, top_k=k)
    labels, scores = np.empty(k, np.uint32), np.empty(k, np.float32)
    n = lib.omikuji_predict(
        model._model_ptr,
        beam,
        len(ids),
        ffi.from_buffer("uint32_t[]", ids),
        ffi.from_buffer("float[]", values),
        k,
        ffi.from_buffer("uint32_t[]", labels),
        ffi.from_buffer("float[]", scores),
        model._thread_pool.ptr,
    )
    return labels[:n], scores[:n]


def predict(predictor: Any, rows: Any, job: dict[str, Any]) -> Any:
    return [predict_one(predictor, row, job) for row in rows]


def unpack(raw: Any, job: dict[str, Any]) -> tuple[Any, Any]:
    k = job["settings"]["topk"]
    ids, scores = np.full((len(raw), k), -1, np.int64), np.zeros((len(raw), k), np.float32)
    for i, (labels, values) in enumerate(raw):
        ids[i, : len(labels)], scores[i, : len(labels)] = labels, values
    return ids, scores
