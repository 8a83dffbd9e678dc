"""The GPU benchmark of memory over labels runs on a small case on the CPU."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy_encoder
from treetop.train import journal

GPU = Path(__file__).parents[2] / "benchmarks/gpu"


def test_it_says_what_labels_take(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(GPU))
    monkeypatch.setattr(journal, "SECONDS", journal.SECONDS)  # put back afterwards
    import label_memory

    toy_encoder.write_encoder(tmp_path / "encoder")
    sizes = {"labels": [200, 400], "documents": 64, "batch": 16, "pool": 40, "steps": 1, "warm": 1}
    given = [part for name, value in sizes.items() for part in (f"--{name}", *str(value).strip("[]").split(", "))]
    out = tmp_path / "lines.jsonl"
    monkeypatch.setattr(sys, "argv", ["x", "--data", str(tmp_path), "--device", "cpu", "--out", str(out), *given])
    label_memory.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    made = [line for line in lines if line["section"] == "label memory"]
    assert [(line["labels"], line["place"]) for line in made] == [
        (200, "device"), (200, "host"), (400, "device"), (400, "host"),
    ]  # fmt: skip
    for device, host in (made[:2], made[2:]):
        assert device["vectors"] == device["labels"] * 33 * 4 and device["states"] == device["labels"] * (66 + 1) * 4
        assert device["loss"] == host["loss"] and device["steps"] == 3
        assert device["pool_mean"] == 40 and len(device["refresh_s"]) == 1 and device["step_ms"] > 0
    assert next(line for line in lines if line["section"] == "same bits")["equal"]
