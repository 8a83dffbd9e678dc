"""Labels found by the beginnings of words."""

import time

import numpy as np
import pytest

import treetop
from treetop.core.dataset import LabelSet
from treetop.serve.browse import Browser
from treetop.serve.search import LabelIndex, normalised

NAMES = [
    "Apple pie",
    "pie",
    "Café au lait",
    "pineapple",
    "rock 'n' roll",
    "apple",
    "the very long name of something",
    "日本 語",
]
COUNTS = np.array([3, 1, 4, 1, 5, 9, 2, 6])


@pytest.fixture(scope="module")
def index():
    return LabelIndex.of(LabelSet.of([f"X{i}" for i in range(len(NAMES))], NAMES), COUNTS)


def found(index, query, limit=20, offset=0):
    columns, total = index.find(query, limit, offset)
    return [NAMES[column] for column in columns], total


def slow(query):
    """The same by looking at every word of every name and at every id."""
    words = normalised(query).split()
    hits = [
        column for column, name in enumerate(NAMES)
        if all(any(part.startswith(word) for part in [*normalised(name).split(), f"x{column}"]) for word in words)
    ]  # fmt: skip
    whole = " ".join(words)
    key = lambda c: (not " ".join(normalised(NAMES[c]).split()).startswith(whole), -COUNTS[c], c)  # noqa: E731
    return [NAMES[column] for column in sorted(hits, key=key)]


@pytest.mark.parametrize(
    "query",
    ["", "a", "app", "APPLE", "pie app", "pie", "cafe", "CAFÉ", "lait au", "rock n", "x3", "zzz", "very long", "日",
     "the very long name of something", "the very long name of somethings", "!!!", " "],
)  # fmt: skip
def test_finds_what_a_look_at_every_name_finds(index, query):
    assert found(index, query)[0] == slow(query)


def test_addresses_as_ids_are_found_whole_by_their_beginning_and_by_their_end():
    ids = [f"http://www.yso.fi/onto/yso/p{number}" for number in (12, 123, 1234, 5)]
    index = LabelIndex.of(LabelSet.of(ids, ["cats", "p12 and others", "p123", "www"]), np.array([1, 2, 3, 4]))
    assert index.find(ids[0], 9) == ([0, 2, 1], 3)  # the label of this id first, then by training texts
    assert index.find(ids[3], 9) == ([3], 1)
    assert index.find(ids[3].upper(), 9) == ([3], 1)
    assert index.find("http://www.yso.fi/onto", 9) == ([3, 2, 1, 0], 4)
    assert index.find("http://www.yso.fi/onto/yso/p9", 9) == ([], 0)
    assert index.find("p123", 9) == ([1, 2], 2)  # by the end of an id, although a name is the same
    assert index.find("yso.fi", 9) == ([], 0)
    assert index.find("www", 9) == ([3], 1)


def test_pages(index):
    whole, total = found(index, "p")
    assert total == len(whole) == 3
    assert found(index, "p", 2, 1) == (whole[1:3], total)
    assert found(index, "p", 2, 100) == ([], total)


def test_no_labels_and_empty_names():
    assert LabelIndex.of(LabelSet.of(["a", "b"], ["", "  "]), np.array([1, 2])).find("", 5) == ([1, 0], 2)
    assert LabelIndex.of(LabelSet.of(["a", "b"], ["", "  "]), np.array([1, 2])).find("b", 5) == ([1], 1)


@pytest.mark.slow
def test_a_million_labels_are_searched_in_a_tenth_of_a_second():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(20_000)]
    names = [" ".join(words[i] for i in row) for row in rng.integers(0, len(words), (10**6, 3))]
    ids = [f"http://www.yso.fi/onto/yso/p{i}" for i in range(10**6)]
    index = LabelIndex.of(LabelSet.of(ids, names), rng.integers(0, 1000, 10**6))
    for query in ("", "a", "abc", "a b", names[7], "http", "http://www.yso", ids[7], "p7", "a " * 250):
        started = time.perf_counter()
        index.find(query, 20)
        assert time.perf_counter() - started < 0.1, repr(query)


def test_nodes_are_named_by_the_beginnings_of_long_names():
    names = [f"{animal}: an animal that {'runs and ' * 9}sleeps" for animal in ("cat", "dog", "owl", "fox")]
    settings = {"tree": {"max_leaf": 2, "branching": 2}, "tfidf": {"min_df": 1}}
    model = treetop.fit(
        "xr_linear", ["a cat", "a dog", "an owl", "a fox"] * 5, [[n] for n in names] * 5, settings=settings
    )
    for child in Browser.of(model).children("", 0, 10)["children"]:
        assert all(len(name) <= 40 and name.endswith("…") for name in child["name"].split(", "))
    leaf = Browser.of(model).children("0-0", 0, 10)["children"][0]
    assert leaf["name"] in names
