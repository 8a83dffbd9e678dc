"""libpecos: XR-Linear, from PIFA and hierarchical k-means to a predict-only C++ model."""

# ruff: noqa: D103  (what each function is for stands in the docstring of the package)
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from typing import Any

import numpy as np

# The layouts of the weight matrix that the C++ predictor offers for sparse queries.
LAYOUTS = ("BINARY_SEARCH_CHUNKED", "HASH_CHUNKED", "CSC")


def versions() -> dict[str, str]:
    from importlib.metadata import version

    import pecos.xmc.xlinear.model  # noqa: F401  (imports before the clock starts)

    return {name: version(name) for name in ("libpecos", "numpy", "scipy")}


def train(job: dict[str, Any], X: Any, Y: Any) -> Any:
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    wanted, threads = job["settings"], job["threads"]
    label_features = LabelEmbeddingFactory.create(Y, X, method="pifa")
    chain = Indexer.gen(
        label_features,
        indexer_type="hierarchicalkmeans",
        nr_splits=wanted["nr_splits"],
        max_leaf_size=wanted["max_leaf"],
        seed=job["seed"],
        threads=threads,
    )
    return XLinearModel.train(
        X,
        Y.tocsc(),
        C=chain,
        Cp=wanted["Cp"],
        Cn=wanted["Cn"],
        threshold=wanted["threshold"],
        negative_sampling_scheme=wanted["negatives"],
        beam_size=wanted["beam"],
        only_topk=wanted["topk"],
        threads=threads,
    )


def save(model: Any, folder: str) -> None:
    model.save(folder)


def settings(job: dict[str, Any]) -> dict[str, Any]:
    return {layout.lower(): layout for layout in LAYOUTS}


def load(job: dict[str, Any], setting: str) -> Any:
    from pecos.xmc.xlinear.model import XLinearModel

    return XLinearModel.load(job["model"], is_predict_only=True, weight_matrix_type=setting)


def predict(predictor: Any, rows: Any, job: dict[str, Any]) -> Any:
    wanted = job["settings"]
    return predictor.predict(rows, beam_size=wanted["beam"], only_topk=wanted["topk"], threads=job["threads"])


def predict_one(predictor: Any, row: Any, job: dict[str, Any]) -> Any:
    wanted = job["settings"]
    return predictor.predict(row, beam_size=wanted["beam"], only_topk=wanted["topk"], threads=1)


def unpack(raw: Any, job: dict[str, Any]) -> tuple[Any, Any]:
    k = job["settings"]["topk"]
    ids, scores = np.full((raw.shape[0], k), -1, np.int64), np.zeros((raw.shape[0], k), np.float32)
    for i in range(raw.shape[0]):
        part = slice(raw.indptr[i], raw.indptr[i + 1])
        order = np.argsort(-raw.data[part], kind="stable")[:k]
        ids[i, : len(order)], scores[i, : len(order)] = raw.indices[part][order], raw.data[part][order]
    return ids, scores
