"""Forms found by the index are those found by looking at every form; labels of matches likewise."""

from itertools import pairwise

import numpy as np
import pytest

from treetop.kernels.text import matching
from treetop.kernels.text.matched_labels import WIDTH, Facts, Table, label_rows
from treetop.kernels.text.matched_labels_slow import label_rows_slow
from treetop.kernels.text.matching import CHANNELS, Index, file_forms, match
from treetop.kernels.text.matching_slow import match_slow

N_WORDS, N_FORMS, N_LABELS = 30, 120, 50


def made_index(rng, share):
    sizes = rng.integers(1, 5, N_FORMS)
    weight = rng.uniform(0.05, 6, N_WORDS).astype(np.float32)
    weight[:3] = 0.0001  # words without which a form still counts as complete
    forms = [rng.choice(N_WORDS, size, replace=False) for size in sizes]
    words = np.concatenate([form[np.argsort(-weight[form], kind="stable")] for form in forms]).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    hashes = words.astype(np.uint32) + (rng.random(len(words)) < 0.3)
    return Index(ends, words, hashes, *file_forms(ends, words, weight, share), weight)


@pytest.mark.parametrize("share", [1.0, 0.7, 0.4])
@pytest.mark.parametrize("crowd", [5, 1000])
def test_forms_of_texts_are_those_of_the_slow_twin(share, crowd, monkeypatch):
    monkeypatch.setattr(matching, "CROWD", crowd)
    rng = np.random.default_rng(int(10 * share) + crowd)
    index = made_index(rng, share)
    texts = [rng.integers(-1, N_WORDS, n).tolist() for n in (0, 1, 3, 8, 20, 200)]
    ends = np.cumsum([0, *map(len, texts)])
    words = np.concatenate([np.array(text, np.int32) for text in texts])
    pointers, forms, values = match(words, words.astype(np.uint32), ends, index, share)
    assert len(forms) > 20
    for d, text in enumerate(texts):
        want = match_slow(text, np.array(text, np.int32).astype(np.uint32).tolist(), index, share)
        a, b = pointers[d], pointers[d + 1]
        assert forms[a:b].tolist() == [form for form, _, _ in want]
        assert np.allclose(values[a:b], np.array([row for _, _, row in want]).reshape(-1, CHANNELS), atol=1e-5)


@pytest.mark.parametrize("most_relatives", [2, 0])
def test_labels_of_matches_are_those_of_the_slow_twin(most_relatives):
    rng = np.random.default_rng(3)
    sizes, relatives = rng.integers(0, 4, N_FORMS), rng.integers(0, most_relatives + 1, N_LABELS)

    def lists(counts):
        return np.concatenate([np.sort(rng.choice(N_LABELS, n, replace=False)) for n in counts]).astype(np.int32)

    table = Table(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), lists(sizes),
        rng.integers(0, 3, sizes.sum()).astype(np.uint8), rng.integers(1, 5, N_FORMS).astype(np.uint8),
        rng.uniform(0, 9, N_FORMS).astype(np.float32),
        np.concatenate([[0], np.cumsum(relatives)]).astype(np.int32), lists(relatives), np.array([1, 4, 30], np.int32),
    )  # fmt: skip
    facts = Facts(rng.random(N_LABELS).astype(np.float32), rng.random(N_LABELS).astype(np.float32))
    counts = [0, 1, 5, 40]
    ends = np.cumsum([0, *counts])
    forms = np.concatenate([np.sort(rng.choice(N_FORMS, n, replace=False)) for n in counts]).astype(np.int32)
    values = rng.choice([0.25, 0.5, 1.0], (len(forms), CHANNELS)).astype(np.float32)
    pointers, labels, rows = label_rows(ends, forms, values, table, facts)
    for d, (a, b) in enumerate(pairwise(ends)):
        want = label_rows_slow(forms[a:b].tolist(), values[a:b], table, facts)
        span = slice(pointers[d], pointers[d + 1])
        assert labels[span].tolist() == list(want) and rows.shape[1] == WIDTH
        assert np.allclose(rows[span], np.array(list(want.values())), atol=1e-5)
