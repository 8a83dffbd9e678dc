from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest

from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.card import UNSAVED, Card
from treetop.core.dataset import LABEL_TEXT, LabelSet
from treetop.core.errors import InputError
from treetop.evaluate.match import Matches, match
from treetop.evaluate.score import evaluate_model


class Descending:
    """A model that ranks its labels by column, last first."""

    def __init__(self, ids: list[str]) -> None:
        self.labels = LabelSet.of(ids)
        self.counts = np.arange(1, len(ids) + 1)
        self.n_train = 100
        self.card = UNSAVED
        self.asked: list[tuple[int, int]] = []

    calibration = fusion = None

    def probabilities(self, ranking):
        return None

    def log_remarks(self, dataset, name):
        pass

    def rank_dataset(self, dataset, k):
        self.asked.append((len(dataset), k))
        n = min(k, len(self.labels))
        return ranking_of([{len(self.labels) - 1 - i: float(n - i) for i in range(n)}] * len(dataset))


def test_labels_are_aligned_and_unknown_ones_are_misses(caplog):
    model = Descending(["l2", "l0", "l1"])
    dataset = dataset_of([{1: 1.0, 3: 1.0}, {0: 0.5}, {}], 5)
    with caplog.at_level(logging.WARNING, "treetop"):
        found = evaluate_model(model, dataset, resamples=0)
    assert "1 labels the model does not know (for example 'l3') and 1 rows without labels" in caplog.text
    assert found["P@1"] == pytest.approx(100 / 3) and found["R@3"] == pytest.approx(50)
    assert found.counts["labels_tested_unknown"] == 1
    with pytest.raises(InputError, match="does not know .* Leave out --strict to count them as misses"):
        evaluate_model(model, dataset, strict=True)


def test_unknown_labels_that_are_known_by_another_spelling_are_told(caplog):
    dataset = dataset_of([{1: 1.0, 3: 1.0}, {0: 0.5, 4: 1.0}], 5)
    dataset = dataclasses.replace(dataset, labels=LabelSet.of(["a cat", "dog", "fox", "A  Cat", "owl"]))
    evaluate_model(Descending(["a cat", "dog", "fox"]), dataset, resamples=0)
    said = (
        "1 of these labels differ from one that the model knows only in case or spaces; join them with --join-labels."
    )
    assert said in caplog.text
    caplog.clear()
    evaluate_model(Descending(["a bat", "dog", "fox"]), dataset, resamples=0)
    assert "labels the model does not know" in caplog.text and "--join-labels" not in caplog.text


def test_asks_deep_enough_to_survive_the_filter():
    ids = [f"l{i}" for i in range(30)]
    pairs = np.array([(1, label) for label in range(29, 17, -1)])  # bars the model's first twelve
    dataset = dataset_of([{5: 1.0}, {17: 1.0}], 30, filter_pairs=pairs)
    model = Descending(ids)
    found = match(model, dataset)
    assert model.asked == [(2, 22)]
    assert found.top[1].tolist() == list(range(17, 7, -1)) and found.hits[1].tolist() == [True] + [False] * 9
    assert found.n_filtered == 12


def test_filter_equals_a_ranking_without_the_pairs():
    case = random_case(12)
    found, ranking = Matches.of(*case.arguments), case.ranking
    rows, barred = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr)), {*map(tuple, case.dataset.filter_pairs)}
    kept = np.array([pair not in barred for pair in zip(rows, ranking.ids, strict=True)])
    assert not kept.all() and np.array_equal(found.top, ranking.where(kept).padded(10))


def test_only_documents_are_ranked():
    dataset = dataset_of([{0: 1.0}, {1: 1.0}, {2: 1.0}], 3)
    dataset = dataclasses.replace(dataset, roles=np.array([0, LABEL_TEXT, 0], np.uint8))
    model = Descending(["l0", "l1", "l2"])
    assert len(match(model, dataset)) == 2 and model.asked == [(2, 10)]


def test_true_labels_that_a_filter_bars_are_told(caplog):
    pairs = np.array([[0, 1], [0, 1], [1, 0], [1, 2]])
    dataset = dataset_of([{1: 1.0, 2: 1.0}, {0: 1.0}], 3, filter_pairs=pairs)
    with caplog.at_level(logging.WARNING, "treetop"):
        match(Descending(["l0", "l1", "l2"]), dataset)
    assert "2 true labels are excluded by its filter and count as misses" in caplog.text


def test_scores_on_the_training_texts_are_told(caplog):
    trained, other = dataset_of([{0: 1.0}, {1: 1.0}], 3), dataset_of([{0: 1.0}, {2: 1.0}], 3)
    model = Descending(["l0", "l1", "l2"])
    model.card = Card("stub", data={"texts": 2, "sha256": trained.fingerprint})
    with caplog.at_level(logging.WARNING, "treetop"):
        match(model, other)
        assert not caplog.messages
        match(model, trained, name="m")
    assert "these are the texts m was trained on, so scores say nothing about new ones." in caplog.text


def test_data_of_another_model_are_told(caplog):
    with caplog.at_level(logging.WARNING, "treetop"):
        match(Descending(["l0", "l1"]), dataset_of([{0: 1.0}, {2: 1.0}], 3))
        assert "no label in it is known" not in caplog.text
        match(Descending(["other"]), dataset_of([{0: 1.0}, {2: 1.0}], 3))
    assert (
        "none of its labels is known to the model. Give data that name labels by the ids it was trained on."
        in caplog.text
    )
