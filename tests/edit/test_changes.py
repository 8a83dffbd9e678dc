"""Labels added, retired, restored, renamed and merged after training."""

import dataclasses
import json
import multiprocessing
import os
import shutil
import signal
import time

import numpy as np
import pytest

import toy
import treetop
from toy_edits import TEXTS, hashes, same, scores
from treetop.core import edits
from treetop.core.dataset import LabelSet
from treetop.core.errors import ConfigError, InputError, LabelError, ModelError, TreetopError, WorkError
from treetop.core.folder import Folder

LINEAR = ["popular", "neighbours", "dismec", "xr_linear", "parabel"]
TINY = {"tfidf": {"min_df": 1}}


@pytest.fixture(scope="module")
def fitted():
    made = {}

    def get(recipe):
        if recipe not in made:
            chosen = {} if recipe == "popular" else TINY
            made[recipe] = treetop.fit(recipe, toy.dataset(), settings=chosen)
        return made[recipe]

    return get


# --- what all recipes can ---


@pytest.mark.parametrize("recipe", LINEAR)
def test_retired_labels_are_never_returned_and_others_keep_their_bits(recipe, fitted):
    model = fitted(recipe)
    before, first = scores(model), model.rank(TEXTS, 5)
    gone = [model.labels.ids[c] for c in np.unique(first.padded(2))]
    trained, model = model, model.retire_labels(gone)
    assert scores(trained) == before and trained.edits is None and not trained.labels.status.any()
    after = scores(model)
    assert not {id_ for _, id_ in after} & set(gone)
    assert after == {pair: score for pair, score in before.items() if pair[1] not in gone}
    lengths = np.diff(model.rank(TEXTS, 3).indptr)
    assert (lengths == np.minimum(3, [sum(pair[0] == row for pair in after) for row in range(len(TEXTS))])).all()
    assert same(model.rank(TEXTS, 60).top(3), model.rank(TEXTS, 3))
    model = model.restore_labels(gone)
    assert scores(model) == before and same(model.rank(TEXTS, 5), first)


@pytest.mark.parametrize("recipe", LINEAR)
def test_a_merged_label_sends_its_score_on(recipe, fitted):
    model = fitted(recipe)
    before = scores(model)
    model = model.merge_labels({"L00": "L05", "L01": "L05"})
    after = scores(model)
    for (row, id_), score in after.items():
        if id_ == "L05":
            assert score == max(before.get((row, one), -np.inf) for one in ("L00", "L01", "L05"))
        else:
            assert score == before[row, id_]
    assert not {id_ for _, id_ in after} & {"L00", "L01"}
    for k in (1, 2, 4):
        assert same(model.rank(TEXTS, 60).top(k), model.rank(TEXTS, k))
    model = model.merge_labels({"L05": "L06"})  # goes on to where its target goes
    chained = scores(model)
    for (row, id_), score in chained.items():
        if id_ == "L06":
            assert score == max(before.get((row, one), -np.inf) for one in ("L00", "L01", "L05", "L06"))
    model = model.restore_labels(["L05", "L00", "L01"])
    assert scores(model) == before


def test_an_explanation_tells_where_a_merged_score_comes_from(fitted):
    model = fitted("xr_linear")
    first, second = model.predict(TEXTS[0], 2)
    assert first.score > second.score
    model = model.merge_labels({first.id: second.id})
    (told,) = model.explain(TEXTS[0], 1)
    last = told.members[0].steps[-1]
    assert told.id == second.id and told.score == first.score and told.members[0].label == first.id
    assert last.node == list(model.labels.ids).index(first.id)
    assert last.score == pytest.approx(first.score, abs=1e-6)


@pytest.mark.parametrize("recipe", LINEAR)
def test_names_change_and_scores_do_not(recipe, fitted):
    model = fitted(recipe)
    before = scores(model)
    model = model.rename_labels({"L03": "tin and glass", "L39": {"name": "last", "text": "the last one"}})
    assert model.labels.names[3] == "tin and glass" and model.labels.texts[39] == "the last one"
    assert model.labels.names[4] == toy.dataset().labels.names[4] and model.labels.find("last") == 39
    assert scores(model) == before
    assert "tin and glass" in {label.name for row in model.predict(TEXTS, 40) for label in row} or recipe == "popular"


@pytest.mark.parametrize("recipe", LINEAR)
def test_recipes_without_label_vectors_say_so(recipe, fitted, tmp_path):
    model = fitted(recipe)
    with pytest.raises(ConfigError, match=f"labels add: '{recipe}' learns labels from training texts only") as caught:
        model.add_labels({"new": "a new label"})
    assert "\n" not in str(caught.value) and model.edits is None


@pytest.mark.parametrize("recipe", ["xr_linear", "neighbours"])
def test_many_retired_labels_and_k_beyond_all(recipe, fitted):
    model = fitted(recipe)
    before = scores(model)
    model = model.retire_labels([f"L{i:02d}" for i in range(38)])
    assert {id_ for _, id_ in scores(model)} <= {"L38", "L39"}
    assert scores(model, 1000) == {pair: score for pair, score in before.items() if pair[1] in ("L38", "L39")}
    with pytest.raises(LabelError, match="no label would be left, and a model without labels answers nothing"):
        model.retire_labels(["L38", "L39"])
    model = model.retire_labels(["L38"])
    assert {id_ for _, id_ in scores(model)} <= {"L39"}


def test_labels_marked_retired_in_the_data_are_not_returned(tmp_path):
    data = toy.dataset()
    labels = data.labels
    status = np.zeros(40, np.uint8)
    status[[0, 7]] = 1
    data = dataclasses.replace(data, labels=LabelSet(labels.ids, labels.names, labels.texts, status))
    treetop.fit("neighbours", data, settings=TINY, out=tmp_path / "m")
    model = treetop.load(tmp_path / "m", check="full")
    model.check_golden()
    assert not {id_ for _, id_ in scores(model)} & {"L00", "L07"}
    model.restore_labels(["L00"]).save(tmp_path / "m")
    assert "L00" in {id_ for _, id_ in scores(treetop.load(tmp_path / "m"))}


def test_blended_members_keep_their_scores(fitted):
    model = fitted("parabel")
    assert len(model.members) == 3
    before = scores(model, 5)
    model = model.retire_labels(["L02"])
    after = scores(model, 5)
    assert {pair: score for pair, score in before.items() if pair[1] != "L02"}.items() <= after.items()


# --- the folder ---


def test_files_of_training_stay_and_the_log_tells(fitted, tmp_path):
    fitted("neighbours").save(tmp_path / "m")
    before = hashes(tmp_path / "m")
    model = treetop.load(tmp_path / "m")
    model = model.retire_labels(["L01"], who="ann", note="outdated").rename_labels({"L02": "two"})
    assert hashes(tmp_path / "m") == before  # nothing is written before it is saved
    saved = model.save(tmp_path / "m")
    assert [len(edit.entry["files"]) for edit in saved.edits.log] == [2, 2]
    assert not any("files" in edit.entry for edit in model.edits.log)
    after = hashes(tmp_path / "m")
    assert {name: after[name] for name in before} == before
    assert {name.split("/")[0] for name in after.keys() - before.keys()} == {"edits"}
    log = json.loads(after["edits/log.json"])
    first, second = log["edits"]
    assert (first["action"], first["who"], first["note"], first["ids"]) == ("retire", "ann", "outdated", ["L01"])
    assert second["action"] == "rename" and second["who"] and second["when"].endswith("Z")
    again = treetop.load(tmp_path / "m", check="full")
    again.check_golden()
    assert again.labels == model.labels and same(again.rank(TEXTS, 9), model.rank(TEXTS, 9))
    again = again.merge_labels({"L04": "L05"}).save(tmp_path / "m")
    assert {**after, "edits/log.json": b""}.items() <= {**hashes(tmp_path / "m"), "edits/log.json": b""}.items()
    with pytest.raises(WorkError, match="exists already"):
        again.save(tmp_path / "m")
    again.save(tmp_path / "other")
    other = treetop.load(tmp_path / "other", check="full")
    assert other.labels == again.labels and len(other.edits.log) == 3 and other.edits.merged == {4: 5}
    assert same(other.rank(TEXTS, 9), again.rank(TEXTS, 9))
    other.undo_labels().save(tmp_path / "other")
    again.save(tmp_path / "m", overwrite=True)
    assert len(treetop.load(tmp_path / "m", check="full").edits.log) == 3


def test_undo_goes_back_step_by_step(fitted, tmp_path):
    fitted("neighbours").save(tmp_path / "m")
    model = treetop.load(tmp_path / "m")
    seen = [(scores(model), list(model.labels.names))]
    for change in (
        lambda m: m.retire_labels(["L01", "L02"]),
        lambda m: m.rename_labels({"L03": "three"}),
        lambda m: m.merge_labels({"L04": "L05"}),
        lambda m: m.restore_labels(["L02"]),
    ):
        model = change(model)
        model.save(tmp_path / "m")
        seen.append((scores(model), list(model.labels.names)))
    for expected in seen[-2::-1]:
        model = treetop.load(tmp_path / "m").undo_labels()
        model.save(tmp_path / "m")
        assert (scores(model), list(model.labels.names)) == expected
    with pytest.raises(WorkError, match="there is no change left"):
        model.undo_labels()
    assert [e.action for e in treetop.load(tmp_path / "m").edits.log].count("undo") == 4


def test_two_writers_do_not_lose_a_change(fitted, tmp_path):
    fitted("popular").save(tmp_path / "m")
    one, two = (treetop.load(tmp_path / "m") for _ in range(2))
    one.retire_labels(["L01"]).save(tmp_path / "m")
    with pytest.raises(WorkError, match="changed by another process"):
        two.retire_labels(["L02"]).save(tmp_path / "m")
    assert [e.entry["ids"] for e in treetop.load(tmp_path / "m", check="full").edits.log] == [["L01"]]


@pytest.mark.parametrize("go_on_with_saved", [True, False])
def test_a_later_save_writes_only_the_new_changes(fitted, tmp_path, go_on_with_saved):
    trained = fitted("popular")
    model = trained.save(tmp_path / "m")
    assert trained.seal == "" and model.seal
    for turn, label in enumerate(("L01", "L02", "L03"), 1):
        model = model.retire_labels([label])
        before = hashes(tmp_path / "m")
        saved = model.save(tmp_path / "m")
        after = hashes(tmp_path / "m")
        written = {name.split("/")[1] for name in after if before.get(name) != after[name]} - {".lock"}
        assert written == {"log.json", f"{turn:04d}"}
        model = saved if go_on_with_saved else model
    opened = treetop.load(tmp_path / "m", check="full")
    assert len(opened.edits.log) == 3 and opened.labels == model.labels
    with pytest.raises(WorkError, match="exists already"):  # it does not know its folder
        trained.retire_labels(["L01"]).save(tmp_path / "m")


def test_a_change_of_the_same_second_that_says_the_same_but_is_another_is_not_taken_for_it(
    fitted, tmp_path, monkeypatch
):
    monkeypatch.setattr(time, "strftime", lambda *_: "2026-01-01T00:00:00Z")
    model = fitted("popular").save(tmp_path / "m")
    one, two = (model.rename_labels({"L01": name}) for name in ("one", "two"))
    one.save(tmp_path / "m")
    one.save(tmp_path / "m")  # it lies there already
    assert dict(one.edits.log[0].entry) == dict(two.edits.log[0].entry)
    with pytest.raises(WorkError, match="changed by another process"):
        two.save(tmp_path / "m")
    assert treetop.load(tmp_path / "m", check="full").labels.names[1] == "one"
    assert not list((tmp_path / "m/edits").glob(".*.tmp"))


def test_a_model_cannot_be_changed(fitted):
    with pytest.raises(dataclasses.FrozenInstanceError):
        fitted("popular").labels = None


def test_edits_of_another_model_or_half_a_log_are_refused(fitted, tmp_path):
    for recipe, name in (("popular", "a"), ("neighbours", "b")):
        fitted(recipe).retire_labels(["L01"]).save(tmp_path / name)
        treetop.load(tmp_path / name).retire_labels(["L02"]).save(tmp_path / name)
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    shutil.rmtree(tmp_path / "c/edits")
    shutil.copytree(tmp_path / "b/edits", tmp_path / "c/edits")
    with pytest.raises(ModelError, match="belongs to another model"):
        treetop.load(tmp_path / "c")
    for name, message in (
        ("edits/0001", "missing"),
        ("edits/0002", "missing"),
        ("edits/log.json", "log.json: missing"),
    ):
        shutil.rmtree(tmp_path / "c")
        shutil.copytree(tmp_path / "a", tmp_path / "c")
        there = tmp_path / "c" / name
        shutil.rmtree(there) if there.is_dir() else there.unlink()
        with pytest.raises(ModelError, match=message):
            treetop.load(tmp_path / "c")
    (tmp_path / "a/edits/stray").write_text("x")
    with pytest.raises(ModelError, match="not in the log"):
        treetop.load(tmp_path / "a", check="full")


@pytest.mark.parametrize("step", range(12))
def test_a_change_that_fails_anywhere_leaves_the_old_model(fitted, tmp_path, monkeypatch, step):
    """The disk says no at the n-th call: the model is as it was, and the next change goes through."""
    fitted("popular").save(tmp_path / "m")
    treetop.load(tmp_path / "m").retire_labels(["L01"]).save(tmp_path / "m")
    calls = []

    def failing(real):
        def call(*args, **named):
            calls.append(real)
            if len(calls) == step + 1:
                raise OSError(28, "No space left on device")
            return real(*args, **named)

        return call

    with monkeypatch.context() as patch:
        for name in ("sync", "write_part", "seal"):
            patch.setattr(edits, name, failing(getattr(edits, name)))
        patch.setattr(Folder, "rename", failing(Folder.rename))
        model = treetop.load(tmp_path / "m").retire_labels(["L02"])
        done = False
        try:
            model.save(tmp_path / "m")
            done = True
        except TreetopError as error:
            assert "No space left" in str(error) and "\n" not in str(error)
    model = treetop.load(tmp_path / "m", check="full")
    assert len(model.edits.log) in ({2} if done else {1, 2})
    model.retire_labels(["L03"]).save(tmp_path / "m")
    assert treetop.load(tmp_path / "m", check="full").labels.status[3] == 1


def _edit_forever(folder, ready):
    ready.set()
    for turn in range(10_000):
        model = treetop.load(folder)
        column = turn % 40
        change = model.restore_labels if model.labels.status[column] else model.retire_labels
        change([f"L{column:02d}"]).save(folder)


def test_kills_at_any_moment_leave_a_whole_model(fitted, tmp_path):
    fitted("popular").save(tmp_path / "m")
    random, context = np.random.default_rng(0), multiprocessing.get_context("fork")
    length = 0
    for _ in range(12):
        ready = context.Event()
        process = context.Process(target=_edit_forever, args=(tmp_path / "m", ready))
        process.start()
        ready.wait(30)
        time.sleep(float(random.uniform(0.002, 0.08)))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        model = treetop.load(tmp_path / "m", check="full")
        log = () if model.edits is None else model.edits.log
        assert len(log) >= length
        length = len(log)
    assert length > 0


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: m.retire_labels(["nobody"]), LabelError, "label 'nobody': unknown id or name"),
        (lambda m: m.retire_labels([]), InputError, "none given"),
        (lambda m: m.retire_labels(["L01", "L01"]), LabelError, "appears twice"),
        (lambda m: m.retire_labels([3]), InputError, "expected ids or names as strings"),
        (lambda m: m.retire_labels(5), InputError, "expected ids or names"),
        (lambda m: m.retire_labels(["L09"]), LabelError, "label 'L09': is retired already"),
        (lambda m: m.restore_labels(["L01"]), LabelError, "is not retired"),
        (lambda m: m.rename_labels({"L01": ""}), InputError, "name is empty"),
        (lambda m: m.rename_labels({"L01": {"text": "  "}}), InputError, "text is empty"),
        (lambda m: m.rename_labels({"L01": {}}), InputError, "neither a new name nor a new text"),
        (lambda m: m.rename_labels({"L01": {"title": "x"}}), InputError, "is not a name or text"),
        (lambda m: m.rename_labels({"L01": 7}), InputError, "is not a name or text"),
        (lambda m: m.rename_labels({"nobody": "x"}), LabelError, "unknown id"),
        (lambda m: m.rename_labels({"L01": "x"}, re_encode=True), LabelError, "was trained"),
        (lambda m: m.rename_labels(["L01"]), InputError, "expected {label: new name}, got list"),
        (lambda m: m.rename_labels("L01"), InputError, "expected {label: new name}, got str"),
        (lambda m: m.retire_labels(["L01"], who=3), InputError, "'who' must be a string of UTF-8 text, got 3"),
        (lambda m: m.retire_labels(["L01"], note=None), InputError, "'note' must be a string"),
        (lambda m: m.retire_labels(["L01"], who="\udcff"), InputError, "'who' must be a string of UTF-8"),
        (lambda m: m.merge_labels({"L01": "L01"}), LabelError, "both merged and merged into"),
        (lambda m: m.merge_labels({"L01": "L02", "L02": "L03"}), LabelError, "both merged and merged into"),
        (lambda m: m.merge_labels({"L01": "L09"}), LabelError, "'L09': is retired, nothing can be merged"),
        (lambda m: m.merge_labels({"L09": "L01"}), LabelError, "'L09': is retired already"),
        (lambda m: m.merge_labels({"L01": "nobody"}), LabelError, "unknown id"),
        (lambda m: m.merge_labels(["L01"]), InputError, "expected {label: label it goes into}"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(fitted, change, error, message):
    model = fitted("neighbours").retire_labels(["L09"])
    before, log = scores(model), model.edits.log
    with pytest.raises(error, match=message) as caught:
        change(model)
    assert "\n" not in str(caught.value)
    assert model.edits.log is log and scores(model) == before
