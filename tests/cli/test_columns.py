"""Tables and records whose columns have names of their own: `--text-column`, `--label-column`."""

import csv
import json

import numpy as np
import pytest

import toy
from command import run
from treetop.core.dataset import Dataset
from treetop.core.errors import InputError

NAMES = ("--text-column", "headline", "--text-column", "body", "--label-column", "subjects")
OPTIONS = {"fields": ["headline", "body"], "label_field": "subjects"}


def records(data):
    """Records with the words of each text in two fields, and labels under another name."""
    ids = list(data.labels.ids)
    for i, text in enumerate(data.texts):
        first, _, rest = text.partition(" ")
        row = data.Y.indices[data.Y.indptr[i] : data.Y.indptr[i + 1]]
        yield {"headline": first, "body": rest, "subjects": [ids[j] for j in row], "labels": "of another table"}


@pytest.fixture
def home(tmp_path):
    for split, seed in (("train", 0), ("test", 1)):
        rows = list(records(toy.dataset(seed)))
        with (tmp_path / f"{split}.csv").open("w", newline="") as out:
            table = csv.DictWriter(out, list(rows[0]))
            table.writeheader()
            table.writerows({**row, "subjects": "|".join(row["subjects"])} for row in rows)
    return tmp_path


def same(a, b):
    return list(a.texts) == list(b.texts) and list(a.labels.ids) == list(b.labels.ids) and (a.Y != b.Y).nnz == 0


def plain(folder):
    """The same data with the usual names."""
    toy.write_rows(toy.dataset(), folder / "plain.jsonl")
    return Dataset.read(folder / "plain.jsonl")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "parquet of cells"])
def test_every_format_with_records_takes_columns_by_name(home, kind):
    rows, file = list(records(toy.dataset())), home / "train.csv"
    if kind == "jsonl":
        file = home / "a.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind != "csv":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        if kind == "parquet of cells":
            rows = [{**row, "subjects": "|".join(row["subjects"])} for row in rows]
        file = home / "a.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    assert same(Dataset.read(file, **OPTIONS), plain(home))


def test_a_user_trains_evaluates_and_predicts_without_renaming_anything(home):
    done = run("fit", "xr_linear", home, "--out", home / "m", "--set", "tfidf.min_df=1", "--no-calibrate", *NAMES)
    assert done.returncode == 0, done.stderr
    done = run("evaluate", home / "m", home, "--json", *NAMES)
    assert json.loads(done.stdout)["P@1"] > 50, done.stderr
    assert "of another table" not in run("data", "stats", home, "--json", *NAMES).stdout
    predicted = run("predict", home / "m", home / "test.csv", *NAMES[:4]).stdout.splitlines()
    toy.write_rows(toy.dataset(1), home / "plain.jsonl")
    assert predicted == run("predict", home / "m", home / "plain.jsonl").stdout.splitlines()
    piped = run("predict", home / "m", *NAMES[:4], stdin=json.dumps(next(records(toy.dataset(1)))) + "\n").stdout
    assert piped.splitlines() == predicted[:1]


def test_columns_that_are_not_there_are_named(home):
    done = run("data", "stats", home, "--label-column", "subject", "--text-column", "body")
    assert done.returncode == 2
    assert (
        "train.csv:1: the header needs the column 'subject' (found: headline, body, subjects, labels). "
        "Rename a column, or name yours with --label-column."
    ) in done.stderr
    done = run("data", "stats", home, "--label-column", "subject", "--text-column", "title")
    assert (
        "the header needs the columns 'title' and 'subject' (found: headline, body, subjects, labels). " in done.stderr
    )
    assert "Rename them, or name yours with --text-column and --label-column." in done.stderr
    done = run("data", "stats", home, "--label-column", "subjects", "--text-column", "headline,body")
    assert (
        "there is no column 'headline,body'. Name each column by itself: "
        '--text-column "headline" --text-column "body".'
    ) in done.stderr
    (home / "a.jsonl").write_text(json.dumps({"text": "a", "subjects": "cat"}) + "\n")
    done = run("data", "stats", home / "a.jsonl", "--label-column", "subjects")
    assert "a.jsonl:1: field 'subjects' is the string 'cat', expected a list. Write [\"cat\"]." in done.stderr
    with pytest.raises(InputError, match="label_field: '' is not a name"):
        Dataset.read(home / "a.jsonl", label_field="")


def test_labels_are_joined_whatever_else_is_called_labels(home):
    data = Dataset.read(home, **OPTIONS)
    assert "of another table" not in list(data.labels.ids) and np.diff(data.Y.indptr).max() >= 1
