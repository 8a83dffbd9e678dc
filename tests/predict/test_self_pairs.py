"""Documents that are labels themselves: found by text and id, and kept from their own label where none ever has it."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from command import run
from treetop.assemble.self_pairs import barred, with_self_pairs
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.predict.self_pairs import LEAST, OwnLabels, self_pairs, without_pairs


def plain(text):
    return " ".join(text.lower().split())


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_pairs_are_those_of_all_comparisons(block, monkeypatch):
    monkeypatch.setattr(OwnLabels.__module__ + ".BLOCK", block)
    draw = np.random.default_rng(0)
    words = ["", " ", "A  cat", "a cat", "a Cat ", "dog", "Ünder", "ünder", "日本", "x" * 5000]
    labels = LabelSet.of([str(i) for i in range(60)], names=["n"] * 60, texts=draw.choice(words, 60).tolist())
    texts = Texts.of(draw.choice(words, 80).tolist())
    ids = Texts.of([str(i) if i % 3 else "" for i in range(80)])
    shown = [text or name for text, name in zip(labels.texts, labels.names, strict=True)]
    same = {(r, c) for r in range(80) for c in range(60) if plain(texts[r]) and plain(texts[r]) == plain(shown[c])}
    by_text = [tuple(pair) for pair in OwnLabels.of(labels).pairs(texts).tolist()]
    assert set(by_text) == same and by_text == sorted(same)
    by_id = {(r, r) for r in range(60) if r % 3}
    found = OwnLabels.of(labels).pairs(texts, ids).tolist()
    assert {tuple(pair) for pair in found} == same | by_id and len(found) == len(same | by_id)
    assert OwnLabels.of(labels).pairs(Texts.of([])).shape == (0, 2)


def test_what_is_left_of_a_ranking():
    ranking = Ranking.sorted(np.array([0, 3, 3, 5]), np.array([4, 2, 9, 1, 0], np.int32), np.arange(5, 0, -1.0))
    left = without_pairs(ranking, np.array([[0, 4], [2, 7], [1, 1]]), 2)
    assert left.indptr.tolist() == [0, 2, 2, 4] and left.ids.tolist() == [2, 9, 1, 0]
    assert without_pairs(ranking, None, 2) is ranking


def linked(n=120, *, true=False):
    """Pages that link to the page after them; each is a label, too."""
    texts = [f"page{i} about topic{i % 7}" for i in range(n)]
    Y = np.eye(n, k=1, dtype=np.float32)
    Y[0, 0] = float(true)
    return Dataset(Texts.of(texts), sparse.csr_matrix(Y), LabelSet.of([f"p{i}" for i in range(n)], texts=texts))


@pytest.mark.parametrize(
    "data, rule, expected",
    [
        (linked(), "auto", True),
        (linked(), "keep", False),
        (linked(true=True), "auto", False),
        (linked(true=True), "bar", True),
        (linked(LEAST - 1), "auto", False),
        (toy.dataset(0), "auto", False),
    ],
)
def test_when_a_document_is_kept_from_its_own_label(data, rule, expected, caplog):
    caplog.set_level(logging.INFO, "treetop")
    assert barred(data, rule) is expected
    assert ("are labels themselves" in caplog.text) is expected


def test_true_pairs_and_given_filters_stay():
    data = dataclasses.replace(linked(true=True), filter_pairs=np.array([[3, 9], [5, 5]]))
    pairs = {tuple(pair) for pair in with_self_pairs(data).filter_pairs.tolist()}
    assert pairs == {(i, i) for i in range(1, 120)} | {(3, 9)}
    assert len(self_pairs(data)) == 120


def test_a_model_never_answers_a_text_with_itself(tmp_path):
    data = linked()
    kept = treetop.fit("neighbours", data, self_pairs="keep")
    model = treetop.fit("neighbours", data, out=tmp_path / "model")
    assert model.bars_self and not kept.bars_self
    labels = [f"p{i}" for i in range(120)]
    for opened in (model, treetop.load(tmp_path / "model")):
        answers = opened.predict(data.texts, k=4)
        assert all(own not in [label.id for label in found] for own, found in zip(labels, answers, strict=True))
        assert opened.predict("page5 about topic5 today", k=4) == kept.predict("page5 about topic5 today", k=4)
        assert opened.predict(data.texts[5], k=4) == [
            label._replace(probability=None) for label in kept.predict(data.texts[5], k=5) if label.id != "p5"
        ][:4]  # fmt: skip
        assert opened.explain(data.texts[5], k=1)[0].id != "p5"
    filtered = dataclasses.replace(data, filter_pairs=self_pairs(data))
    assert model.evaluate(data, resamples=0).values == kept.evaluate(filtered, resamples=0).values


def test_the_command_says_what_it_does(tmp_path):
    data = linked(40)
    (tmp_path / "train.jsonl").write_text(
        "".join(
            json.dumps({"text": text, "labels": [data.labels.ids[i] for i in data.Y[row].indices]}) + "\n"
            for row, text in enumerate(data.texts)
        )
    )
    (tmp_path / "labels.jsonl").write_text(
        "".join(
            json.dumps({"id": i, "text": t}) + "\n" for i, t in zip(data.labels.ids, data.labels.texts, strict=True)
        )
    )
    done = run("fit", "neighbours", tmp_path, "--out", tmp_path / "m")
    assert "40 of 40 documents are labels themselves: a document's own label is neither trained on nor" in done.stderr
    texts = tmp_path / "train.jsonl"
    said = run("evaluate", tmp_path / "m", tmp_path, "--split", "train").stderr
    assert "40 of 40 texts are labels themselves; they never get their own label" in said
    said = run("predict", tmp_path / "m", texts, "--out", tmp_path / "answers.jsonl").stderr
    assert "40 of 40 texts are labels themselves; they never get their own label" in said
    assert "labels themselves" not in run("predict", tmp_path / "m", stdin="another page\n").stderr
    again = run("fit", "neighbours", tmp_path, "--out", tmp_path / "m", "--self-pairs", "keep", "--resume")
    assert again.returncode == 2 and "self_pairs" in again.stderr
    wrong = run("fit", "neighbours", tmp_path, "--out", tmp_path / "n", "--self-pairs", "never")
    assert wrong.returncode == 2 and "--self-pairs" in wrong.stderr and "keep" in wrong.stderr


def test_ids_of_texts_to_predict_name_labels_too():
    model = treetop.fit("neighbours", linked())
    ids = Texts.of(["p6", ""])
    [by_id, by_text], *_ = model.predict_known(["page5 about topic5 today"] * 2, 5, ids=ids)
    assert "p6" in [label.id for label in by_text] and "p6" not in [label.id for label in by_id]
    assert model.remarks(["page5 about topic5 today"] * 2, ids) == {"own": 1}


def test_an_evaluation_warns_where_self_pairs_are_not_what_training_saw(caplog):
    data, true = linked(), linked(true=True)
    kept, other = treetop.fit("neighbours", data, self_pairs="keep"), treetop.fit("neighbours", true)
    kept.evaluate(data, resamples=0)
    assert "own label" not in caplog.text  # asked for
    other.evaluate(data, resamples=0)
    assert "120 documents are labels themselves, and none carries its own label, but the model may" in caplog.text
    assert "Train with --self-pairs bar, or list these pairs in a filter file." in caplog.text
    caplog.clear()
    treetop.fit("neighbours", data).evaluate(true, resamples=0)
    assert (
        "true labels that are the document itself: 1. They count as misses, as the model never predicts" in caplog.text
    )
