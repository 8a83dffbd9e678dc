"""Tables as people have them: bad rows, spreadsheets, other separators, labels spelt in several ways."""

import csv
import json
import zipfile
from pathlib import Path

import pytest

import toy
import treetop
from command import run
from treetop.cli.reading import DataOptions
from treetop.core.dataset import Dataset
from treetop.core.errors import DataError, InputError, MissingExtraError
from treetop.data.parse.skipped import Skipped
from treetop.data.validate import validate

FIT = ("--set", "tfidf.min_df=1", "--no-calibrate")
GOOD = 'text,labels\n"a cat",cat|pet\n"a dog",dog|pet\n'


def sheet(file, rows, title="Data", more=()):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for name, others in more:
        other = book.create_sheet(name)
        for row in others:
            other.append(row)
    book.save(file)
    return file


def skipped(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    out = tmp_path_factory.mktemp("model") / "m"
    treetop.fit("xr_linear", toy.dataset(), settings=["tfidf.min_df=1"], out=out, calibrate=False)
    return out


@pytest.fixture
def bad(tmp_path):
    """Rows of the toy data among bad ones: a number as text, a line that is not UTF-8, broken JSON."""
    toy.write_rows(toy.dataset(), tmp_path / "good.jsonl")
    lines = (tmp_path / "good.jsonl").read_bytes().splitlines(keepends=True)
    lines.insert(5, b'{"text": 3, "labels": []}\n')
    lines.insert(30, b'{"text": "caf\xe9", "labels": ["L01"]}\n')
    (tmp_path / "bad.jsonl").write_bytes(b"".join(lines) + b"{broken\n")
    return tmp_path


def test_one_bad_row_stops_and_with_skip_bad_all_are_listed(bad):
    done = run("fit", "popular", bad / "bad.jsonl", "--out", bad / "m", *FIT[2:])
    assert done.returncode == 2
    assert (
        "bad.jsonl:6: field 'text' is a number, expected a string. Put the text in quotes. --skip-bad leaves"
        in done.stderr
    )
    assert done.stderr.endswith("--skip-bad leaves out bad rows.\n")
    done = run("fit", "popular", bad / "bad.jsonl", "--out", bad / "out/m", "--skip-bad", *FIT[2:])
    listed = bad / "out/bad.jsonl.skipped.jsonl"
    assert done.returncode == 0, done.stderr
    assert f"3 bad rows or documents were left out, with reasons in {listed}" in done.stderr
    assert [entry["line"] for entry in skipped(listed)] == [6, 31, 63]
    assert skipped(listed)[0]["file"] == str(bad / "bad.jsonl")
    assert skipped(listed)[1]["reason"].startswith("byte 14 of the line (0xe9) is not UTF-8.")


def test_only_errors_of_rows_that_can_be_left_out_name_the_option(bad, model):
    said = run("predict", model, bad / "bad.jsonl").stderr
    assert "bad.jsonl:6: field 'text' is a number" in said and said.endswith("--skip-bad leaves out bad rows.\n")
    (bad / "labels.jsonl").write_text('{"id": 5.5}\n')
    (bad / "bad.jsonl").rename(bad / "train.jsonl")
    for words in (("data", "stats", bad), ("labels", "add", model, bad / "labels.jsonl")):
        said = run(*words).stderr
        assert "labels.jsonl:1: a label needs an 'id' that is a string" in said and "--skip-bad" not in said


def test_what_is_left_is_what_good_data_give(bad):
    found = Skipped()
    data = Dataset.read(bad / "bad.jsonl", skip=found)
    assert data.fingerprint == Dataset.read(bad / "good.jsonl").fingerprint and len(found) == 3


def test_bad_rows_are_collected_in_a_public_object(bad, tmp_path):
    skipped = treetop.Skipped()
    assert type(skipped) is Skipped
    Dataset.read(bad / "bad.jsonl", skip=skipped)
    skipped.save(str(tmp_path / "list.jsonl"))
    listed = [json.loads(line) for line in (tmp_path / "list.jsonl").read_text().splitlines()]
    assert [(row["file"], row["line"]) for row in listed] == [*skipped.rows]
    with pytest.raises(InputError, match=r"^skip: expected a treetop.Skipped\(\), got bool.$"):
        Dataset.read(bad / "bad.jsonl", skip=True)


def test_skip_bad_in_evaluate_data_and_predict(model, bad):
    for words in (("evaluate", model, bad / "bad.jsonl", "--json"), ("data", "stats", bad / "bad.jsonl", "--json")):
        done = run(*words, "--skip-bad", "--skipped", bad / "left.skipped.jsonl")
        assert done.returncode == 0 and f"reasons in {bad / 'left.skipped.jsonl'}" in done.stderr, done.stderr
    done = run("predict", model, bad / "bad.jsonl", "--skip-bad", "--long", "-k", 1, cwd=bad)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["row"] for answer in answers[:7]] == [1, 2, 3, 4, 5, 7, 8] and answers[-1]["row"] == 62
    assert len(skipped(bad / "bad.jsonl.skipped.jsonl")) == 3
    plain = run("predict", model, bad / "good.jsonl", "--long", "-k", 1).stdout.splitlines()
    assert [json.loads(line)["label_id"] for line in plain] == [answer["label_id"] for answer in answers]
    half = run("predict", model, bad / "bad.jsonl", "--skip-bad", "--long", "-k", 1, "--shard", "2/2", cwd=bad)
    assert half.stdout.splitlines() == done.stdout.splitlines()[30:]


def test_a_file_in_the_way_is_not_overwritten_and_skipped_needs_skip_bad(bad):
    done = run("data", "stats", bad / "bad.jsonl", "--skip-bad", "--skipped", bad / "good.jsonl")
    assert done.returncode == 2 and "good.jsonl: exists already. Choose another name" in done.stderr
    done = run("data", "stats", bad / "bad.jsonl", "--skipped", bad / "x")
    assert "--skipped: lists what --skip-bad leaves out. Add --skip-bad." in done.stderr
    done = run("data", "validate", bad / "bad.jsonl", "--skip-bad")
    assert "--skip-bad: validate lists all bad rows as it is. Leave it out." in done.stderr


def test_strict_rows_are_skipped_too(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD + "a bird,\n")
    found = Skipped()
    assert len(Dataset.read(tmp_path / "a.csv", strict=True, skip=found)) == 2
    assert [reason for reason in found.rows.values()] == ["row without labels. Fix the row, or read without strict."]


@pytest.mark.parametrize("end", ['"an open quote,cat\nx,dog\n', None])
def test_what_is_no_fault_of_a_row_still_stops(tmp_path, end):
    if end is None:  # texts and labels in two files of different length
        (tmp_path / "train_raw_texts.txt").write_text("a\nb\n")
        (tmp_path / "train_labels.txt").write_text("x\n")
    else:
        (tmp_path / "train.csv").write_text(GOOD + end)
    with pytest.raises(DataError, match="ends before|unexpected end of data"):
        Dataset.read(tmp_path, skip=Skipped())


def test_rows_that_filter_pairs_count_are_not_left_out(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": 1}\n{"text": "a", "labels": ["cat"]}\n')
    (tmp_path / "filter.jsonl").write_text('{"split": "train", "row": 0, "label": "cat"}\n')
    with pytest.raises(DataError, match=r"filter.jsonl: counts rows of .*, of which bad ones would be left out"):
        Dataset.read(tmp_path, skip=Skipped())


def test_a_spreadsheet_is_read_like_a_csv(tmp_path):
    rows = [("nr", "text", "labels"), (1, "a cat", "cat|pet"), (), (2.0, "a dog", "dog|pet"), (3, 2026, 7)]
    file = sheet(tmp_path / "a.xlsx", rows, more=[("Other", [("headline", "tags"), ("a bird", "bird;pet")])])
    data = Dataset.read(file)
    assert list(data.texts) == ["a cat", "a dog", "2026"] and list(data.labels.ids) == ["cat", "pet", "dog", "7"]
    words = ("--sheet", "Other", "--text-column", "headline", "--label-column", "tags", "--separator", ";")
    assert json.loads(run("data", "stats", file, "--json", *words).stdout)["labels"] == 2
    done = run("data", "stats", file, "--sheet", "Othr")
    assert "a.xlsx: there is no sheet 'Othr' (found: Data, Other). Choose one of these with --sheet." in done.stderr
    done = run("data", "stats", file, "--sheet", "Other")
    assert "a.xlsx:1: the header needs the columns 'text' and 'labels' (found: headline, tags)." in done.stderr
    assert "'xlsx'" in run("data", "convert", file, tmp_path / "out", "--to", "xlsx").stderr


def test_labels_may_be_a_spreadsheet_as_well(tmp_path):
    sheet(tmp_path / "labels.xlsx", [("id", "name"), ("cat", "Cats"), ("dog", "Dogs")])
    sheet(tmp_path / "train.xlsx", [("text", "labels"), ("a cat", "Cats"), ("a dog", "dog")])
    data = Dataset.read(tmp_path)
    assert list(data.labels.names) == ["Cats", "Dogs"] and data.Y.nnz == 2


def test_spreadsheets_without_the_package_name_the_extra(tmp_path, monkeypatch):
    file = sheet(tmp_path / "a.xlsx", [("text", "labels"), ("a", "b")])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[data\]'"):
        Dataset.read(file)


def repacked(file, name, change):
    """The same spreadsheet with one part changed."""
    with zipfile.ZipFile(file) as source:
        parts = {part: source.read(part) for part in source.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for part, content in parts.items():
            target.writestr(part, change(content) if part == name else content)


SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda xml: xml.replace(b"</sheetData>", b"<c/>" * 9000), "unpacks to more than 3 times its size"),
        (lambda xml: xml.replace(b"</sheetData>", b"<c>" + b"a" * 3000 + b"</c>"), "a cell is longer than 0.002 MB"),
        (lambda xml: xml.replace(b'r="2"', b'r="999999999999"'), "more than 1,048,576 rows"),
        (lambda xml: xml[:300], "cannot be read as a spreadsheet ("),
        (lambda xml: xml.replace(b'"A2"', b'"ZZZZZZZZ2"'), "'ZZZZZZZZ' is not a valid column name"),
    ],
)
def test_hostile_spreadsheets_are_refused(tmp_path, monkeypatch, change, said):
    file = sheet(tmp_path / "a.xlsx", [("text", "labels"), ("a", "b")])
    repacked(file, SHEET, change)
    for name, value in {"LINE": "20000", "EXPANSION": "3", "CELL": "2000"}.items():
        monkeypatch.setenv(f"TREETOP_MAX_{name}", value)
    with pytest.raises(DataError) as error:
        Dataset.read(file)
    assert str(error.value).startswith(f"{file}: ") and said in str(error.value)


def test_too_many_columns_and_an_old_file(tmp_path):
    file = sheet(tmp_path / "a.xlsx", [tuple(f"c{i}" for i in range(10_001))])
    with pytest.raises(DataError, match="at most 10,000 are read"):
        Dataset.read(file)
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1")
    with pytest.raises(DataError, match="an old Excel file, or one with a password"):
        Dataset.read(tmp_path / "a.xls")


def test_a_wrong_separator_is_no_good_data(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\na cat,cat;pet\na dog,dog;pet\n")
    done = run("data", "validate", tmp_path / "a.csv")
    assert done.returncode == 2 and "no label cell has '|' but 2 of 2 have ';'." in done.stdout
    assert "1 problem." in done.stdout and "good" not in done.stdout
    assert run("data", "validate", tmp_path / "a.csv", "--separator", ";").returncode == 0
    assert json.loads(run("data", "validate", tmp_path / "a.csv", "--json").stdout)["good"] is False
    (tmp_path / "b.csv").write_text('text,labels\na,"Smith, John"\nb,"Doe, Jane"\n')
    assert validate(tmp_path / "b.csv").good


def test_columns_may_be_separated_by_pipes_and_other_marks_are_told(tmp_path):
    (tmp_path / "a.csv").write_text("text|labels\na, cat|cat;pet\n")
    assert list(Dataset.read(tmp_path / "a.csv", separator=";").labels.ids) == ["cat", "pet"]
    (tmp_path / "b.csv").write_text("text:labels\na cat:pet\n")
    done = run("data", "validate", tmp_path / "b.csv")
    assert (
        "b.csv:1: the header has one column, 'text:labels'; columns are separated by a comma, a TAB, ';' or '|'. Save "
        "the file as CSV with commas."
    ) in done.stdout


def test_labels_that_differ_in_case_or_spaces_are_counted_and_joined(tmp_path):
    rows = [("a cat", ["Cat", "pet"]), ("two cats", ["cat"]), ("my cat", ["guinea  pig", "CAT"]), ("x", ["Guinea Pig"])]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t, "labels": ls}) + "\n" for t, ls in rows))
    done = run("data", "validate", tmp_path / "a.jsonl")
    assert done.returncode == 0
    assert (
        "note: "
        + str(tmp_path / "a.jsonl")
        + ": 3 labels differ from another only in case or spaces, such as 'cat' and "
        "'Cat'; join them with --join-labels."
    ) in done.stdout
    assert (
        "a: 3 labels differ from another" in run("fit", "popular", tmp_path / "a.jsonl", "--out", tmp_path / "m").stderr
    )
    assert json.loads(run("data", "stats", tmp_path / "a.jsonl", "--json").stdout)["labels_alike"] == 3
    facts = json.loads(run("data", "stats", tmp_path / "a.jsonl", "--json", "--join-labels").stdout)
    assert facts["labels"] == 3 and facts["labels_alike"] == 0
    assert list(Dataset.read(tmp_path / "a.jsonl", join_labels=True).labels.ids) == ["Cat", "pet", "guinea  pig"]


def test_labels_are_joined_to_those_of_a_labels_file_and_of_a_model(tmp_path):
    (tmp_path / "labels.jsonl").write_text('{"id": "c1", "name": "Cat"}\n{"id": "d1", "name": "dog"}\n')
    (tmp_path / "train.jsonl").write_text(
        '{"text": "a cat", "labels": ["cat "]}\n{"text": "a dog", "labels": ["D1"]}\n'
    )
    data = Dataset.read(tmp_path, join_labels=True)
    assert list(data.labels.ids) == ["c1", "d1"] and data.Y.nnz == 2
    (tmp_path / "test.csv").write_text("text,labels\nmy dog,D1\n")
    assert run("fit", "popular", tmp_path, "--out", tmp_path / "m", "--join-labels", *FIT[2:]).returncode == 0
    (tmp_path / "alone.csv").write_text("text,labels\nmy cat,C1\n")
    done = run("evaluate", tmp_path / "m", tmp_path / "alone.csv", "--json", "--join-labels")
    assert json.loads(done.stdout)["R@3"] == 100.0, done.stderr


def test_predict_writes_tables_that_can_be_joined_back(model, tmp_path):
    texts = list(toy.dataset(1).texts)[:3]
    sheet(tmp_path / "in.xlsx", [("shelf", "text"), *((f"S{i}", text) for i, text in enumerate(texts))])
    words = ("predict", model, tmp_path / "in.xlsx", "-k", 2, "--digits", 3, "--keep-column", "shelf")
    wide = [json.loads(line) for line in run(*words).stdout.splitlines()]
    assert [row["shelf"] for row in wide] == ["S0", "S1", "S2"]
    assert list(wide[0]) == ["shelf", "ids", "labels", "scores", "probabilities"]
    done = run(*words, "--out", tmp_path / "out.csv", "--bom", "--delimiter", ";", "--long")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbfrow;id;shelf;rank;label_id;")
    long = list(csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8-sig").splitlines(), delimiter=";"))
    assert [(row["shelf"], row["rank"]) for row in long[:3]] == [("S0", "1"), ("S0", "2"), ("S1", "1")]
    assert [row["label_id"] for row in long] == [id_ for row in wide for id_ in row["ids"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bom"], "--bom: is for tables. Give --out with a name that ends in .csv or .tsv."),
        (["--separator", ";", "--out", "a.jsonl"], "--separator: is for tables."),
        (["--delimiter", ";;", "--out", "a.csv"], "--delimiter: ';;' is not one character. Give one, such as ';'."),
        (["--out", "a.xlsx"], "a.xlsx: spreadsheets are not written. Write a .csv with --bom, which Excel opens."),
        (["--keep-column", "labels"], "--keep-column labels: is a column of the answer as well. Rename it in the"),
        (["--keep-column", "nr"], "in.csv:1: the header needs the column 'nr' (found: text). Rename a column,"),
        (["--whole-file"], "--whole-file: in.csv has a text in each row. Leave the option out."),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_told_before_any_work(model, tmp_path, words, said):
    (tmp_path / "in.csv").write_text("text\na cat\n")
    done = run("predict", model, "in.csv", *words, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_calibrate_blend_bench_and_explain_take_columns_by_name(tmp_path):
    data = toy.dataset()
    with (tmp_path / "train.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["body", "subjects"])
        for i, text in enumerate(data.texts):
            table.writerow([text, ";".join(data.labels.ids[c] for c in data.Y[i].indices)])
    (tmp_path / "test.csv").write_bytes((tmp_path / "train.csv").read_bytes())
    names = ("--text-column", "body", "--label-column", "subjects", "--separator", ";")
    assert run("fit", "xr_linear", tmp_path, "--out", tmp_path / "m", *FIT, *names).returncode == 0
    done = run("explain", tmp_path / "m", "--label", "L01", "--data", tmp_path, "--json", *names)
    assert json.loads(done.stdout)["texts"] > 1, done.stderr
    done = run("bench", tmp_path, "popular", "--json", *names)
    assert json.loads(done.stdout)["data"]["train"] == 60, done.stderr
    done = run("calibrate", tmp_path / "m", tmp_path, "--split", "train", *names)
    assert "say nothing about new texts" in done.stderr  # the model was trained on them, but they were read
    words = (
        "blend",
        tmp_path / "m",
        tmp_path / "m",
        "--held-out",
        tmp_path,
        "--split",
        "train",
        "--out",
        tmp_path / "b",
    )
    assert "the header needs the columns 'text' and 'labels'" in run(*words).stderr
    assert "the header" not in run(*words, *names).stderr


def test_a_row_over_several_lines_is_left_out_as_one(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'text,labels\n"caf\xe9\nand more",cat\n"two\nlines",dog\na,b,c\nbird,bird\n')
    found = Skipped()
    assert list(Dataset.read(tmp_path / "a.csv", skip=found).texts) == ["two\nlines", "bird"]
    assert [line for _, line in found.rows] == [2, 6]


def test_options_are_passed_on_as_they_were_given():
    assert DataOptions().words() == []
    options = DataOptions(text_column=["title", "body"], separator=";", skip_bad=True, skipped=Path("x"))
    assert options.words() == [
        "--separator", ";", "--text-column", "title", "--text-column", "body", "--skip-bad", "--skipped", "x",
    ]  # fmt: skip
