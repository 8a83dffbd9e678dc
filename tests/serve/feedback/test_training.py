"""Feedback laid over training data."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import sparse

import command
import toy
import treetop
from treetop.core.dataset import DOCUMENT, LABEL_TEXT, Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.serve.feedback.store import Entry, FeedbackStore
from treetop.serve.feedback.training import with_feedback


def data(**more):
    Y = sparse.csr_matrix(np.array([[1, 1, 0], [0, 0.5, 0], [0, 0, 0]], np.float32))
    return Dataset(Texts.of(["one", "two", "one"]), Y, LabelSet.of(["a", "b", "c"]), name="tiny", **more)


def applied(*said, **more):
    entries = [Entry(text, verdict, tuple(labels.split())) for text, verdict, labels in said]
    made, effect = with_feedback(data(**more), entries)
    rows = [(text, [made.labels.ids[c] for c in made.Y[i].indices]) for i, text in enumerate(made.texts)]
    return rows, effect, made


def test_rows_are_changed_and_added():
    rows, effect, _ = applied(
        ("one", "reject", "a"),
        ("two", "accept", "c"),
        ("new", "accept", "b"),
        ("new", "add", "c"),
        ("bad", "reject", "a"),
    )
    assert rows == [("one", ["b"]), ("two", ["b", "c"]), ("one", []), ("new", ["b", "c"])]
    assert (effect.texts, effect.new_rows, effect.changed_rows, effect.added, effect.removed) == (4, 1, 2, 1, 1)
    assert str(effect) == (
        "feedback: 5 entries on 4 texts; 1 new rows; 2 rows changed (1 labels added, 1 removed); "
        "1 new texts left out of which no label is right"
    )


def test_the_later_verdict_counts():
    rows, *_ = applied(("x", "accept", "a"), ("x", "reject", "a"), ("x", "reject", "b"), ("x", "add", "b"))
    assert rows[3:] == [("x", ["b"])]
    rows, *_ = applied(("one", "accept", "a"), ("one", "set", "c"))
    assert rows[0] == ("one", ["c"]) and rows[2] == ("one", ["c"])
    rows, *_ = applied(("one", "set", "c"), ("one", "add", "b"), ("one", "reject", "c"))
    assert rows[0] == ("one", ["b"])
    assert applied(("one", "set", ""))[0][0] == ("one", [])


def test_labels_the_data_do_not_have_are_counted():
    rows, effect, _ = applied(("one", "add", "zzz"), ("new", "set", "zzz a"), ("two", "reject", "zzz"))
    assert rows == [("one", ["a", "b"]), ("two", ["b"]), ("one", []), ("new", ["a"])]
    assert effect.unknown == 2 and effect.changed_rows == 0


def test_what_belongs_to_rows_grows_with_them():
    more = {
        "ids": Texts.of(["1", "2", "3"]), "roles": np.array([DOCUMENT, DOCUMENT, LABEL_TEXT], np.uint8),
        "sample": np.array([True, False, True]), "filter_pairs": np.array([[0, 2]]),
    }  # fmt: skip
    rows, _, made = applied(("new", "add", "a"), ("one", "add", "c"), **more)
    assert [*made.ids] == ["1", "2", "3", "feedback-0"]
    assert made.roles.tolist() == [DOCUMENT, DOCUMENT, LABEL_TEXT, DOCUMENT] and made.sample.tolist() == [1, 0, 1, 1]
    assert rows[0][1] == ["a", "b", "c"] and rows[2][1] == []  # a label's text is no document
    assert made.Y.dtype == np.float32 and made.Y[1].data.tolist() == [0.5]


def test_no_feedback_changes_nothing():
    _, effect, made = applied()
    assert made.fingerprint == data().fingerprint and effect.new_rows == 0


def test_held_out_texts_are_not_trained_on():
    made, effect = with_feedback(data(), [Entry("new", "add", ("a",))], ["new"])
    assert len(made) == 3 and effect.held_out == 1


def test_data_that_feedback_cannot_join():
    given = dataclasses.replace(data(), features={"x": sparse.csr_matrix(np.ones((3, 2), np.float32))})
    with pytest.raises(InputError, match="precomputed features"):
        with_feedback(given, [])


@pytest.fixture
def files(tmp_path):
    store = FeedbackStore(tmp_path / "f.sqlite")
    label = toy.dataset().labels.ids[0]
    store.add([Entry("something quite new", "accept", (label,), "m", "v"), Entry("=1+1\tx", "reject", ("L01",))])
    store.close()
    toy.write_rows(toy.dataset(), tmp_path / "train.jsonl")
    return tmp_path


def test_fit_with_feedback(files):
    words = ("popular", files / "train.jsonl", "--no-calibrate")
    done = command.run("fit", *words, "--out", files / "m", "--with-feedback", files / "f.sqlite")
    assert done.returncode == 0, done.stderr
    assert "feedback: 2 entries on 2 texts; 1 new rows" in done.stderr
    assert treetop.load(files / "m").n_train == 61
    done = command.run("fit", *words, "--out", files / "n", "--with-feedback", files / "nix")
    assert done.returncode == 2 and "no such file" in done.stderr


def test_review(files):
    done = command.run("labels", "review", files / "f.sqlite")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines[0] == ["id", "at", "model", "version", "verdict", "labels", "text"]
    assert lines[1][4:] == ["accept", "L00", "something quite new"] and lines[2][4:] == ["reject", "L01", "=1+1 x"]
    assert "2 entries on 2 texts: 1 accept, 1 reject" in done.stderr
    rows = [
        json.loads(line) for line in command.run("labels", "review", files / "f.sqlite", "--json").stdout.splitlines()
    ]
    assert rows[0]["labels"] == ["L00"] and rows[1]["text"] == "=1+1\tx"
    table = command.run("labels", "review", files / "f.sqlite", "--csv").stdout
    assert "\t=1+1" in table or "'=1+1" in table  # a spreadsheet does not compute it
    both = command.run("labels", "review", files / "f.sqlite", "--csv", "--json")
    assert both.returncode == 2 and "Give one of them" in both.stderr
