"""Copies of texts with a label's name put in, and what a matcher learns of them."""

import dataclasses

import numpy as np
from scipy import sparse

import treetop
from treetop.assemble.inserted_names import with_names
from treetop.core.dataset import RETIRED, Dataset, LabelSet
from treetop.core.texts import Texts

TEXTS = Texts.of(["rain in the north", "wind and cold"])
LABELS = LabelSet.of(["a", "b", "c"], ["sea ice", "old maps", "grey wolves"])
Y = sparse.csr_matrix(np.array([[1, 0, 0], [0, 1, 0]], np.float32))


def test_a_copy_has_the_words_of_its_text_and_one_more_label():
    texts, targets = with_names(TEXTS, Y, LABELS, 30, 0)
    assert len(texts) == targets.shape[0] == 30
    for row, text in enumerate(texts):
        (base,) = [t for t, original in enumerate(TEXTS) if set(original.split()) <= set(text.split())]
        named = {c for c, name in enumerate(LABELS.names) if name in text}
        assert len(named) == 1 and set(targets[row].indices.tolist()) == named | set(Y[base].indices.tolist())
    assert targets.data.max() == 1


def test_retired_labels_are_not_put_in_and_nothing_gives_nothing():
    labels = dataclasses.replace(LABELS, status=np.array([RETIRED, RETIRED, 0], np.uint8))
    assert all("grey wolves" in text for text in with_names(TEXTS, Y, labels, 9, 0)[0])
    assert len(with_names(TEXTS, Y, LABELS, 0, 0)[0]) == len(with_names(Texts.of([]), Y[:0], LABELS, 5, 0)[0]) == 0


def test_after_two_texts_a_complete_name_comes_before_a_part_of_one():
    names = [f"{a} {b}" for a in ("sea", "old", "grey", "warm") for b in ("ice", "maps", "wolves", "rivers")]
    labels = LabelSet.of(names, names)
    wide = sparse.csr_matrix((np.ones(2, np.float32), [0, 5], [0, 1, 2]), (2, len(names)))
    model = treetop.fit("lexical", Dataset(Texts.of(["the sea ice", "some old maps"]), wide, labels), calibrate=False)
    best = model.predict("warm days near rivers with grey wolves and old stones", k=3)
    assert best[0].id == "grey wolves" and best[0].score > best[1].score
