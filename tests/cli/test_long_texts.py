"""Texts longer than an encoder reads: what a user is told, and what to do about it."""

import json

import pytest
from typer.testing import CliRunner

import toy
from treetop.cli.main import app


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Documents whose labels are named after 20 words that say nothing."""
    folder, plain = tmp_path_factory.mktemp("long"), toy.dataset()
    names = [[plain.labels.ids[c] for c in row.indices] for row in plain.Y]
    rows = [{"text": "paper " * 20 + text, "labels": ids} for text, ids in zip(plain.texts, names, strict=True)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def fit(data, encoder, name, *settings):
    words = [f"encoder.model={encoder}", "encoder.max_length=12", "frozen=true", "train.epochs=20"]
    words += ["head_optimizer.lr=0.1", *settings]
    options = [part for word in words for part in ("--set", word)]
    out = ["--out", str(data / name), "--device", "cpu", "--no-calibrate"]
    done = CliRunner().invoke(app, ["fit", "lightxml", str(data), *out, *options])
    return done, done.output + done.stderr


def test_cut_texts_are_counted_and_windows_read_them(data, encoder):
    done, said = fit(data, encoder, "first")
    assert done.exit_code == 0, said
    said = " ".join(said.split())
    assert "60 of 60 texts have 12 tokens or more, of which only the first 12 are read." in said
    assert "raise the setting max_length or, of an encoder, set long_texts=windows" in said
    read = "60 of 60 texts have 12 tokens or more, of which the model reads only the first 12."
    for words in (["evaluate", str(data / "first"), str(data / "train.jsonl")],
                  ["predict", str(data / "first"), str(data / "train.jsonl")]):  # fmt: skip
        done = CliRunner().invoke(app, words)
        assert read in " ".join((done.output + done.stderr).split())
        assert "train it with a higher max_length or with long_texts=windows" in done.stderr
    done = CliRunner().invoke(app, ["predict", str(data / "first"), "-k", "1"], input="cat\n")
    assert "tokens or more" not in done.stderr
    windows = ("encoder.long_texts=windows", "encoder.window_pooling=learned")
    done, said = fit(data, encoder, "windows", *windows)
    assert done.exit_code == 0 and "are read" not in said
    figures = []
    for name in ("first", "windows"):
        done = CliRunner().invoke(app, ["evaluate", str(data / name), str(data / "train.jsonl"), "--json"])
        figures.append(float(json.loads(done.stdout)["P@1"]))
    assert figures[1] > figures[0] + 10
    done = CliRunner().invoke(app, ["export", str(data / "windows"), "onnx", "--out", str(data / "onnx")])
    assert "this model pools its encoder over windows of long texts" in str(done.exception)
    done, _ = fit(data, encoder, "no", "encoder.window_pooling=learned")
    assert "window_pooling: 'learned' needs windows. Set long_texts=windows" in str(done.exception)
