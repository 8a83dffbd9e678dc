"""Real data beside the repository: scores and bit-identity through every door. `make slow`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treetop
from treetop.core.dataset import Dataset
from treetop.kernels.runtime import threads

DATA = Path(__file__).parents[3] / "shared/data/finna-yso-en-25k"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DATA.exists(), reason="no data beside the repository")]


def command(*words, stdin=None):
    done = subprocess.run(
        [sys.executable, "-m", "treetop", *map(str, words)], input=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_neighbours_through_command_api_and_estimator(tmp_path):
    from treetop.sklearn import XMCClassifier

    command("fit", "neighbours", DATA, "--out", tmp_path / "m1", "--threads", 1)
    command("fit", "neighbours", DATA, "--out", tmp_path / "m2", "--threads", 2)
    assert (tmp_path / "m1/manifest.json").read_bytes() == (tmp_path / "m2/manifest.json").read_bytes()
    scores = json.loads(command("evaluate", tmp_path / "m1", DATA, "--json"))
    assert scores["P@1"] >= 38

    train, test = Dataset.read(DATA), Dataset.read(DATA, "test")
    texts = list(test.texts)[:2000]
    model = treetop.fit("neighbours", train, threads=2)
    estimator = XMCClassifier("neighbours", n_jobs=1).fit(list(train.texts), train.Y)
    rankings = []
    for n in (1, 2):
        with threads.limited(n):
            rankings.append(model.rank(texts, 5))
    assert np.array_equal(rankings[0].ids, rankings[1].ids) and np.array_equal(rankings[0].score, rankings[1].score)
    columns, values = estimator.predict_topk(texts, 5)
    assert [int(c) for row in columns for c in row] == rankings[0].ids.tolist()
    assert [v for row in values for v in row] == rankings[0].score.tolist()
    lines = command("predict", tmp_path / "m2", "-", "-k", 5, stdin="\n".join(" ".join(t.split()) for t in texts))
    rows = [json.loads(line) for line in lines.splitlines()]
    again = model.rank([" ".join(t.split()) for t in texts], 5)
    assert [s for row in rows for s in row["scores"]] == again.score.tolist()
    assert [i for row in rows for i in row["ids"]] == [model.labels.ids[c] for c in again.ids.tolist()]
    assert rows[0]["labels"] and rows[0]["labels"] != rows[0]["ids"]
