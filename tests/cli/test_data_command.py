import json

import pytest
from typer.testing import CliRunner

from treetop.cli.data import app
from treetop.core.errors import ConfigError, InputError, WorkError

ROWS = [("a cat", ["pet", "cat"]), ("a dog", ["pet"]), ("A dog!", ["dog"]), ("", ["pet"]), ("a fish", [])]


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "set"
    path.mkdir()
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in ROWS]
    (path / "train.jsonl").write_text("\n".join(lines) + "\n")
    (path / "test.jsonl").write_text('{"text": "a cat", "labels": ["cat", "new"]}\n')
    (path / "filter.jsonl").write_text('{"split": "train", "row": 1, "label": "dog"}\n')
    return path


def test_stats_count_what_is_there(folder):
    facts = json.loads(run("stats", folder, "--json").stdout)
    train, test = facts["splits"]["train"], facts["splits"]["test"]
    assert (facts["labels"], train["rows"], test["rows"]) == (4, 5, 1)
    assert train["empty_texts"] == 1 and train["rows_without_labels"] == 1 and train["filter_pairs"] == 1
    assert train["labels_per_text"] == {"mean": 1.0, "max": 2} and train["words_per_text"]["max"] == 2
    assert test["labels_unseen_in_train"] == 1 and test["texts_also_in_train"] == 1
    assert facts["tail"] == {"0": 1, "1": 2, "2-5": 1, "6-10": 0, "11-100": 0, "over 100": 0}


def test_stats_as_a_table(folder):
    shown = run("stats", folder).stdout
    for words in ("rows without labels", "2-5", "labels unseen in train", "0.55, 1.5"):
        assert words in shown


def test_validate_good_and_bad(folder):
    good = run("validate", folder)
    assert good.exit_code == 0
    assert good.stdout.splitlines()[-1] == f"{folder}: jsonl, 5 train, 1 test rows: good."
    assert f"note: {folder}/train.jsonl:5: row without labels; kept." in good.stdout
    with (folder / "train.jsonl").open("a") as out:
        out.write('{"text": 1}\nnonsense\n')
    bad = run("validate", folder, "--limit", 1)
    assert bad.exit_code == 2
    first, *_, last = bad.stdout.splitlines()
    assert first == f"{folder}/train.jsonl:6: field 'text' is a number, expected a string. Put the text in quotes."
    assert last == f"{folder}: jsonl, 5 train, 1 test rows: 2 problems, 1 listed (--limit)."
    report = json.loads(run("validate", folder, "--json").stdout)
    assert report["count"] == 2 and len(report["problems"]) == 2 and not report["good"]


def test_validate_strict_counts_odd_rows(folder):
    report = json.loads(run("validate", folder, "--json", "--strict").stdout)
    assert report["problems"] == [
        f"{folder}/train.jsonl:5: row without labels. Fix the row, or read without strict.",
        f"{folder}/test.jsonl:1: label unknown to train: 'new'. Fix the row, or read without strict.",
    ]


def test_validate_says_what_cannot_be_opened(tmp_path):
    result = run("validate", tmp_path / "none")
    assert result.exit_code == 2 and "no such file or folder" in result.stdout
    assert result.stdout.endswith(": unknown format, no rows: 1 problem.\n")


def test_convert_keeps_or_refuses(folder, tmp_path):
    assert run("convert", folder, tmp_path / "csv", "--to", "csv").stdout == (
        f"{tmp_path / 'csv'}: csv, 5 train, 1 test rows.\n"
    )
    assert (tmp_path / "csv" / "train.csv").is_file() and (tmp_path / "csv" / "filter.jsonl").is_file()
    with pytest.raises(InputError, match="format 'fasttext' cannot hold filter pairs. Leave them out with lossy=True"):
        run("convert", folder, tmp_path / "ft", "--to", "fasttext")
    run("convert", folder, tmp_path / "ft", "--to", "fasttext", "--lossy", "--splits", "train", "--gzip")
    assert [file.name for file in (tmp_path / "ft").iterdir()] == ["train.txt.gz"]


def test_convert_refuses_what_it_cannot_write(folder, tmp_path):
    with pytest.raises(InputError, match=r"--to: unknown value 'jsnl'. Choose one of .* Did you mean 'jsonl'\?"):
        run("convert", folder, tmp_path / "out", "--to", "jsnl")
    with pytest.raises(InputError, match="--splits: unknown value 'valid'. Choose one of 'train', 'test'."):
        run("convert", folder, tmp_path / "out", "--splits", "valid")
    with pytest.raises(WorkError, match="exists already and is not empty. Choose another folder or remove it."):
        run("convert", folder, folder)


def test_split_keeps_equal_texts_on_one_side(folder, tmp_path):
    out = tmp_path / "out"
    said = run("split", folder, out, "--fraction", 0.5, "--seed", 1).stdout
    rows = {file.name: file.read_text().splitlines() for file in out.iterdir()}
    assert len(rows["train.jsonl"]) + len(rows["valid.jsonl"]) == 5 and len(rows["test.jsonl"]) == 1
    assert said == f"{out}: {len(rows['train.jsonl'])} train and {len(rows['valid.jsonl'])} valid rows.\n"
    sides = [name for name in ("train.jsonl", "valid.jsonl") for line in rows[name] if "dog" in line]
    assert len(sides) > 1 and len(set(sides)) == 1  # "a dog" and "A dog!"
    with pytest.raises(InputError, match="has a valid split already"):
        run("split", out, tmp_path / "more")
    with pytest.raises(ConfigError, match="fraction: 2.0 is out of range"):
        run("split", folder, tmp_path / "more", "--fraction", 2)
