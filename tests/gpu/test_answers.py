"""Models answer on a GPU as on the CPU; and the benchmark of it runs on a small case on the CPU."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
import treetop
from treetop.core.types import Candidates, DeviceView, Join
from treetop.rank.head import Head
from treetop.tensors.sequences import SequenceRows

GPU = Path(__file__).parents[2] / "benchmarks/gpu"
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is visible here")]
TREE = {"clusters": "tree", "tree": {"max_leaf": 5}, "beam": 4, "tfidf": {"min_df": 1}}
FORMS = {
    "lightxml": {},
    "lightxml, clusters": TREE,
    "cascadexml": {"resolutions": [4, 8], "beam": [3, 5], "tfidf": {"min_df": 1}},
    "inceptionxml": TREE,
    "xmlcnn": {},
    "attentionxml": TREE,
    "x_transformer": {"tree": {"max_leaf": 5}, "tfidf": {"min_df": 1}},
    "renee": {},
    "unidec": {"pool": {"size": 24}},
    "ngame": {"pool": {"size": 24}, "second_pool": {"size": 24}},
    "xr_transformer": {
        "preliminary_tree": {"max_leaf": 5, "branching": 2, "top_branching": 4}, "tfidf": {"min_df": 1},
    },
}  # fmt: skip


def fitted(form, encoder):
    loop = {"epochs": 5.0, "batch_size": 16}
    given = {**FORMS[form], "encoder": {"model": encoder, "max_length": 16}, "train": loop}
    given |= {"second_train": loop} if form == "ngame" else {}
    return treetop.fit(form.partition(",")[0], toy.dataset(), settings=given, device="cuda")


def on_gpu(view):
    return view.device.type == "cuda" if isinstance(view, SequenceRows) else view.tensor.is_cuda


@pytest.mark.parametrize("form", [pytest.param(form, marks=needs_gpu) for form in FORMS])
def test_answers_on_a_gpu_are_those_of_the_cpu(form, encoder, tmp_path):
    model, texts = fitted(form, encoder), [*toy.dataset(seed=1).texts, "", "cat " * 50]
    moved = model.to("cuda")
    view = moved.views(texts)[moved.members[0][0].view]
    assert form == "xr_transformer" or (isinstance(view, DeviceView) and on_gpu(view))
    expected, found = model.rank(texts, 7), moved.rank(texts, 7)
    assert np.array_equal(found.indptr, expected.indptr)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-3)
    assert np.mean(found.ids == expected.ids) > 0.97
    moved.save(tmp_path / "m")
    again = treetop.load(tmp_path / "m", check="full", device="auto")
    np.testing.assert_allclose(again.rank(texts, 7).score, found.score, atol=1e-5)
    assert np.array_equal(again.to("cpu").rank(texts, 7).ids, expected.ids)


@pytest.mark.parametrize("n", [pytest.param(n, marks=needs_gpu) for n in (50, 40_000)])
@pytest.mark.parametrize("tied", [False, True])
def test_scores_and_ties_of_many_labels_on_a_gpu(n, tied):
    rng = np.random.default_rng(0)
    draw = (lambda size: rng.integers(-1, 2, size)) if tied else (lambda size: rng.normal(size=size))
    head = Head(draw((n, 32)).astype(np.float32), np.zeros(n, np.float32))
    view = draw((3000, 32)).astype(np.float32)
    for join, scale in ((Join(), 1.0), (Join("sigmoid"), 1 / 16)):  # a power of two: ties stay; sigmoids stay below 1
        for keep in (1, 100, n):
            rows = np.float32(scale) * view[: 10 if keep > 100 else 3000]
            expected = head.rank(rows, Candidates.all(len(rows), n), join, keep)
            found = head.to(torch.device("cuda")).rank(rows, Candidates.all(len(rows), n), join, keep)
            np.testing.assert_allclose(found.score, expected.score, rtol=1e-4, atol=1e-4)
            assert np.array_equal(found.indptr, expected.indptr)
            same = np.mean(found.ids == expected.ids)
            if keep == n:  # far down, and where sigmoids are 1, scores are as good as equal: all labels are there
                assert np.array_equal(np.sort(found.padded(n)), np.sort(expected.padded(n)))
            else:
                assert same >= (1.0 if tied and join.transform == "noop" else 0.98), (join, keep)


@pytest.mark.parametrize("labels", [0, 300])
def test_the_benchmark_says_how_fast_and_how_alike(labels, encoder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(GPU))
    import answers

    given = {"encoder": {"model": encoder, "max_length": 16}, "train": {"epochs": 1.0}, "pool": {"size": 24}}
    treetop.fit("unidec", toy.dataset(), settings=given, out=tmp_path / "m", device="cpu")
    with (tmp_path / "data.jsonl").open("w") as file:
        for text in toy.dataset(seed=1).texts:
            file.write(json.dumps({"text": text, "labels": ["a"]}) + "\n")
    out = tmp_path / "lines.jsonl"
    asked = ["--device", "cpu", "--split", "train", "--rows", "200", "--compared", "20", "-k", "5", "--out", str(out)]
    more = ["--labels", str(labels)] if labels else []
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "m"), str(tmp_path / "data.jsonl"), *asked, *more])
    answers.main()
    line = json.loads(out.read_text())
    assert line["texts"] == 200 and line["cpu_texts"] == 20 and line["labels"] == (labels or len(toy.dataset().labels))
    assert line["max_score_difference"] == 0.0 and line["same_label"] == 1.0 and line["texts_per_s"] > 0
