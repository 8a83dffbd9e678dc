"""What `treetop predict` writes, in every form."""

import csv
import io
import json

import pytest

from treetop.cli.answers import Form, write
from treetop.data.inputs import Input

ANSWERS = [
    (
        Input("a cat", "d1", 1, kept={"nr": 7, "who": "=Ann"}),
        {
            "ids": ["c", "p"],
            "labels": ["Cat", "=pet|s"],
            "scores": [0.51234, 0.25],
            "probabilities": [0.9, None],
            "known_words": 0.6667,
        },
    ),
    (
        Input("x", None, 2, kept={"nr": [1], "who": None}),
        {"ids": [], "labels": [], "scores": [], "probabilities": [], "known_words": None, "unknown": True},
    ),
]
KEEP = ("nr", "who")


def written(file, **options):
    with file.open("w", encoding="utf-8", newline="") as target:
        write(target, ANSWERS, Form.of(file, **options))
    return file


def table(file, mark=","):
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")), delimiter=mark))


def test_json_lines(tmp_path):
    rows = [json.loads(line) for line in written(tmp_path / "a.jsonl", digits=2, keep=KEEP).read_text().splitlines()]
    assert rows[0] == {
        "id": "d1", "nr": 7, "who": "=Ann", "ids": ["c", "p"], "labels": ["Cat", "=pet|s"], "scores": [0.51, 0.25],
        "probabilities": [0.9, None],
    }  # fmt: skip
    assert rows[1]["unknown"] is True and rows[1]["nr"] == [1]


def test_a_row_for_each_suggestion(tmp_path):
    rows = [json.loads(line) for line in written(tmp_path / "a.jsonl", long=True).read_text().splitlines()]
    assert len(rows) == 2  # a text without labels has none
    assert rows[1] == {
        "row": 1, "id": "d1", "nr": 7, "who": "=Ann", "rank": 2, "label_id": "p", "label": "=pet|s", "score": 0.25,
        "probability": None,
    }  # fmt: skip


def test_tables(tmp_path):
    rows = table(written(tmp_path / "a.tsv", keep=KEEP, separator=" / "), "\t")
    assert list(rows[0]) == ["id", "nr", "who", "text", "ids", "labels", "scores", "probabilities"]
    assert rows[0]["ids"] == "c / p" and rows[0]["who"] == "'=Ann" and rows[0]["probabilities"] == "0.9"
    assert rows[1]["nr"] == "[1]" and rows[1]["who"] == rows[1]["id"] == rows[1]["ids"] == ""
    assert json.loads(table(written(tmp_path / "b.csv"))[0]["labels"]) == ["Cat", "=pet|s"]  # one has the separator


def test_a_table_for_a_spreadsheet(tmp_path):
    file = written(tmp_path / "a.csv", bom=True, delimiter=";", long=True, keep=("text",))
    assert file.read_bytes().startswith(b"\xef\xbb\xbfrow;id;text;rank;label_id;label;score;probability\r\n")
    assert table(file, ";")[1]["label"] == "'=pet|s" and table(file, ";")[1]["text"] == "a cat"


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(written(tmp_path / "a.parquet", keep=KEEP)).to_pylist()
    assert rows[0]["ids"] == ["c", "p"] and rows[0]["nr"] == "7" and rows[0]["probabilities"] == [0.9, None]
    assert rows[1]["nr"] == "[1]" and rows[1]["ids"] == [] and rows[1]["id"] is None
    rows = parquet.read_table(written(tmp_path / "b.parquet", long=True, digits=1)).to_pylist()
    assert [(row["row"], row["rank"], row["score"]) for row in rows] == [(1, 1, 0.5), (1, 2, 0.2)]


def test_the_share_of_known_words_on_request(tmp_path):
    lines = written(tmp_path / "a.jsonl", digits=2, known_words=True).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["known_words"] for row in rows] == [0.67, None]
    assert "known_words" not in json.loads(written(tmp_path / "b.jsonl").read_text().splitlines()[0])
    assert [row["known_words"] for row in table(written(tmp_path / "a.csv", known_words=True))] == ["0.6667", ""]
    assert table(written(tmp_path / "b.csv", known_words=True, long=True))[1]["known_words"] == "0.6667"
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(written(tmp_path / "a.parquet", known_words=True)).to_pylist()
    assert [row["known_words"] for row in rows] == [0.6667, None]
