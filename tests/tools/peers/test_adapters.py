"""Our own adapter runs like a peer's; the peers' adapters import nothing that their environments lack."""

import ast
import sys

import numpy as np
import pytest

from tools import records
from tools.peers import run as peers
from tools.peers import synthetic
from tools.peers.methods import ADAPTERS, Method
from tools.peers.run import TINY

ALLOWED = {"numpy", "scipy", "pecos", "omikuji", "napkinxc", "libmultilabel", "psutil", "adapter"} | set(
    sys.stdlib_module_names
)


@pytest.mark.parametrize("file", sorted(ADAPTERS.glob("*.py")), ids=lambda p: p.name)
def test_adapters_do_not_import_treetop(file):
    if file.name == "treetop_run.py":
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.split(".")[0] in ALLOWED, f"{file.name} imports {name}"


def test_our_adapter_measures_a_recipe_on_given_features(tmp_path, monkeypatch):
    from scipy import sparse

    monkeypatch.setattr(peers, "_warm", lambda *_: None)
    bench = peers.Bench(tmp_path, tmp_path)
    folder = bench.build / "toy"
    folder.mkdir(parents=True)
    for part, matrix in synthetic.make(TINY).items():
        sparse.save_npz(folder / f"{part}.npz", matrix)
    records.write(folder / "facts.json", {"fingerprint": "f"})
    method = Method("ours", None, ADAPTERS / "treetop_run.py", {"recipe": "neighbours", "config": {}, "topk": 5})
    peers.run(bench, [Method(**{**vars(method), "datasets": ("toy",)})], ["toy"], reps=1)
    found = records.read(bench.file("toy"))["ours", 1]
    assert found["versions"]["treetop"] and found["model_mb"] > 0
    ids = np.load(folder / "predictions" / "ours-1.npz")["ids"]
    assert ids.shape == (synthetic.make(TINY)["X_test"].shape[0], 5) and ids.max() < TINY.n_labels
    assert found["scores"]["P@1"] > 30  # features of a label point to it
