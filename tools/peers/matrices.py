"""The same matrices for every system: tf-idf of a data set, or the synthetic set, kept under `build/bench/<name>/`.

Word 1- and 2-grams, sublinear counts, terms of at least two training texts, L2-normalised rows (Bibtex, a bag of words
without order: 1-grams), as scikit-learn computes them, so that nobody is measured on features of a competitor.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tools.peers import synthetic
from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import InputError
from treetop.core.log import logger

PARTS = ("X_train", "Y_train", "X_test", "Y_test")
ONE_GRAMS = {"bibtex-bow"}


@dataclass(frozen=True, eq=False)
class Matrices:
    """Where the matrices of a data set lie, and what identifies them."""

    name: str
    folder: Path
    facts: dict[str, Any]

    def load(self, part: str) -> Csr:
        """One of X_train, Y_train, X_test, Y_test."""
        return sparse.csr_matrix(sparse.load_npz(self.folder / f"{part}.npz"))

    @property
    def filter_pairs(self) -> NDArray[np.int64] | None:
        """(row of test, label) pairs that must not be predicted, or None."""
        file = self.folder / "filter.npy"
        return np.load(file) if file.exists() else None


def prepare(name: str, *, data: Path, build: Path, seed: int = 0) -> Matrices:
    """The matrices of data set `name`, made on first use; `data` is the folder the text data sets lie in."""
    folder = build / name
    facts_file = folder / "facts.json"
    if facts_file.exists():
        return Matrices(name, folder, json.loads(facts_file.read_text()))
    logger.info("%s: making its matrices", name)
    folder.mkdir(parents=True, exist_ok=True)
    if name in synthetic.SHAPES:
        shape = synthetic.SHAPES[name]
        parts, pairs, maker = (
            synthetic.make(shape, seed=seed),
            None,
            f"tools.peers.synthetic {shape}, seed {seed}, shuffled",
        )
    else:
        parts, pairs, maker = _from_texts(name, data)
    for part, matrix in parts.items():
        sparse.save_npz(folder / f"{part}.npz", matrix, compressed=False)
    if pairs is not None:
        np.save(folder / "filter.npy", pairs)
    facts = {**_describe(parts), "maker": maker, "fingerprint": _fingerprint(parts)}
    facts_file.write_text(json.dumps(facts, indent=1))
    return Matrices(name, folder, facts)


def _from_texts(name: str, data: Path) -> tuple[dict[str, Csr], NDArray[np.int64] | None, str]:
    import sklearn
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not (data / name).is_dir():
        raise InputError(f"{data / name}: no such data set. Say with --data where the benchmark's data sets lie.")
    train = Dataset.read(data / name, "train")
    test = Dataset.read(data / name, "test").align(train.labels)
    grams = (1, 1) if name in ONE_GRAMS else (1, 2)
    tfidf = TfidfVectorizer(ngram_range=grams, sublinear_tf=True, min_df=2, norm="l2", dtype=np.float32)
    parts = {
        "X_train": tfidf.fit_transform(list(train.texts)),
        "Y_train": train.Y,
        "X_test": tfidf.transform(list(test.texts)),
        "Y_test": test.Y,
    }
    maker = f"scikit-learn {sklearn.__version__} TfidfVectorizer, {grams[0]}-{grams[1]}-grams, sublinear, min_df 2, L2"
    return {part: _plain(matrix) for part, matrix in parts.items()}, test.filter_pairs, maker


def _plain(matrix: Any) -> Csr:
    csr = sparse.csr_matrix(matrix, dtype=np.float32)
    csr.sort_indices()
    return csr


def _describe(parts: dict[str, Csr]) -> dict[str, Any]:
    X, Y = parts["X_train"], parts["Y_train"]
    return {
        "train": X.shape[0],
        "test": parts["X_test"].shape[0],
        "features": X.shape[1],
        "labels": Y.shape[1],
        "labels_seen": int((np.bincount(Y.indices, minlength=Y.shape[1]) > 0).sum()),
        "features_per_text": round(X.nnz / X.shape[0], 2),
        "labels_per_text": round(Y.nnz / Y.shape[0], 2),
    }


def _fingerprint(parts: dict[str, Csr]) -> str:
    digest = hashlib.sha256()
    for name in PARTS:
        matrix = parts[name]
        digest.update(np.asarray(matrix.shape, np.int64).tobytes())
        for array, dtype in ((matrix.indptr, np.int64), (matrix.indices, np.int32), (matrix.data, np.float32)):
            digest.update(np.ascontiguousarray(array, dtype).tobytes())
    return digest.hexdigest()[:16]
