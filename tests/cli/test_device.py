"""`--device` of the commands that answer."""

import pytest
from typer.testing import CliRunner

import toy
import treetop
from treetop.cli.main import app

torch = pytest.importorskip("torch")


def test_a_missing_gpu_is_refused_where_one_would_be_used(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    quick = {"encoder": {"model": encoder, "max_length": 16}, "train": {"epochs": 1.0, "batch_size": 32}}
    treetop.fit("lightxml", toy.dataset(), settings=quick, out=tmp_path / "neural", device="cpu")
    treetop.fit("popular", toy.dataset(), out=tmp_path / "plain")
    (tmp_path / "t.txt").write_text("a cat\n")
    run = CliRunner().invoke
    for device in ("auto", "cpu"):
        assert (
            run(app, ["predict", str(tmp_path / "neural"), str(tmp_path / "t.txt"), "--device", device]).exit_code == 0
        )
    assert run(app, ["predict", str(tmp_path / "plain"), str(tmp_path / "t.txt"), "--device", "cuda"]).exit_code == 0
    for command in (
        ["predict", str(tmp_path / "neural"), str(tmp_path / "t.txt")],
        ["evaluate", str(tmp_path / "neural"), "wordnet"],
        ["explain", str(tmp_path / "neural"), "--text", "a cat"],
    ):
        done = run(app, [*command, "--device", "cuda"])
        assert "no GPU is visible here" in str(done.exception) + done.output and done.exit_code != 0
        done = run(app, [*command, "--device", "gpu"])
        assert "unknown value 'gpu'" in str(done.exception) + done.output and done.exit_code != 0
