"""Changes to labels survive training again."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import toy
import treetop
from toy_edits import scores
from treetop.cli.labels import app
from treetop.core.dataset import LabelSet
from treetop.core.errors import TreetopError, WorkError
from treetop.core.log import logger

TINY = {"tfidf": {"min_df": 1}}


@pytest.fixture(autouse=True)
def told(caplog):
    caplog.set_level("INFO", logger.name)
    return caplog


def fit(data, out, **more):
    return treetop.fit("neighbours", data, settings=TINY, out=out, calibrate=False, **more)


def renamed_ids(data, new):
    """The same data, some of whose labels have other ids."""
    labels = data.labels
    ids = [new.get(id_, id_) for id_ in labels.ids]
    return dataclasses.replace(data, labels=LabelSet.of(ids, list(labels.names), list(labels.texts)))


@pytest.fixture
def edited(tmp_path):
    """A model with every kind of change in its log, one of them undone."""
    model = fit(toy.dataset(), tmp_path / "m")
    model = model.retire_labels(["L01", "L02"], who="ann", note="gone")
    model = model.rename_labels({"L03": "tin", "L04": {"text": "about glass"}}, who="bob")
    model = model.merge_labels({"L05": "L06"}).restore_labels(["L02"]).retire_labels(["L09"]).undo_labels()
    model.save(tmp_path / "m")
    return tmp_path / "m"


def test_training_again_keeps_every_change_with_its_author_and_date(edited, told):
    before = treetop.load(edited)
    model = fit(toy.dataset(seed=1), edited, overwrite=True)
    assert (
        f"{edited}: 4 label changes of the model before were carried over: 1 retired, 2 renamed, 1 merged" in told.text
    )
    assert not [record for record in told.records if record.levelname == "WARNING"]
    assert dict(model.edits.merged) == {5: 6} and np.flatnonzero(model.labels.status).tolist() == [1, 5]
    assert (model.labels.names[3], model.labels.texts[4]) == ("tin", "about glass")
    assert model.labels.texts[3] == before.labels.texts[3] and model.labels.names[4] == before.labels.names[4]
    live = [before.edits.log[place].entry for place in before.edits.live()]
    kept = [edit.entry for edit in treetop.load(edited, check="full").edits.log]
    for key in ("action", "who", "note", "when"):
        assert [entry[key] for entry in kept] == [entry[key] for entry in live[:3]]
    assert [entry["ids"] for entry in kept] == [["L01"], ["L03", "L04"], ["L05"]]
    assert scores(treetop.load(edited)) == scores(model) and "L01" not in {id_ for _, id_ in scores(model)}


def test_what_no_longer_applies_is_listed_and_what_the_data_say_already_is_not_repeated(edited, told):
    data = renamed_ids(toy.dataset(), {"L01": "X01", "L06": "X06"})
    labels = data.labels
    names = ["tin" if id_ == "L03" else name for id_, name in zip(labels.ids, labels.names, strict=True)]
    data = dataclasses.replace(data, labels=LabelSet.of(list(labels.ids), names, list(labels.texts)))
    model = fit(data, edited, overwrite=True)
    (warning,) = [record.getMessage() for record in told.records if record.levelname == "WARNING"]
    assert "2 label changes of the model before no longer apply" in warning
    assert "L01 (retired), L05 (merged)" in warning and "\n" not in warning
    assert [edit.action for edit in model.edits.log] == ["rename"]
    assert model.edits.log[0].entry["ids"] == ["L04"]
    assert json.loads((edited / "run.json").read_text())["label_changes_lost"] == ["retired L01", "merged L05"]


def test_a_name_that_the_data_changed_too_yields_but_an_unchanged_text_follows_the_data(edited):
    data = toy.dataset()
    labels = data.labels
    texts = [f"new words {text}" for text in labels.texts]
    data = dataclasses.replace(data, labels=LabelSet.of(list(labels.ids), list(labels.names), texts))
    model = fit(data, edited, overwrite=True)
    assert model.labels.names[3] == "tin" and model.labels.texts[3] == texts[3]
    assert model.labels.texts[4] == "about glass"


def test_a_model_whose_changes_would_all_be_lost_is_not_replaced_unless_told_so(edited, monkeypatch):
    other = renamed_ids(toy.dataset(), {f"L{i:02d}": f"X{i:02d}" for i in range(40)})
    with monkeypatch.context() as patched:
        patched.setattr("treetop.training._train", lambda *_: pytest.fail("trained before it refused"))
        with pytest.raises(WorkError, match=r"none of the 5 label changes .* L01 \(retired\).* --drop-edits") as caught:
            fit(other, edited, overwrite=True)
    assert "\n" not in str(caught.value) and treetop.load(edited).edits is not None
    assert fit(other, edited, overwrite=True, drop_edits=True).edits is None
    assert treetop.load(edited, check="full").edits is None


def test_changes_that_cannot_be_read_are_not_lost(edited):
    (edited / "edits" / "log.json").write_text("{")
    with pytest.raises(WorkError, match="its label changes cannot be carried over, as the model does not open"):
        fit(toy.dataset(), edited, overwrite=True)
    assert (edited / "edits" / "log.json").read_text() == "{"
    assert fit(toy.dataset(), edited, overwrite=True, drop_edits=True).edits is None


def test_the_last_label_stays(edited):
    model = treetop.load(edited)
    model.retire_labels([id_ for id_ in model.labels.ids if id_ not in ("L01", "L05", "L39")]).save(edited)
    data = toy.dataset()
    fewer = dataclasses.replace(data, Y=data.Y[:, :39], labels=LabelSet.of(list(data.labels.ids)[:39]))
    made = fit(fewer, edited, overwrite=True)
    assert (made.labels.status == 0).any()


def test_added_labels_are_added_again_or_trained(tmp_path, told):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import toy_encoder
    import toy_heads
    from treetop.edit.carry import carried

    encoder = toy_encoder.write_encoder(tmp_path / "encoder")
    old = toy_heads.model(str(encoder), toy.dataset(n=100))
    old = old.add_labels({"N1": "lamps and wine", "N2": "bread and salt", "N3": "stone"})
    old = old.rename_labels({"N1": {"text": "river"}}, re_encode=True).merge_labels({"N2": "N1"})
    new = toy_heads.model(str(encoder), renamed_ids(toy.dataset(n=100), {"L00": "N3"}))
    model, made = carried(old.edits, new)
    assert made.done == {"add": 2, "rename": 1, "merge": 1} and made.given == 1 and not made.lost
    assert list(model.labels.ids)[40:] == ["N1", "N2"] and model.labels.texts[40] == "river"
    assert dict(model.edits.merged) == {41: 40}
    assert model.edits.log[1].part.parts, "its vector is recomputed again"
    plain = treetop.fit("neighbours", toy.dataset(), settings=TINY, calibrate=False)
    model, made = carried(old.edits, plain)
    assert made.is_void and made.lost[:3] == [("add", "N1"), ("add", "N2"), ("add", "N3")] and model.edits is None


def test_labels_apply(edited, tmp_path):
    fit(toy.dataset(seed=2), tmp_path / "new")
    done = CliRunner().invoke(app, ["apply", str(edited), str(tmp_path / "new")], catch_exceptions=False)
    assert done.output == (f"{tmp_path / 'new'}: 4 label changes carried over: 1 retired, 2 renamed, 1 merged\n")
    assert treetop.load(tmp_path / "new").labels.names[3] == "tin"
    with pytest.raises(WorkError, match="nothing left to carry over"):
        CliRunner().invoke(app, ["apply", str(edited), str(tmp_path / "new")], catch_exceptions=False)
    fit(toy.dataset(), tmp_path / "plain")
    with pytest.raises(WorkError, match="has no label changes"):
        CliRunner().invoke(app, ["apply", str(tmp_path / "plain"), str(edited)], catch_exceptions=False)


def labels(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False).output


def test_labels_go_to_a_table_and_come_back(edited, tmp_path, told):
    file = tmp_path / "labels.csv"
    assert labels("export", edited, "--to", file) == f"{file}: 40 labels\n"
    assert "L05,tin" not in file.read_text() and file.read_text().count("retired") == 2
    assert labels("import", edited, file) == f"{edited}: nothing to change\n"
    model = fit(toy.dataset(), tmp_path / "new")
    assert labels("import", tmp_path / "new", file, "--by", "ann") == (
        f"{tmp_path / 'new'}: 4 label changes: 2 renamed, 1 merged, 1 retired\n"
    )
    made = treetop.load(tmp_path / "new")
    assert (made.labels.names[3], made.labels.texts[4]) == ("tin", "about glass") and dict(made.edits.merged) == {5: 6}
    assert made.edits.log[0].entry["who"] == "ann" and made.labels.status[1] == 1
    file.write_text("id,name,status,into\nL01,,active,\nL05,five,retired,L07\nnobody,x,,\n")
    assert "2 restored, 1 renamed, 1 merged" in labels("import", tmp_path / "new", file)
    made = treetop.load(tmp_path / "new")
    assert made.labels.status[1] == 0 and made.labels.names[1] == model.labels.names[1]
    assert dict(made.edits.merged) == {5: 7} and made.labels.names[5] == "five"
    assert "1 ids that the model does not know are left out: nobody." in told.text


def test_labels_go_to_skos_and_come_back(edited, tmp_path):
    file = tmp_path / "labels.ttl"
    labels("export", edited, "--to", file)
    fit(toy.dataset(), tmp_path / "new")
    assert "3 label changes: 1 renamed, 1 merged, 1 retired" in labels("import", tmp_path / "new", file)
    assert labels("import", tmp_path / "new", file) == f"{tmp_path / 'new'}: nothing to change\n"
    made = treetop.load(tmp_path / "new")
    assert made.labels.names[3] == "tin" and np.flatnonzero(made.labels.status).tolist() == [1, 5]


def test_files_that_cannot_be_imported_change_nothing(edited, tmp_path):
    before = len(treetop.load(edited).edits.log)
    for rows, message in (
        ("id,status\nL08,gone\n", "labels.csv:2: status of label 'L08' is 'gone'"),
        ("id,name,into\nL07,new,\nL08,,nobody\n", r"L08 \(merged\) is impossible here, so nothing was changed"),
    ):
        (tmp_path / "labels.csv").write_text(rows)
        with pytest.raises(TreetopError, match=message):
            labels("import", edited, tmp_path / "labels.csv")
    with pytest.raises(TreetopError, match=r"neither a \.csv nor a \.ttl"):
        labels("export", edited, "--to", tmp_path / "labels.xls")
    with pytest.raises(TreetopError, match="exists already"):
        labels("export", edited, "--to", tmp_path / "labels.csv")
    assert len(treetop.load(edited).edits.log) == before
