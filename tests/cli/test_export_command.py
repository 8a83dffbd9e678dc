"""`treetop export` writes a folder, and refuses in one sentence."""

import json

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import toy
import treetop
from command import run


def test_a_model_is_exported(tmp_path):
    treetop.fit("xr_linear", toy.dataset(), settings=["tfidf.min_df=1"], out=tmp_path / "m")
    done = run("export", tmp_path / "m", "onnx", "--out", tmp_path / "x")
    assert done.returncode == 0, done.stderr
    assert "exported (40 labels, 8 golden inputs with the same answers)" in done.stdout + done.stderr
    assert json.loads((tmp_path / "x/export.json").read_text())["graph"] == "model.onnx"
    again = run("export", tmp_path / "m", "onnx", "--out", tmp_path / "x")
    assert again.returncode == 2 and "exists already" in again.stderr
    other = run("export", tmp_path / "m", "pmml", "--out", tmp_path / "y")
    assert other.returncode == 2 and "unknown value 'pmml'. Choose one of 'onnx'" in other.stderr
    missing = run("export", tmp_path / "none", "onnx", "--out", tmp_path / "y")
    assert missing.returncode == 2 and len(missing.stderr.splitlines()) == 1
