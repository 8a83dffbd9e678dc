"""Labels learn new rows; what the model says of others keeps every bit, and the change can be taken back."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import toy
import treetop
from toy_edits import TEXTS, TINY, cut, hashes, same, scores, without
from treetop.cli.main import app
from treetop.core.errors import ConfigError, InputError, ModelError
from treetop.core.texts import Texts
from treetop.edit.carry import transfer
from treetop.edit.replay import with_log


@pytest.fixture(scope="module")
def model():
    return treetop.fit("xr_linear", without(toy.dataset()), settings=TINY, calibrate=False)


def new_rows(columns=(2, 5)):
    """Rows of another draw that have one of these labels, and only those labels."""
    data = without(toy.dataset(seed=9))
    rows = np.flatnonzero(np.diff(data.Y[:, list(columns)].tocsr().indptr))
    return cut(data, list(columns)).take(rows)


def test_labels_with_new_rows_move_and_all_others_keep_their_bits(model):
    rows = new_rows()
    after = model.learn(rows)
    ids = set(rows.labels.ids)
    old, new = scores(model), scores(after)
    assert {pair: s for pair, s in old.items() if pair[1] not in ids} == {
        pair: s for pair, s in new.items() if pair[1] not in ids
    }
    assert any(old.get(pair) != s for pair, s in new.items() if pair[1] in ids)
    columns = [model.labels.columns[id_] for id_ in rows.labels.ids]
    more = np.bincount(rows.Y.indices, minlength=2)
    assert (after.counts[columns] == model.counts[columns] + more).all()
    assert same(after.rank(TEXTS, 60).top(3), after.rank(TEXTS, 3))


def test_new_rows_are_answered_better(model):
    rows = new_rows()
    columns = [model.labels.columns[id_] for id_ in rows.labels.ids]
    target = rows.Y.toarray() > 0
    before, after = (m.rank(rows.texts, 60).to_csr(37)[:, columns].toarray() for m in (model, model.learn(rows)))
    assert after[target].mean() > before[target].mean()


def test_the_change_is_stored_beside_the_model_and_undone(model, tmp_path):
    saved = model.save(tmp_path / "m")
    files = hashes(tmp_path / "m")
    learned = saved.learn(new_rows(), who="ann", note="june").save(tmp_path / "m")
    assert files.items() <= hashes(tmp_path / "m").items()
    opened = treetop.load(tmp_path / "m", check="full")
    opened.check_golden()
    assert scores(opened) == scores(learned)
    (entry,) = [edit.entry for edit in opened.edits.log]
    assert (entry["action"], entry["labels"], entry["who"], entry["note"]) == ("learn", 2, "ann", "june")
    undone = opened.undo_labels()
    assert scores(undone) == scores(model) and undone.counts.tolist() == model.counts.tolist()


def test_labels_learn_again_and_again_also_those_that_were_added(model):
    data = toy.dataset()
    once = model.learn(new_rows())
    twice = once.learn(new_rows((5, 7)))
    assert twice.counts[2] == once.counts[2] and twice.counts[5] > once.counts[5]
    added = model.add_labels({"L03": "three"}, examples=data)
    more = added.learn(cut(toy.dataset(seed=9), [3]))
    assert more.counts[37] > added.counts[37]
    old, new = scores(added), scores(more)
    assert {p: s for p, s in old.items() if p[1] != "L03"} == {p: s for p, s in new.items() if p[1] != "L03"}
    assert any(old.get(p) != s for p, s in new.items() if p[1] == "L03")
    (told, *_) = twice.explain(TEXTS[0], 40)
    assert told.score == pytest.approx(twice.predict(TEXTS[0], 1)[0].score)


def test_an_explanation_of_a_label_that_learned_adds_up(model):
    rows = new_rows()
    after = model.learn(rows)
    text = rows.texts[0]
    wanted = rows.labels.ids[rows.Y[0].indices[0]]
    (told,) = [each for each in after.explain(text, 37) if each.id == wanted]
    assert told.score == pytest.approx({label.id: label.score for label in after.predict(text, 37)}[wanted], rel=1e-5)


def test_unknown_labels_of_the_rows_are_added(model):
    after = model.learn(toy.dataset(seed=9))
    assert [edit.action for edit in after.edits.log] == ["learn", "add"]
    assert list(after.labels.ids)[37:] == ["L03", "L08"]


def test_rows_of_a_merged_label_count_for_its_target_and_retired_ones_learn_nothing(model):
    rows = new_rows()
    one, other = rows.labels.ids
    merged = model.merge_labels({one: other}).learn(rows)
    assert merged.edits.log[-1].entry["ids"] == [other]
    retired = model.retire_labels([one]).learn(rows)
    assert retired.edits.log[-1].entry["ids"] == [other]
    with pytest.raises(InputError, match="no row has a label that is not retired"):
        model.retire_labels([one, other]).learn(rows)


def test_another_model_has_it_from_its_data(model):
    after = model.learn(new_rows())
    assert [*transfer(after.edits, model.labels).learned] == ["L02", "L06"]
    lost = transfer(after.edits, without(toy.dataset()).labels.__class__.of(["x"])).lost
    assert sorted(lost) == [("learn", "L02"), ("learn", "L06")]


def test_training_again_says_what_it_does_not_carry_over(model, tmp_path, caplog):
    data, settings = toy.dataset(), {"tfidf": {"min_df": 1}}
    after = model.add_labels(examples=cut(data, [3])).learn(new_rows()).save(tmp_path / "m")
    assert [edit.action for edit in after.edits.log] == ["add", "learn"]
    treetop.fit("xr_linear", data, settings=settings, calibrate=False, out=tmp_path / "m", overwrite=True)
    assert (
        f"{tmp_path / 'm'}: what 2 labels of the model before learned from rows after training (L02, L06) is not "
        "carried over. Rows that the data of the new model lack, teach it again with `treetop learn`." in caplog.text
    )
    after.save(tmp_path / "old")
    caplog.clear()
    done = CliRunner().invoke(app, ["labels", "apply", str(tmp_path / "old"), str(tmp_path / "m")])
    assert "And what 2 labels of the model before learned from rows after training (L02, L06" in str(done.exception)


def test_the_user_is_told_what_learns_from_rows_and_what_does_not(model, caplog):
    caplog.set_level("INFO", "treetop")
    data = toy.dataset()
    model.add_labels(examples=cut(data, [3]))
    model.learn(new_rows())
    said = "only the functions of their labels learn from these"
    assert caplog.text.count(said) == 2 and "words, tree, probabilities stay as trained" in caplog.text
    assert "new to the model" not in caplog.text
    strange = dataclasses.replace(data, texts=Texts.of([f"{text} savanna steppe" for text in data.texts]))
    model.learn(cut(strange, [2]))
    assert "of the words of these rows are new to the model, which does not read them. Train it again" in caplog.text


def test_other_recipes_and_other_data_are_refused(model):
    other = treetop.fit("neighbours", without(toy.dataset()), settings={"tfidf": {"min_df": 1}}, calibrate=False)
    with pytest.raises(ConfigError, match=r"learn: 'neighbours' does not learn further .* train this one again"):
        other.learn(new_rows())
    with pytest.raises(InputError, match="rows: expected a Dataset, got list"):
        model.learn(["a"])


def test_damaged_changes_are_refused(model):
    (edit,) = model.learn(new_rows()).edits.log
    for arrays in ({"columns": np.array([2, 2])}, {"counts": np.array([-1, 1])}, {"columns": np.array([2, 99])}):
        part = dataclasses.replace(edit.part, arrays={**edit.part.arrays, **arrays})
        with pytest.raises(ModelError):
            with_log(model, [dataclasses.replace(edit, part=part)])


def test_the_command(model, tmp_path):
    model.save(tmp_path / "m")
    rows = new_rows()
    lines = [
        json.dumps({"text": text, "labels": [rows.labels.ids[c] for c in rows.Y[row].indices]})
        for row, text in enumerate(rows.texts)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    given = ["learn", str(tmp_path / "m"), str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "other")], catch_exceptions=False)
    assert done.output.splitlines()[-1] == f"{tmp_path / 'other'}: 2 labels learned further (change 1)"
    assert not (tmp_path / "m/edits").exists()
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.output.splitlines()[-1] == f"{tmp_path / 'm'}: 2 labels learned further (change 1)"
    assert scores(treetop.load(tmp_path / "m")) == scores(treetop.load(tmp_path / "other"))
    done = CliRunner().invoke(app, ["labels", "undo", str(tmp_path / "m")], catch_exceptions=False)
    assert scores(treetop.load(tmp_path / "m")) == scores(model)
    with pytest.raises(ConfigError, match="--overwrite: is for --out"):
        CliRunner().invoke(app, [*given, "--overwrite"], catch_exceptions=False)


def test_a_model_with_one_level_learns_and_adds_labels_too(tmp_path):
    data = toy.dataset()
    flat = treetop.fit("xr_linear", without(data), settings={"tfidf": {"min_df": 1}}, calibrate=False)
    assert len(flat.members[0]) == 1
    with pytest.raises(ConfigError, match=r"Give examples of the new ones \(--examples\)"):
        flat.add_labels({"N1": "words"})
    after = flat.learn(new_rows())
    ids = {after.labels.ids[c] for edit in after.edits.log for c in edit.part.arrays.get("columns", [])}
    old, new = scores(flat), scores(after)
    assert {p: s for p, s in old.items() if p[1] not in ids} == {p: s for p, s in new.items() if p[1] not in ids}
    assert any(old.get(p) != s for p, s in new.items() if p[1] in ids)
    more = flat.add_labels(examples=data)
    assert {p: s for p, s in scores(more).items() if p[1] not in ("L03", "L08", "L21")} == old
    again = more.learn(cut(toy.dataset(seed=9), [3])).save(tmp_path / "m")
    assert scores(treetop.load(tmp_path / "m", check="full")) == scores(again)
    (told, *_) = again.explain(TEXTS[0], 40)
    assert told.score == pytest.approx(again.predict(TEXTS[0], 1)[0].score)
