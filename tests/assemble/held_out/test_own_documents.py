"""A label's own document is never held out where most labels have one."""

import numpy as np
import pytest

from treetop.assemble.held_out.hold_out import HoldOut
from treetop.assemble.held_out.own_documents import hold_out, own_documents
from treetop.data.frame import from_lists
from treetop.data.split import holdout, normalise


def taxonomy(n=100, with_document=1.0, others=200):
    """Concepts that are labels, some with a document of their own that carries it, and other documents."""
    own = [f"Concept {i}" for i in range(int(n * with_document))]
    texts = own + [f"something about {i} and {i % 7}" for i in range(others)]
    labels = [[text.lower()] for text in own] + [[f"concept {i % n}"] for i in range(others)]
    return from_lists(texts, labels)


def test_own_documents_are_told_by_text_and_label():
    data = taxonomy()
    assert own_documents(data).tolist() == [True] * 100 + [False] * 200


def test_none_is_set_apart_where_few_labels_have_a_document():
    data = taxonomy(with_document=0.3)
    assert not own_documents(data).any()
    for ours, plain in zip(hold_out(data, 0.1, 3), holdout(data, 0.1, 3), strict=True):
        assert ours.tolist() == plain.tolist()


def test_documents_that_do_not_carry_their_own_label_are_others():
    data = from_lists(["cat", "dog", "a third"], [["dog"], ["cat"], ["cat", "dog"]])
    assert not own_documents(data).any()


@pytest.mark.parametrize("seed", range(5))
def test_others_are_held_out_in_their_place(seed):
    data = taxonomy(n=1000, others=1000)
    kept, out = hold_out(data, 0.1, seed)
    assert not own_documents(data)[out].any() and sorted([*kept, *out]) == list(range(len(data)))
    assert 150 < len(out) < 250  # a tenth of all documents, not of half of them


def test_texts_equal_to_an_own_document_are_trained_on_too():
    data = from_lists(["The Cat", "the cat!", "dog", *"abcdefgh"], [["the cat"], ["dog"], ["dog"], *[["dog"]] * 8])
    for seed in range(20):
        _, out = hold_out(data, 0.5, seed)
        assert "the cat" not in {normalise(data.texts[row]) for row in out}


def test_a_taxonomy_is_calibrated_on_documents_that_are_no_labels():
    data = taxonomy(n=6000, others=6000)
    split = HoldOut().split(data, 0)
    assert (
        split is not None
        and len(split.held_out) >= 500
        and not own_documents(data)[np.isin(np.asarray(list(data.texts)), np.asarray(list(split.held_out.texts)))].any()
    )


def test_own_documents_do_not_count_where_there_are_too_few(caplog):
    with caplog.at_level("INFO", logger="treetop"):
        assert HoldOut().split(taxonomy(n=400, others=300), 0) is None
    assert "300 documents besides those that are labels are too few." in caplog.text
