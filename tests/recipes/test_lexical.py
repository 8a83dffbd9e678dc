"""Labels are found by any of their names, explained by the words that were found, and refused where damaged."""

import dataclasses
import sys

import numpy as np
import pytest
from scipy import sparse

import treetop
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError, ModelError
from treetop.core.label_part import labels_from_part, labels_part
from treetop.core.texts import Texts
from treetop.core.thesaurus import Thesaurus
from treetop.features.lexical.forms import ALTERNATIVE, DERIVED, NAME, collect, written_forms
from treetop.features.lexical.matches import Matches
from treetop.rank.lexical import Lexical

IDS = ["cat", "dog", "planet", "metal", "public", "library"]
NAMES = ["cats", "dogs", "mercury (planet)", "mercury (metal)", "public libraries", "library, book collection: a place"]
OTHERS = Thesaurus.of({id_: i for i, id_ in enumerate(IDS)}, [(0, ["house tiger"])], [(4, ["library"])])
LABELS = dataclasses.replace(LabelSet.of(IDS, NAMES), thesaurus=OTHERS)
SAID = [
    "a cat",
    "the house tiger",
    "tiger of a house",
    "two dogs and a Dog",
    "planet mercury",
    "the public library",
    "owl",
]
GOLD = [0, 0, 0, 1, 2, 4, 1]


def data(n=40):
    texts, rows = Texts.of((SAID * n)[: 7 * n]), np.array(GOLD * n)
    Y = sparse.csr_matrix((np.ones(len(rows), np.float32), (np.arange(len(rows)), rows)), (len(rows), len(IDS)))
    return Dataset(texts, Y, LABELS)


@pytest.fixture(scope="module")
def model():
    return treetop.fit("lexical", data(), calibrate=False)


def test_forms_are_names_alternative_names_headings_and_names_without_a_qualifier():
    found = set(written_forms(LABELS))
    assert {
        ("cats", 0, NAME),
        ("house tiger", 0, ALTERNATIVE),
        ("mercury", 2, DERIVED),
        ("mercury", 3, DERIVED),
    } <= found
    assert {("library", 5, NAME), ("book collection", 5, NAME)} <= found and len(found) == 10


def test_labels_are_found_by_any_name_in_any_order(model):
    for text, label in (
        ("CAT!", "cat"),
        ("a tiger in the house", "cat"),
        ("dog", "dog"),
        ("libraries, public", "public"),
    ):
        assert model.predict(text, k=1)[0].id == label, text


def test_a_label_without_training_texts_is_found(model):
    best = [label.id for label in model.predict("old book collections", k=2)]
    assert "library" in best


def test_an_explanation_marks_the_words_of_the_name(model):
    text = "A tiger, they say, lives in the House"
    (found,) = [each for each in model.explain(text, k=2) if each.id == "cat"]
    step = found.members[0].steps[0]
    assert step.method == "matches"
    assert {text[a:b] for word in step.words for a, b in word.spans} == {"tiger", "House"}
    assert all(word.contribution > 0 for word in step.words)


def test_a_related_label_in_the_text_is_seen():
    forms = collect(LABELS, Texts.of([]), "", 8)
    from treetop.assemble.lexical import table_of
    from treetop.kernels.text.matched_labels import RELATIVES, Facts, label_rows
    from treetop.rank.lexical import matches_of

    table = table_of(forms, LABELS, np.zeros(len(IDS), np.int64), 0)
    X = Matches.of(forms, 1.0).transform(Texts.of(["a public library", "a cat"]))
    facts = Facts(np.zeros(len(IDS), np.float32), np.zeros(len(IDS), np.float32))
    _, labels, rows = label_rows(*matches_of("rank", X, len(table.words)), table, facts)
    assert dict(zip(labels.tolist(), rows[:, RELATIVES] > 0, strict=True)) == {4: True, 5: True, 0: False}


def test_a_language_stems_words(model):
    pytest.importorskip("Stemmer")
    labels = LabelSet.of(["run"], ["running"])
    both = {
        language: Matches.of(collect(labels, Texts.of([]), language, 8), 1.0).transform(Texts.of(["he runs"])).nnz
        for language in ("", "english")
    }
    assert both[""] == 0 < both["english"]
    with pytest.raises(ConfigError, match="language: unknown value 'klingon'"):
        treetop.fit("lexical", data(2), settings={"language": "klingon"})


def test_a_missing_stemmer_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(ImportError, match=r"pip install .*\[languages\]'"):
        collect(LABELS, Texts.of([]), "english", 8)


def test_pairs_that_may_not_be_learned_are_left_out():
    rows = data(4)
    pairs = np.array([[row, 1] for row in np.flatnonzero(np.array(GOLD * 4) == 1)])
    without = dataclasses.replace(rows, Y=rows.Y.multiply(np.array(GOLD * 4)[:, None] != 1).tocsr())
    barred = dataclasses.replace(without, filter_pairs=pairs)
    plain, left_out = (treetop.fit("lexical", each, calibrate=False).members[0][0].rank for each in (without, barred))
    assert plain.facts.precision[1] < 0.5 < left_out.facts.precision[1]
    assert np.array_equal(plain.facts.precision[[0, 2]] > 0.5, [True, True])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("words", 10**6),
        ("words", -1),
        ("weight", 0.0),
        ("weight", np.nan),
        ("ends", 5),
        ("stems_ends", 7),
        ("filed", 10**6),
        ("filed_ends", 3),
        ("crowded", 2),
    ],
)
def test_damaged_forms_are_refused(model, name, value):
    part = model.features["matches"].to_part()
    array = np.array(part.arrays[name])
    array[0] = value
    with pytest.raises(ModelError):
        Matches.from_part(dataclasses.replace(part, arrays={**part.arrays, name: array}))


def test_a_form_longer_than_kernels_have_room_for_is_refused(model):
    part = model.features["matches"].to_part()
    words = np.zeros(40, np.int32)
    filed = {"filed": words[:1], "filed_ends": (np.arange(len(part.arrays["filed_ends"])) > 0).astype(np.int32)}
    arrays = {"ends": np.array([0, 40], np.int32), "words": words, "hashes": words.astype(np.uint32), **filed}
    with pytest.raises(ModelError, match="forms do not fit together"):
        Matches.from_part(dataclasses.replace(part, arrays={**part.arrays, **arrays}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("labels", 99), ("source", 3), ("words", 200), ("relatives", 6), ("frequent", 6), ("ends", 1), ("feature", 50),
     ("precision", np.inf), ("information", np.nan), ("relative_ends", 1)],
)  # fmt: skip
def test_a_damaged_ranker_is_refused(model, name, value):
    part = model.members[0][0].rank.to_part()
    array = np.array(part.arrays[name])
    array.reshape(-1)[0] = value
    with pytest.raises(ModelError):
        Lexical.from_part(dataclasses.replace(part, arrays={**part.arrays, name: array}))


def test_another_view_of_the_same_width_is_refused(model):
    rank = model.members[0][0].rank
    view = sparse.csr_matrix(np.eye(1, 8 * len(rank.table.words), 3, np.float32))
    with pytest.raises(ModelError, match="reads matches of forms, got another view"):
        rank.rows(view)


def test_alternative_names_and_relations_stay_with_the_model_and_old_models_have_none():
    counts = np.zeros(len(IDS), np.int64)
    part = labels_part(LABELS, counts)
    assert labels_from_part(part)[0] == LABELS
    bad = dataclasses.replace(part, arrays={**part.arrays, "broader": np.array([0, 77], np.int32)})
    with pytest.raises(ModelError, match="broader"):
        labels_from_part(bad)
    old = labels_part(dataclasses.replace(LABELS, thesaurus=None), counts)
    assert "alt_of" not in old.arrays and labels_from_part(old)[0].thesaurus is None
