"""A model that keeps texts from their own label is exported without that, and says so."""

import logging

import numpy as np
import pytest
from scipy import sparse

import treetop
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts

pytest.importorskip("onnxruntime")


def test_exported_without(tmp_path, caplog):
    from treetop.export.folder import export_onnx

    texts = [f"page{i} about topic{i % 7}" for i in range(40)]
    Y = sparse.csr_matrix(np.eye(40, k=1, dtype=np.float32))
    model = treetop.fit(
        "xr_linear", Dataset(Texts.of(texts), Y, LabelSet.of([f"p{i}" for i in range(40)], texts=texts))
    )
    assert model.bars_self
    caplog.set_level(logging.WARNING, "treetop")
    export_onnx(model, tmp_path / "onnx")
    assert "may answer one that is a label itself with this label" in caplog.text
