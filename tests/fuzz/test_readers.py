"""Mutated files of every format end in a Dataset or a TreetopError; `readers.py` runs for longer."""

import itertools

import pytest

from .corpus import CORPUS, corpus
from .mutations import mutate
from .readers import DATASET, Random, fuzz, unmutated


@pytest.mark.parametrize("name", list(CORPUS))
def test_the_files_it_starts_from_are_good(name):
    pytest.importorskip("pyarrow")
    assert unmutated(name) == DATASET


def test_a_case_is_known_by_its_seed():
    assert mutate(corpus("jsonl"), Random("jsonl 3")) == mutate(corpus("jsonl"), Random("jsonl 3"))
    assert mutate(corpus("jsonl"), Random("jsonl 3")) != mutate(corpus("jsonl"), Random("jsonl 4"))


def test_no_reader_lets_anything_else_through():
    pytest.importorskip("pyarrow")
    tallies = fuzz(list(CORPUS), itertools.count(0), seconds=60, count=10, workers=1)
    assert {name: tally.found for name, tally in tallies.items() if tally.found} == {}
    assert all(tally.outcomes.total() > 0 for tally in tallies.values())
