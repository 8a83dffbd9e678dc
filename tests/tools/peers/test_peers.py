import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tools import records
from tools.peers import matrices
from tools.peers import run as peers
from tools.peers.__main__ import main
from tools.peers.methods import ALL, OURS, PEERS, Method, select
from treetop.core import registry
from treetop.core.errors import ConfigError, InputError, ResourceError

FAKE = Path(__file__).parent / "fake_run.py"


@pytest.fixture
def bench(tmp_path):
    rng = np.random.default_rng(0)
    parts = {
        "X_train": sparse.random(30, 12, 0.4, format="csr", rng=rng, dtype=np.float32),
        "Y_train": sparse.csr_matrix((rng.random((30, 6)) < 0.3).astype(np.float32)),
        "X_test": sparse.random(9, 12, 0.4, format="csr", rng=rng, dtype=np.float32),
        "Y_test": sparse.csr_matrix((rng.random((9, 6)) < 0.5).astype(np.float32)),
    }
    made = peers.Bench(tmp_path, tmp_path / "data")
    folder = made.build / "toy"
    folder.mkdir(parents=True)
    for name, matrix in parts.items():
        sparse.save_npz(folder / f"{name}.npz", matrix)
    (folder / "facts.json").write_text(json.dumps({"fingerprint": "f1"}))
    return made


def fake(bench, name="fake", **settings):
    return Method(name, None, FAKE, {"topk": 4, **settings}, ("toy",))


@pytest.fixture
def measured(monkeypatch):
    """Cells that were measured, without starting a process for each."""
    seen = []

    def measure(bench, method, found, rep):
        seen.append((method.name, rep))
        about = {"format": 1, "name": method.name, "rep": rep}
        return {**about, "data": found.facts, "settings": dict(method.settings)}

    monkeypatch.setattr(peers, "_warm", lambda *_: None)
    monkeypatch.setattr(peers, "measure", measure)
    return seen


def test_a_cell_holds_costs_scores_and_where_it_comes_from(bench, monkeypatch):
    monkeypatch.setattr(peers, "_warm", lambda *_: None)
    peers.run(bench, [fake(bench)], ["toy"], reps=1)
    found = records.read(bench.root / "benchmarks/results/peers/toy.jsonl")["fake", 1]
    assert found["train"]["cpu_s"] >= 0 and found["train"]["peak_mb"] > 1
    assert found["model_mb"] > 0 and found["versions"] == {"fake": "1.0"}
    assert found["batch"]["best"] == "plain" and set(found["batch"]["settings"]) == {"plain", "slow"}
    assert found["single"]["n"] == 9 and found["single"]["p99_ms"] >= found["single"]["p50_ms"]
    assert found["first"]["open_s"] > 0 and found["first"]["resident_mb"] <= found["first"]["peak_mb"]
    assert found["seed"] == 0 and found["machine"]["cores"] >= 1 and found["commit"] and found["command"]
    loaded = matrices.prepare("toy", data=bench.data, build=bench.build)
    best = np.argsort(-np.bincount(loaded.load("Y_train").indices, minlength=6), kind="stable")[0]
    expected = 100 * loaded.load("Y_test")[:, [best]].toarray().mean()
    assert found["scores"]["P@1"] == pytest.approx(expected, abs=1e-3)
    assert not (bench.build / "toy" / "work" / "fake-1").exists()


def test_cells_with_a_record_are_not_run_again(bench, measured):
    method = fake(bench)
    peers.run(bench, [method], ["toy"], reps=2)
    first, _ = bench.file("toy").read_text().splitlines(keepends=True)
    bench.file("toy").write_text(first)
    assert len(peers.run(bench, [method], ["toy"], reps=3)) == 3
    assert measured == [("fake", 1), ("fake", 2), ("fake", 2), ("fake", 3)]
    peers.run(bench, [method], ["toy"], reps=1, fresh=True)
    assert measured[4:] == [("fake", 1)]


def test_a_record_of_other_matrices_settings_or_a_broken_one_does_not_count(bench, measured):
    (found,) = peers.run(bench, [fake(bench)], ["toy"], reps=1)
    same = matrices.prepare("toy", data=bench.data, build=bench.build)
    assert peers.is_current(found, fake(bench), same)
    assert not peers.is_current(found, fake(bench, topk=3), same)
    assert not peers.is_current(found, fake(bench), replace(same, facts={"fingerprint": "f2"}))
    file = bench.file("toy")
    file.write_text(file.read_text()[:-20])
    assert bench.record("toy", fake(bench), 1) is None
    peers.run(bench, [fake(bench)], ["toy"], reps=1)
    assert measured == [("fake", 1), ("fake", 1)] and bench.record("toy", fake(bench), 1)


def test_a_failing_peer_stops_nobody_else_and_is_named(bench, monkeypatch):
    monkeypatch.setattr(peers, "_warm", lambda *_: None)
    methods = [fake(bench, "broken", crash=True), fake(bench)]
    with pytest.raises(ResourceError, match=r"1 cells failed: toy/broken-1"):
        peers.run(bench, methods, ["toy"], reps=1)
    assert bench.record("toy", methods[0], 1) is None and bench.record("toy", methods[1], 1)


def test_a_phase_that_takes_too_long_is_ended(bench, monkeypatch):
    monkeypatch.setattr(peers, "_warm", lambda *_: None)
    with pytest.raises(ResourceError, match="toy/fake-1"):
        peers.run(replace(bench, limit_s=0.01), [fake(bench)], ["toy"], reps=1)


def test_repetitions_are_interleaved_and_slow_peers_run_once():
    a, b = (Method(name, None, FAKE, {}, ("x", "y")) for name in "ab")
    order = [(d, m.name, r) for d, m, r in peers.plan([a, replace(b, once=True)], ["x", "y"], 2)]
    first = [("x", "a", 1), ("x", "b", 1), ("y", "a", 1), ("y", "b", 1)]
    assert order == [*first, ("x", "a", 2), ("y", "a", 2)]


def test_every_method_is_known_by_name_and_has_an_adapter():
    everything = [*PEERS, *OURS]
    assert len({method.name for method in everything}) == len(everything)
    for method in everything:
        assert method.adapter.exists() and set(method.datasets) <= set(ALL)
        assert json.loads(json.dumps(method.settings)) == method.settings
    order = [method.name for method in select(None)]
    assert order[:4] == ["pecos", "treetop-xr_linear", "pecos-man", "treetop-xr_linear-man"]
    assert len(order) == len(everything)
    for method in OURS:
        assert order.index(method.name) == order.index(method.rival) + 1
    assert [method.name for method in select(["treetop-dismec", "pecos", "pecos"])] == ["pecos", "treetop-dismec"]
    with pytest.raises(ConfigError, match="Did you mean 'pecos-man'"):
        select(["pecos-mann"])


def test_our_methods_name_recipes():
    assert {method.settings["recipe"] for method in OURS} <= set(registry.names("recipe"))


def test_missing_data_are_told_before_any_environment_is_made(tmp_path):
    with pytest.raises(InputError, match="none: no such folder. Give the one"):
        main(["--data", str(tmp_path / "none"), "--root", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_the_command_lists_its_cells(tmp_path, capsys):
    words = ["--dry-run", "--reps", "1", "--method", "pecos", "--dataset", "bibtex-bow"]
    main([*words, "--data", str(tmp_path), "--root", str(tmp_path)])
    assert capsys.readouterr().out == "bibtex-bow  pecos  repetition 1  to do\n"
