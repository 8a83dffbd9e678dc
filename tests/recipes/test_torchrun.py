"""`treetop fit` under torchrun: two processes share the label rows and end in one model, that of a single process."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
import treetop

TREE = ["clusters=tree", "tree.max_leaf=6", "beam=4", "projection_dim=16"]
ASTEC = ["network.dropout=0.0", "shortlist=12", "second_train.epochs=3.0", "second_train.batch_size=16"]
DUAL = ["dual.projection_dim=16", "pool.size=21", "pool.mine_from=1", "pool.mine_every=1"]
TWO_HEADS = ["classifier.dropout=0.0", *DUAL]
TWO_STAGES = [*TWO_HEADS, "second_train.epochs=3.0", "second_train.batch_size=16", "second_pool.size=21"]


def write(folder, n):
    data = toy.dataset(n=n)
    folder.mkdir()
    toy.write_rows(data, folder / "train.jsonl")
    with (folder / "labels.jsonl").open("w") as out:
        for id_, name in zip(data.labels.ids, data.labels.names, strict=True):
            out.write(json.dumps({"id": id_, "name": name}) + "\n")
    return folder


def start(recipe, data, out, settings, **environment):
    given = [part for item in settings for part in ("--set", item)]
    return subprocess.Popen(
        [sys.executable, "-m", "treetop", "fit", recipe, str(data), "--out", str(out), "--device", "cpu", *given],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@pytest.mark.parametrize(
    ("recipe", "more"),
    [
        ("lightxml", ["dropout=0.0"]),
        pytest.param("lightxml", ["dropout=0.0", *TREE], marks=pytest.mark.slow),
        pytest.param("unidec", TWO_HEADS, marks=pytest.mark.slow),
        pytest.param("astec", ASTEC, marks=pytest.mark.slow),
        pytest.param("unidec", [*TWO_HEADS, "classifier.labels=all"], marks=pytest.mark.slow),
        pytest.param(
            "unidec", [*TWO_HEADS, "classifier.labels=all", "classifier.label_memory=low"], marks=pytest.mark.slow
        ),
        pytest.param("unidec", [*TWO_HEADS, "train.accumulate=3"], marks=pytest.mark.slow),
        pytest.param("unidec", [*TWO_HEADS, "classifier.offload=true"], marks=pytest.mark.slow),
        pytest.param("renee", ["dropout=0.0"], marks=pytest.mark.slow),
        pytest.param("renee", ["dropout=0.0", "label_memory=low"], marks=pytest.mark.slow),
        pytest.param("depsl", DUAL, marks=pytest.mark.slow),
        pytest.param("dexml", [*DUAL, "pool.size=0"], marks=pytest.mark.slow),
        pytest.param("ngame", TWO_STAGES, marks=pytest.mark.slow),
        pytest.param("siamesexml", TWO_STAGES, marks=pytest.mark.slow),
    ],
)
def test_two_processes_give_the_model_of_one(tmp_path, recipe, more):
    encoder = toy_encoder.write_encoder(tmp_path / "encoder")
    settings = [
        f"encoder.model={encoder}", "encoder.max_length=32", "min_steps_per_epoch=1",
        *([] if recipe == "astec" else ["encoder_dropout=0.0"]),
        "train.epochs=3.0", "train.batch_size=16", "encoder_optimizer.lr=0.001", "head_optimizer.lr=0.01", *more,
    ]  # fmt: skip
    # Batches with pools are no worse for an odd number of texts; others would lose one to stay divisible.
    data = write(tmp_path / "data", 61 if "pool.size=21" in more or "pool.size=0" in more else 64)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        start(recipe, data, tmp_path / "two", settings, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="2", **place)
        for r in range(2)
    ]
    one = treetop.fit(recipe, treetop.Dataset.read(data, "train"), settings=settings, device="cpu")
    assert [process.wait(300) for process in ranks] == [0, 0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "encoder", "two"]
    two = treetop.load(tmp_path / "two")
    seen = one.counts > 0  # the scores of others are a line through those of near labels: other ones where cosines tie
    for a, b in zip(one.members[0], two.members[0], strict=True):
        rows = seen if len(a.rank.weight) == len(seen) else slice(None)
        np.testing.assert_allclose(b.rank.weight[rows], a.rank.weight[rows], rtol=1e-2, atol=1e-3)
    texts = toy.dataset(seed=1).texts
    a, b = (model.rank(texts, 3) for model in (one, two))
    assert np.mean(a.ids == b.ids) > 0.95
    np.testing.assert_allclose(b.score, a.score, atol=1e-3)
