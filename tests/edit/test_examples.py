"""Labels added to linear trees by examples: only their functions are trained."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

import toy
import treetop
from toy_edits import HIDDEN, TEXTS, TINY, same, scores, without
from treetop.cli.labels import app
from treetop.core.errors import ConfigError, InputError, LabelError, ModelError
from treetop.edit import examples
from treetop.edit.examples import nodes_of
from treetop.kernels.tree import chunks


@pytest.fixture(scope="module")
def model():
    data = without(toy.dataset())
    return treetop.fit("xr_linear", data, settings=TINY, calibrate=False, keep_texts=True)


@pytest.fixture(scope="module")
def plain(model):
    return dataclasses.replace(model, documents=None)


def test_new_labels_are_found_and_old_scores_keep_their_bits(plain):
    rows = toy.dataset()
    model = plain.add_labels(examples=rows)
    assert list(model.labels.ids)[37:] == ["L03", "L08", "L21"]
    assert model.counts[37:].tolist() == [int(rows.label_counts[column]) for column in HIDDEN]
    before, after = scores(plain), scores(model)
    assert {pair: score for pair, score in after.items() if pair[1] not in ("L03", "L08", "L21")} == before
    found = model.rank(rows.texts, 60).to_csr(40).toarray()
    for place, column in enumerate(HIDDEN, 37):
        own = rows.Y[:, [column]].toarray().ravel() > 0
        assert found[own, place].mean() > 3 * found[~own, place].mean()
    assert same(model.rank(TEXTS, 60).top(3), model.rank(TEXTS, 3))


def test_a_score_does_not_depend_on_labels_added_later_nor_on_the_batch(plain, tmp_path):
    rows = toy.dataset()
    one = plain.add_labels({"L03": "a"}, examples=rows)
    more = one.add_labels(examples=rows)
    assert list(more.labels.ids)[37:] == ["L03", "L08", "L21"]
    assert scores(one).items() <= scores(more).items()
    saved = more.save(tmp_path / "m")
    opened = treetop.load(tmp_path / "m", check="full")
    opened.check_golden()
    assert scores(opened) == scores(saved) == scores(more) and opened.counts.tolist() == more.counts.tolist()
    single = [opened.rank([text], 60) for text in TEXTS]
    assert [r.score.tolist() for r in single] == [opened.rank(TEXTS, 60).score[a:b].tolist() for a, b in spans(opened)]
    (told, *_) = opened.explain(TEXTS[0], 40)
    assert told.score == pytest.approx(opened.predict(TEXTS[0], 1)[0].score)
    undone = opened.undo_labels()
    assert {id_ for _, id_ in scores(undone)} & {"L08", "L21"} == set()


def spans(model):
    ends = model.rank(TEXTS, 60).indptr.tolist()
    return itertools.pairwise(ends)


def test_kept_training_texts_of_siblings_are_negatives(model, plain):
    few = toy.dataset()
    few = few.take(np.flatnonzero(few.Y[:, list(HIDDEN)].sum(1)))
    with_texts, alone = (m.add_labels(examples=few).edits.log[0].part.parts for m in (model, plain))
    weights = [part["member-00"].parts["rank"].arrays["weights"] for part in (with_texts, alone)]
    assert not np.array_equal(*weights)


def test_siblings_with_many_texts_are_sampled(monkeypatch):
    monkeypatch.setattr(examples, "MOST", 3)
    dense = np.zeros((9, 2), np.float32)
    dense[:, 0], dense[:2, 1] = 1, 2
    thin = examples._thinned(sparse.csr_matrix(dense)).toarray()
    assert (thin > 0).sum(0).tolist() == [3, 2] and (thin[thin > 0] == dense[thin > 0]).all()


def test_joined_chunks_are_those_of_one_piece(plain):
    """Functions packed one by one and joined answer like each alone."""
    rank = plain.members[0][-1].rank
    twice = chunks.joined([rank.weights, rank.weights])
    assert chunks.sound(twice) and sorted(twice.ids.tolist()) == list(range(2 * rank.n))
    for chunk in range(rank.n_chunks):
        assert np.array_equal(chunks.features_in(twice, rank.n_chunks + chunk), chunks.features_in(rank.weights, chunk))


def test_nodes_of_a_label_are_those_its_texts_score_highest():
    reached = sparse.csr_matrix(np.array([[0.5, 0, 0.2, 0.1, 0], [0, 0.1, 0.2, 0, 0.3]], np.float32))
    Y = sparse.csr_matrix(np.array([[1, 1], [1, 0]], np.float32))
    assert nodes_of(Y, reached).toarray().tolist() == [[1, 0, 1, 0, 1], [1, 0, 1, 1, 0]]


def test_what_cannot_be_learned_is_refused(plain):
    rows = toy.dataset()
    with pytest.raises(LabelError, match="label 'N1': no row of the examples has it"):
        plain.add_labels({"N1": "words"}, examples=rows)
    with pytest.raises(LabelError, match="label 'L01': is known already"):
        plain.add_labels({"L01": "words"}, examples=rows)
    with pytest.raises(InputError, match="the model knows every label of the examples"):
        plain.add_labels(examples=without(rows))
    with pytest.raises(InputError, match="expected a Dataset, got list"):
        plain.add_labels(examples=["a"])
    with pytest.raises(ConfigError, match=r"'xr_linear' learns labels from training texts only .* Give examples"):
        plain.add_labels({"N1": "words"})
    other = treetop.fit("neighbours", without(rows), settings={"tfidf": {"min_df": 1}}, calibrate=False)
    with pytest.raises(ConfigError, match="'neighbours' does not learn labels from examples"):
        other.add_labels(examples=rows)
    with pytest.raises(ConfigError, match="learns labels from training texts only"):
        plain.add_labels(examples=rows).rename_labels({"L03": "other"}, re_encode=True)


def test_damaged_functions_are_refused(plain):
    from treetop.edit.replay import with_log

    added = plain.add_labels(examples=toy.dataset())
    (edit,) = added.edits.log
    member = edit.part.parts["member-00"]
    bare = dataclasses.replace(edit.part, parts={"member-00": dataclasses.replace(member, parts={})})
    with pytest.raises(ModelError, match="no linear functions for the labels it adds"):
        with_log(plain, [dataclasses.replace(edit, part=bare)])
    fewer = plain.add_labels({"L03": "a"}, examples=toy.dataset()).edits.log[0].part.parts["member-00"]
    wrong = dataclasses.replace(member, parts=fewer.parts)
    with pytest.raises(ModelError, match="1 linear functions for 3 labels"):
        with_log(plain, [dataclasses.replace(edit, part=dataclasses.replace(edit.part, parts={"member-00": wrong}))])


def test_the_command(plain, tmp_path):
    plain.save(tmp_path / "m")
    rows = toy.dataset()
    lines = ["body;topics"]
    for row in range(len(rows)):
        names = "/".join(rows.labels.ids[c] for c in rows.Y[row].indices)
        lines.append(f"{rows.texts[row]};{names}".replace(",", " "))
    (tmp_path / "rows.csv").write_text("\n".join(lines).replace(";", ","))
    words = ["--text-column", "body", "--label-column", "topics", "--separator", "/"]
    done = CliRunner().invoke(
        app, ["add", str(tmp_path / "m"), "--examples", str(tmp_path / "rows.csv"), *words], catch_exceptions=False
    )
    assert done.output == f"{tmp_path / 'm'}: 3 labels added (change 1)\n"
    assert treetop.load(tmp_path / "m").counts[37] == rows.label_counts[3]
    with pytest.raises(ConfigError, match="give a file of labels, or --examples"):
        CliRunner().invoke(app, ["add", str(tmp_path / "m")], catch_exceptions=False)


def test_data_that_have_the_rows_train_the_label_and_others_list_it(plain, tmp_path, caplog):
    data = toy.dataset()
    treetop.fit("xr_linear", without(data), settings=TINY, calibrate=False, out=tmp_path / "m")
    treetop.load(tmp_path / "m").add_labels(examples=data).rename_labels({"L03": "three"}).save(tmp_path / "m")
    made = treetop.fit("xr_linear", data, settings=TINY, calibrate=False, out=tmp_path / "m", overwrite=True)
    assert [edit.action for edit in made.edits.log] == ["rename"] and made.labels.names[3] == "three"
    assert not caplog.messages
    Y = data.Y.tolil()
    Y[:, [3, 8, 21]] = 0
    treetop.fit("xr_linear", without(data), settings=TINY, calibrate=False, out=tmp_path / "n")
    treetop.load(tmp_path / "n").add_labels(examples=data).save(tmp_path / "n")
    listed = dataclasses.replace(data, Y=Y.tocsr())
    treetop.fit("xr_linear", listed, settings=TINY, calibrate=False, out=tmp_path / "n", overwrite=True)
    assert "what 3 labels of the model before learned from rows after training (L03, L08, L21) is not" in caplog.text
