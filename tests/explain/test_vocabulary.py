"""What the vocabulary says of a label is in the answers: `explain`, its command, and the server."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

import toy
import treetop
from treetop.cli.main import app
from treetop.core.thesaurus import Thesaurus
from treetop.explain.vocabulary import vocabulary


@pytest.fixture(scope="module")
def model():
    data = toy.dataset()
    ids = list(data.labels.ids)
    others = Thesaurus.of(
        {id_: column for column, id_ in enumerate(ids)},
        [(3, ["puss", "moggy"]), (5, ["hound"])],
        [(3, [ids[0]]), (4, [ids[1], ids[0]])],
        [(3, [ids[7]]), (7, [ids[3]])],
    )
    with_others = replace(data, labels=replace(data.labels, thesaurus=others))
    return treetop.fit("neighbours", with_others, settings={"tfidf": {"min_df": 1}}, calibrate=False)


def test_names_and_relations_of_a_label(model):
    ids, names = model.labels.ids, model.labels.names
    found = vocabulary(model.labels, 3)
    assert found.alt == ["moggy", "puss"]
    assert [(one.id, one.label) for one in found.broader] == [(ids[0], names[0])]
    assert [one.id for one in found.related] == [ids[7]]
    assert [one.id for one in vocabulary(model.labels, 4).broader] == [ids[0], ids[1]]
    assert vocabulary(model.labels, 9) is None
    assert vocabulary(replace(model.labels, thesaurus=None), 3) is None


def test_explanations_carry_them(model):
    text = toy.dataset().texts[0]
    every = {one.id: one.vocabulary for one in model.explain(text, k=len(model.labels))}
    assert every == {id_: vocabulary(model.labels, model.labels.find(id_)) for id_ in every}
    told = [one.to_dict()["vocabulary"] for one in model.explain(text, k=3)]
    assert all(each is None or set(each) == {"alt", "broader", "related"} for each in told)


def test_the_command_shows_them(model, tmp_path):
    text = toy.dataset().texts[0]
    model.save(tmp_path / "m")
    shown = CliRunner().invoke(app, ["explain", str(tmp_path / "m"), "--text", text, "-k", str(len(model.labels))])
    assert shown.exit_code == 0, shown.output
    assert "also called: moggy; puss" in shown.stdout
    assert f"broader: {model.labels.names[0]}" in shown.stdout
