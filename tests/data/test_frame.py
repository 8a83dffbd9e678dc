import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.data.frame import from_frame, from_lists


def sentence(*arguments, **options):
    with pytest.raises(InputError) as error:
        from_lists(*arguments, **options)
    return str(error.value)


def label_ids(data):
    return [[data.labels.ids[column] for column in row.indices] for row in data.Y]


@pytest.mark.parametrize(
    "labels",
    [
        [["x"], ["y", "x"], []],
        (("x",), ("y", "x"), ()),
        [np.array(["x"]), {"x", "y"}, []],
        pd.Series([["x"], ["y", "x"], []]),
        iter([["x"], ["y", "x"], []]),
    ],
)
def test_lists_of_labels(labels):
    data = from_lists(["a", "b", "c"], labels)
    assert data.Y.toarray().tolist() == [[1, 0], [1, 1], [0, 0]] and list(data.labels.ids) == ["x", "y"]
    assert label_ids(data) == [["x"], ["x", "y"], []]


def test_whole_numbers_and_given_names():
    assert list(from_lists(["a"], [[3, np.int64(1)]]).labels.ids) == ["3", "1"]
    data = from_lists(["a"], [["y"]], ["x", "y"])
    assert data.Y.toarray().tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix])
def test_matrices_become_targets(kind):
    data = from_lists(Texts.of(["a", "b"]), kind([[1, 0], [0.5, 1]]), LabelSet.of(["x", "y"]))
    assert data.Y.toarray().tolist() == [[1, 0], [0.5, 1]] and list(data.labels.ids) == ["x", "y"]
    assert list(from_lists(["a"], kind([[1, 0]])).labels.ids) == ["0", "1"]


def test_the_callers_matrix_stays_as_it_is():
    Y = sparse.csr_matrix(np.array([[1.0, 0.0]]))
    data = from_lists(["a"], Y)
    data.Y.data[:] = 0
    assert Y.data.tolist() == [1.0]


def test_mistakes_are_sentences():
    assert sentence(["a", "b"], ["x", "y"]) == (
        "labels: row 0 is the string 'x', expected a list of labels. Write [['a'], ['b', 'c']]: one list per text, "
        "even for one label; a column of a table is cut by table['labels'].str.split('|')."
    )
    assert sentence(["a"], [["x"], ["y"]]) == "labels: 2 rows for 1 texts. Give one list of labels per text."
    assert sentence(["a"], [None]) == (
        "labels: row 0 is missing (None). Write an empty list [] for a text without labels."
    )
    assert sentence(["a"], [float("nan")]).startswith("labels: row 0 is missing (nan).")
    assert sentence(["a"], [["x", None]]) == (
        "labels: row 0 holds NoneType None. Labels are strings (or whole numbers); remove missing values first."
    )
    assert "holds float 2.5" in sentence(["a"], [[2.5]])
    assert sentence("a", [["x"]]) == "texts: expected a list of strings, got one string. Write [text]."
    assert sentence(["a"], "x") == "labels: expected a list of labels for each text, got str."
    assert "text 0: expected a string, got NoneType" in sentence([None], [["x"]])
    assert "text 1: expected a string, got float" in sentence(["a", float("nan")], [["x"], ["y"]])
    assert sentence(["a"], np.ones((2, 2))) == "labels: 2 rows for 1 texts. Give one row per text."
    assert sentence(["a"], np.ones((1, 2)), ["x"]) == ("label_names: 1 names for 2 columns. Give one per column.")
    assert "targets must be numbers from 0 to 1" in sentence(["a"], np.array([[np.nan]]))
    assert "labels: row 0 is int 3, expected a list of labels." in sentence(["a"], [3])


def test_frames_are_read_by_their_columns():
    frame = pd.DataFrame({"body": ["a", "b"], "tags": [["x"], ["y", "x"]]})
    assert Dataset.from_frame(frame, "body", "tags").Y.toarray().tolist() == [[1, 0], [1, 1]]
    with pytest.raises(InputError) as error:
        from_frame(frame)
    assert str(error.value) == "frame: no column 'text' (found: body, tags)."
    with pytest.raises(InputError, match=r"no column 'tag' \(found: body, tags\). Did you mean 'tags'\?"):
        from_frame(frame, "body", "tag")


def test_strings_in_a_frame_are_split_only_when_asked():
    frame = pd.DataFrame({"text": ["a", "b", "c"], "labels": ["x|y", "y | z", None]})
    with pytest.raises(InputError) as error:
        from_frame(frame)
    assert str(error.value) == (
        "frame: row 0 of column 'labels' is the string 'x|y', expected a list of labels. Give the separator, for "
        "example separator='|'."
    )
    assert label_ids(Dataset.from_frame(frame, separator="|")) == [["x", "y"], ["y", "z"], []]
