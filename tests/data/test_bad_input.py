"""Every bad input and the exact sentence a user sees; validate lists all of them."""

import gzip
import json
import logging
import re

import numpy as np
import pytest
from scipy import sparse

import treetop
from treetop.core.errors import BadRow, DataError, InputError, ResourceError
from treetop.data.inputs import read_inputs
from treetop.data.read import read
from treetop.data.validate import validate

GOOD = '{"text": "a cat", "labels": ["pet"]}\n'


def sentence(path, **options):
    with pytest.raises(InputError) as error:
        read(path, **options)
    return str(error.value).replace(str(path), "PATH")


def folder(tmp_path, **files):
    for name, content in files.items():
        file = tmp_path / name.replace("__", ".")
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


JSONL = [
    (
        '{"text": "a", "labels": ["x"\n',
        "broken JSON at column 29 (Expecting ',' delimiter). Every line must be one JSON object, such as "
        '{"text": "a cat", "labels": ["pet"]}.',
    ),
    ('["a"]\n', "not a JSON object. Every line must be {...}, one row each."),
    (
        '{"labels": ["x"], "body": "b"}\n',
        "field 'text' is missing (found: labels, body). Name it 'text', or 'title' and 'content', or name "
        "yours with --text-column.",
    ),
    (
        '{"text": "a"}\n',
        "field 'labels' is missing (found: text). Add it, or name yours with --label-column; a row without labels has "
        '"labels": [].',
    ),
    ('{"text": 5, "labels": []}\n', "field 'text' is a number, expected a string. Put the text in quotes."),
    (
        '{"text": null, "labels": []}\n',
        "field 'text' is null, expected a string. Write \"\" for an empty text.",
    ),
    (
        '{"text": "a", "labels": "x, y"}\n',
        "field 'labels' is the string 'x, y', expected a list. Write [\"x\", \"y\"].",
    ),
    (
        '{"text": "a", "labels": [null]}\n',
        'a label is NoneType None. Labels are strings (or whole numbers), such as "cat".',
    ),
    ('{"text": "a", "labels": ["x"], "targets": [0.5, 1]}\n', "2 targets for 1 labels. Give one number per label."),
    (
        '{"text": "a", "labels": ["x"], "targets": [1.5]}\n',
        "targets has 1.5. Allowed: numbers from 0 to 1; put weights into 'relevance'.",
    ),
    (
        '{"text": "a", "labels": ["x"], "targets": [NaN]}\n',
        "broken JSON (NaN is not a JSON number). Allowed: finite numbers; fix the row.",
    ),
    (
        '{"text": "a", "labels": ["x"], "relevance": [1e999]}\n',
        "relevance has inf. Allowed: finite numbers, 0 or more.",
    ),
    (
        '{"text": "a", "labels": [], "role": "cat"}\n',
        "field 'role' is 'cat'. Choose one of document, label, synthetic.",
    ),
    (
        b'{"text": "caf\xe9", "labels": []}\n',
        "byte 14 of the line (0xe9) is not UTF-8. Save the file as UTF-8, or convert it: "
        "'iconv -f cp1252 -t utf-8 train.jsonl'.",
    ),
]


@pytest.mark.parametrize(("line", "want"), JSONL)
def test_jsonl_line(tmp_path, line, want):
    line = line if isinstance(line, bytes) else line.encode()
    file = folder(tmp_path, train__jsonl=GOOD.encode() + line) / "train.jsonl"
    assert sentence(file) == f"PATH:2: {want}"


@pytest.mark.parametrize(("line", "want"), JSONL)
def test_validate_goes_on_after_it(tmp_path, line, want):
    line = line if isinstance(line, bytes) else line.encode()
    file = folder(tmp_path, train__jsonl=GOOD.encode() + line + GOOD.encode() + line) / "train.jsonl"
    report = validate(file)
    assert report.problems == [f"{file}:2: {want}", f"{file}:4: {want}"]
    assert report.count == 2 and not report.good


def test_validate_lists_up_to_a_limit_and_counts_all(tmp_path):
    file = folder(tmp_path, train__jsonl=GOOD + "x\n" * 30) / "train.jsonl"
    report = validate(file, limit=7)
    assert len(report.problems) == 7 and report.count == 30 and report.rows == {"train": 1}


def test_bom_and_crlf_are_accepted(tmp_path):
    content = b"\xef\xbb\xbf" + (GOOD * 2).replace("\n", "\r\n").encode()
    data = read(folder(tmp_path, train__jsonl=content))
    assert list(data.texts) == ["a cat", "a cat"]


def test_utf16_is_named(tmp_path):
    file = folder(tmp_path, train__jsonl=GOOD.encode("utf-16")) / "train.jsonl"
    assert sentence(file) == (
        "PATH:1: the file is UTF-16, expected UTF-8. Save the file as UTF-8, or convert it: "
        "'iconv -f utf-16 -t utf-8 train.jsonl'."
    )


def test_a_table_in_the_encoding_of_windows_says_what_to_do_in_excel(tmp_path):
    file = folder(tmp_path, a__csv="text;Schlagwörter\nKäse;cat\n".encode("cp1252")) / "a.csv"
    want = (
        "PATH:1: byte 13 of the line (0xf6) is not UTF-8. Save the file as UTF-8 (in Excel as 'CSV UTF-8'), or convert "
        "it: 'iconv -f cp1252 -t utf-8 a.csv'."
    )
    assert sentence(file) == want
    with pytest.raises(DataError) as caught:  # without its header no row can be read
        read(file, skip=treetop.Skipped())
    assert not isinstance(caught.value, BadRow) and "(0xf6) is not UTF-8" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "want"),
    [
        ("a.docx", b"PK\x03\x04\n", "this is a file of a word processor. Save it as plain text (UTF-8), HTML or PDF."),
        ("a.csv", b"PK\x03\x04\n", "this is a zip file. Unpack it; a spreadsheet needs the ending .xlsx."),
        ("a.txt", b"%PDF-1.7\n", "this is a PDF. Give it the ending .pdf."),
        ("a.csv", b"", "the file is empty, or its first line is. Write the names of the columns there."),
    ],
)
def test_files_that_are_no_text_are_named(tmp_path, name, content, want):
    (tmp_path / name).write_bytes(content)
    assert sentence(tmp_path / name) == f"PATH: {want}"
    with pytest.raises(DataError, match=re.escape(want)):  # nor are they texts to predict
        list(read_inputs(str(tmp_path / name)))


def test_ids_that_occur_again_are_told(tmp_path, caplog):
    rows = [("d1", "document"), ("d2", "document"), ("d1", "document"), ("", "document"), ("", "document")]
    rows += [("d2", "synthetic"), ("d1", "document")]
    lines = [json.dumps({"text": "a", "labels": ["x"], "id": id_, "role": role}) + "\n" for id_, role in rows]
    file = folder(tmp_path, train__jsonl="".join(lines)) / "train.jsonl"
    said = f"{file}: 2 documents have the id of an earlier one, such as 'd1'"
    assert list(read(file).ids[:3]) == ["d1", "d2", "d1"]
    assert warnings(caplog) == [f"{said}; kept. Answers cannot be matched to documents by these ids."]
    assert validate(file).notes[:1] == warnings(caplog) and validate(file).good
    assert sentence(file, strict=True) == (
        "PATH: 2 documents have the id of an earlier one, such as 'd1'. Give each document an id of its own, or read "
        "without strict."
    )
    assert not validate(file, strict=True).good


def test_rows_none_of_which_has_a_label_are_no_good_data(tmp_path, caplog):
    file = folder(tmp_path, train__csv="text,labels\na,\nb,\n", test__csv="text,labels\na,\n") / "train.csv"
    want = "no row has a label, so nothing can be trained. Fill in labels, or name the column that has them with"
    assert [doubt.startswith(f"{file}: {want} --label-column") for doubt in validate(tmp_path).doubts] == [True]


def test_a_line_of_10_mb_works(tmp_path):
    text = "word " * 2_000_000
    data = read(folder(tmp_path, train__jsonl=json.dumps({"text": text, "labels": ["x"]})))
    assert data.texts[0] == text
    data = read(folder(tmp_path / "..", train__csv=f'text,labels\n"{text}",x\n') / "train.csv")
    assert data.texts[0] == text


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_empty_text_is_kept_counted_warned(tmp_path, caplog):
    file = folder(tmp_path, train__jsonl=GOOD + '{"text": "", "labels": ["pet"]}\n' * 3) / "train.jsonl"
    assert len(read(file, strict=True)) == 4
    assert warnings(caplog) == [f"{file}:2: row with an empty text; kept (3 times)."]


def test_rows_without_labels_are_kept_counted_warned_or_refused(tmp_path, caplog):
    file = folder(tmp_path, train__jsonl=GOOD + '{"text": "b", "labels": []}\n' * 2) / "train.jsonl"
    assert read(file).Y.shape == (3, 1)
    assert warnings(caplog) == [f"{file}:2: row without labels; kept (2 times)."]
    assert sentence(file, strict=True) == "PATH:2: row without labels. Fix the row, or read without strict."


def test_repeated_labels_are_merged_counted_warned_or_refused(tmp_path, caplog):
    line = '{"text": "b", "labels": ["x", "y", "x"], "targets": [0.2, 1, 0.4]}\n'
    file = folder(tmp_path, train__jsonl=line) / "train.jsonl"
    assert read(file).Y.toarray().tolist() == [[np.float32(0.4), 1.0]]
    assert warnings(caplog) == [f"{file}:1: the same label twice in one row (merged); kept."]
    want = "PATH:1: the same label twice in one row (merged). Fix the row, or read without strict."
    assert sentence(file, strict=True) == want


def test_labels_unknown_to_train_are_kept_warned_or_refused(tmp_path, caplog):
    test = '{"text": "b", "labels": ["new"]}\n{"text": "b", "labels": ["newer", "pet"]}\n'
    path = folder(tmp_path, train__jsonl=GOOD, test__jsonl=test)
    data = read(path, "test")
    assert list(data.labels.ids) == ["pet", "new", "newer"]
    assert warnings(caplog) == [f"{path}/test.jsonl:1: label unknown to train: 'new'; kept (2 times)."]
    with pytest.raises(DataError) as error:
        read(path, "test", strict=True)
    want = f"{path}/test.jsonl:1: label unknown to train: 'new'. Fix the row, or read without strict."
    assert str(error.value) == want


def test_labels_unknown_to_the_labels_file(tmp_path, caplog):
    path = folder(tmp_path, train__jsonl=GOOD, labels__jsonl='{"id": "dog"}\n')
    data = read(path)
    assert list(data.labels.ids) == ["dog", "pet"] and data.Y.toarray().tolist() == [[0, 1]]
    assert warnings(caplog) == [f"{path}/train.jsonl:1: label unknown to the labels file: 'pet'; kept."]
    assert "label unknown to the labels file: 'pet'. Fix" in sentence(path, strict=True)


def test_truncated_and_damaged_gzip(tmp_path):
    rows = b"".join(b'{"text": "row %d", "labels": ["x"]}\n' % i for i in range(20_000))
    packed = gzip.compress(rows)
    file = folder(tmp_path, train__jsonl=packed[: len(packed) // 2]) / "train.jsonl"
    assert sentence(file).endswith(": the gzip data ends early after this line. Copy or download the file again.")
    report = validate(file)
    assert report.count == 1 and 0 < report.rows["train"] < 20_000
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 0xFF
    file.write_bytes(bytes(broken))
    assert "the gzip data is damaged after this line" in sentence(file) or "broken JSON" in sentence(file)


def test_missing_file_folder_and_name(tmp_path):
    assert sentence("wordnett") == (
        "PATH: no such file or folder, and no bundled data set of this name (metamath, wordnet). Did you mean "
        "'wordnet'? Give a folder, a file or one of these names."
    )
    assert "no such file or folder" in sentence(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="expected a path, a name or a Hugging Face Dataset, got int"):
        read(3)


def test_folder_without_train(tmp_path):
    path = folder(tmp_path, notes__md="x", rows__jsonl=GOOD)
    assert sentence(path) == (
        "PATH: no train file found (found: notes.md, rows.jsonl). Name the rows train.jsonl, train.csv or "
        "train.parquet, or use one of the layouts huggingface, lf, xc, pecos, attentionxml, fulltext of "
        "docs/formats.md."
    )
    (tmp_path / "test.jsonl").write_text(GOOD)
    assert sentence(path, split="train").endswith(
        "no split 'train' (found: test in PATH/test.jsonl). Choose one of these, or add a file for 'train'."
    )


def test_documents_without_labels_beside_them(tmp_path):
    path = folder(tmp_path, b__txt="x", a__pdf="y")
    assert sentence(path) == (
        "PATH: documents such as a.pdf, but no labels. Write those of each document into a file beside it: a.key (a "
        "name in a line) or a.tsv (<URI> TAB name)."
    )


def test_two_files_for_one_split(tmp_path):
    path = folder(tmp_path, train__jsonl=GOOD, train__csv="text,labels\na,b\n")
    assert sentence(path) == "PATH: train.csv and train.jsonl both look like 'train'. Keep one."


def test_unknown_format(tmp_path):
    assert sentence(folder(tmp_path, train__txt="hello there\n") / "train.txt").startswith(
        "PATH: unknown format; it starts with 'hello there'. Known are huggingface, lf, xc, "
    )
    assert sentence(folder(tmp_path, train__json="[1]\n") / "train.json") == (
        "PATH: this is a JSON list; expected one object per line. Convert it, for example with: jq -c '.[]'"
    )
    assert sentence(folder(tmp_path, empty__jsonl="") / "empty.jsonl") == (
        "PATH: the file is empty or cannot be unpacked. Give one with at least one row (docs/formats.md)."
    )


def test_labels_file(tmp_path):
    path = folder(tmp_path, train__jsonl=GOOD, labels__jsonl='{"id": "a"}\n{"id": "a"}\n')
    assert sentence(path) == (
        "PATH/labels.jsonl:2: label id 'a' appears twice (first in line 1). Give each label its own id."
    )
    (tmp_path / "labels.jsonl").write_text('{"name": "a"}\n')
    assert sentence(path) == "PATH/labels.jsonl:1: a label needs an 'id' that is a string (found: name). Add it."


def test_ambiguous_name(tmp_path):
    labels = '{"id": "1", "text": "pet"}\n{"id": "2", "text": "pet"}\n'
    path = folder(tmp_path, train__jsonl=GOOD, labels__jsonl=labels)
    assert sentence(path) == "PATH/train.jsonl:1: label 'pet' is the name of several labels. Use the id instead."


def test_filter_file(tmp_path):
    pairs = '{"split": "train", "row": 7, "label": "pet"}\n{"split": "train", "row": 0, "label": "cow"}\n'
    path = folder(tmp_path, train__jsonl=GOOD, filter__jsonl=pairs)
    assert validate(path).problems == [
        f"{path}/filter.jsonl:1: row 7 is out of range. Allowed: 0 to 0. Fix the row or the header.",
        f"{path}/filter.jsonl:2: filter pair names the unknown label 'cow'. Fix or drop the line.",
    ]


OLD = [
    (
        "3 4 2\n0 0:1\n",
        2,
        "the header promises 3 rows but the file ends after 1. Copy the file again, or fix the header.",
    ),
    ("1 4 2\n0 0:1\n1 1:1\n", 3, "the header promises 1 rows but more follow. Fix the header."),
    (
        "1 4 2\n2 0:1\n",
        2,
        "label 2 is out of range. Allowed: 0 to 1; ids seem to start at 1: read with one_based=True (--one-based).",
    ),
    (
        "1 4 2\n1 4:1\n",
        2,
        "feature 4 is out of range. Allowed: 0 to 3; ids seem to start at 1: read with one_based=True (--one-based).",
    ),
    ("1 4 2\n1 9:1\n", 2, "feature 9 is out of range. Allowed: 0 to 3. Fix the row or the header."),
    (
        "1 4 2\n0 1:nan\n",
        2,
        "a feature value is NaN or infinite. Allowed: finite numbers; fix or drop the row.",
    ),
    ("1 4 2\n0 1:1e99\n", 2, "a feature value is NaN or infinite. Allowed: finite numbers; fix or drop the row."),
    ("1 4 2\n0 1:x\n", 2, "'1:x' is not a pair of a whole number and a value, such as 12:0.5."),
    ("1 4 2\n0 1:2:3 3\n", 2, "'1:2:3' is not a pair of a whole number and a value, such as 12:0.5."),
    ("1 4 2\n0 1: 2\n", 2, "'1:' is not a pair of a whole number and a value, such as 12:0.5."),
    (
        "1 4 2\n0 99999999999999999999:1\n",
        2,
        "'99999999999999999999:1' is not a pair of a whole number and a value, such as 12:0.5.",
    ),
    ("1 4 2\n0, 1:1\n", 2, "labels '0,' are not whole numbers separated by commas, such as 3,17."),
]


@pytest.mark.parametrize(("content", "line", "want"), OLD)
def test_xc_old(tmp_path, content, line, want):
    file = folder(tmp_path, train__txt=content) / "train.txt"
    assert sentence(file) == f"PATH:{line}: {want}"
    assert validate(file).problems == [f"{file}:{line}: {want}"]


def test_headers_that_promise_more_than_memory(tmp_path):
    assert sentence(folder(tmp_path, a__txt="2 9 99999999999999\n0 0:1\n1 1:1\n") / "a.txt") == (
        "PATH:1: the header promises 99,999,999,999,999; at most 2,147,483,647 are read."
    )
    with pytest.raises(ResourceError, match="labels: 2,000,000,000 of them need about 800 GB of memory"):
        read(folder(tmp_path, a__txt="2 9 2000000000\n0 0:1\n1 1:1\n") / "a.txt")


def test_one_based_ids_shift_only_when_asked(tmp_path, caplog):
    file = folder(tmp_path, train__txt="2 4 2\n1 1:1 3:2\n1 2:1\n") / "train.txt"
    kept = read(file)
    assert kept.features["given"].indices.tolist() == [1, 3, 2] and kept.Y.indices.tolist() == [1, 1]
    assert warnings(caplog) == [
        f"{file}: no feature or label has the id 0: ids may start at 1; kept as they are. If they do, read with "
        "one_based=True (--one-based)."
    ]
    shifted = read(file, one_based=True)
    assert shifted.features["given"].indices.tolist() == [0, 2, 1] and shifted.Y.indices.tolist() == [0, 0]
    file.write_text("1 4 2\n0 1:1\n")
    assert sentence(file, one_based=True) == (
        "PATH:2: label 0 is out of range. Allowed: 1 to 2; ids seem to start at 0: read without one_based."
    )


def test_numbered_rows_beside_other_files(tmp_path):
    labels = '{"id": "c", "text": "cat"}\n{"id": "d"}\n'
    pairs = '{"split": "train", "row": 0, "label": "d"}\n'
    path = folder(tmp_path, train__txt="1 4 2\n0 0:1\n", labels__jsonl=labels, filter__jsonl=pairs)
    data = read(path)
    assert list(data.labels.names) == ["cat", "d"] and data.filter_pairs.tolist() == [[0, 1]]
    folder(tmp_path, labels__jsonl='{"id": "c"}\n')
    assert sentence(path) == "PATH/labels.jsonl: 1 labels, but the header promises 2."
    folder(tmp_path, test__jsonl=GOOD)
    assert sentence(path) == (
        "PATH: train.txt is xc_old, test.jsonl jsonl; one of them numbers its labels, the other does not. Convert one "
        "first."
    )


def test_xc_new(tmp_path):
    path = folder(tmp_path, trn_X_Y__txt="2 3\n0:1\n\n", trn_X_Xf__txt="3 2\n0:1\n1:1\n\n")
    assert sentence(path) == (
        "PATH/trn_X_Xf.txt:1: the header promises 3 rows, that of trn_X_Y.txt 2. They must agree."
    )
    folder(tmp_path, trn_X_Xf__txt="2 2\n0:1\n")
    assert sentence(path) == (
        "PATH/trn_X_Xf.txt:2: the header promises 2 rows but the file ends after 1. Copy the file again, or fix the "
        "header."
    )
    folder(tmp_path, trn_X_Xf__txt="rows\n")
    assert sentence(path) == "PATH/trn_X_Xf.txt:1: expected a header of 2 whole numbers 'rows columns', got 'rows'."
    folder(tmp_path, trn_X_Xf__txt="2 2\n0:1\n\n", trn_X__txt="one\n")
    assert sentence(path) == "PATH/trn_X.txt: fewer texts than the 2 rows of trn_X_Y.txt. One line per row is needed."
    folder(tmp_path, trn_X__txt="one\ntwo\n", Y__txt="a\nb\n")
    assert sentence(path) == ("PATH/Y.txt: 2 label texts for 3 labels. One line per label is needed, empty lines too.")


def test_lf(tmp_path):
    path = folder(tmp_path, trn__json='{"title": "a", "target_ind": [1]}\n')
    assert sentence(path) == "PATH: there is no lbl.json.gz, which says what the label numbers mean. Add it."
    assert sentence(path / "trn.json") == "PATH: this is one file of a lf folder. Give the folder instead."
    folder(tmp_path, lbl__json='{"uid": "x", "title": "a"}\n')
    assert "label 1 is out of range. Allowed: 0 to 0; ids seem to start at 1" in sentence(path)
    folder(tmp_path, trn__json='{"title": "a", "target_ind": ["1"]}\n')
    assert sentence(path) == (
        "PATH/trn.json:1: field 'target_ind' must be a list of whole numbers, the lines of lbl.json from 0."
    )


def test_pecos(tmp_path):
    path = folder(tmp_path, Y__trn__npz=b"PK no matrix", X__trn__txt="a\n")
    assert "PATH/Y.trn.npz: not a sparse matrix in npz form (" in sentence(path)
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_matrix(np.ones((2, 2), np.float32)))
    assert sentence(path) == ("PATH/X.trn.txt:1: fewer texts than the 2 rows of Y.trn.npz. One line per row is needed.")
    np.savez(tmp_path / "Y.trn.npz", data=np.array([{}], dtype=object))
    assert "not a sparse matrix in npz form" in sentence(path)
    bad = sparse.csr_matrix(np.ones((1, 2), np.float32))
    bad.data[1] = np.nan
    sparse.save_npz(tmp_path / "Y.trn.npz", bad)
    assert sentence(path) == "PATH/Y.trn.npz:1: relevance has nan. Allowed: finite numbers, 0 or more."
    bad.data[1], bad.indices[1] = 1, 77
    sparse.save_npz(tmp_path / "Y.trn.npz", bad)
    assert "not a sparse matrix in npz form" in sentence(path)


def test_attentionxml(tmp_path):
    path = folder(tmp_path, train_labels__txt="a b\n", train_texts__txt="one\ntwo\n")
    assert sentence(path) == (
        "PATH/train_labels.txt:1: ends before train_texts.txt. Both need one line per row; copy them again."
    )


def test_fasttext_libsvm_annif(tmp_path):
    assert sentence(folder(tmp_path, a__txt="__label__x one\n__label__ two\n") / "a.txt") == (
        "PATH:2: '__label__' without a name after it. Write __label__cat, without a blank."
    )
    assert sentence(folder(tmp_path, a__svm="x 1:2\ny 1:\n") / "a.svm") == (
        "PATH:2: '1:' is not a pair of a whole number and a value, such as 12:0.5."
    )
    many = "one\t<u:1>\n" * 9999
    assert sentence(folder(tmp_path, a__tsv=many + "two <u:2>\n") / "a.tsv") == (
        "PATH:10000: there is no TAB between text and subjects. Write text, TAB, <uri> <uri>."
    )


def test_tables(tmp_path):
    assert sentence(folder(tmp_path, a__csv="body,labels\na,b\n") / "a.csv") == (
        "PATH:1: the header needs the column 'text' (found: body, labels). "
        "Rename a column, or name yours with --text-column."
    )
    assert sentence(folder(tmp_path, a__csv="text,labels\na,b\na,b,c\n") / "a.csv") == (
        "PATH:3: 3 cells under a header of 2. Put cells with the delimiter inside into quotes."
    )
    assert sentence(folder(tmp_path, a__csv='text,labels\n"a,b\n') / "a.csv") == (
        "PATH:2: broken CSV (unexpected end of data). Put cells with quotes or line breaks into quotes, and double the "
        "quotes inside."
    )
    assert sentence(folder(tmp_path, a__csv="text,labels,targets\na,b,much\n") / "a.csv") == (
        "PATH:2: the cell of 'targets' is 'much', expected numbers such as 0.5|1."
    )
    assert sentence(folder(tmp_path, a__csv="text,text,labels\na,b,c\n") / "a.csv") == (
        "PATH:1: the header has the column 'text' twice. Rename or remove one."
    )
    assert sentence(folder(tmp_path, a__xlsx=b"PK\x03\x04 sheet") / "a.xlsx") == (
        "PATH: cannot be read as a spreadsheet (File is not a zip file). Save it again as .xlsx, or as 'CSV UTF-8'."
    )
    assert "PATH: cannot be read as Parquet (" in sentence(folder(tmp_path, a__parquet=b"PAR1 nothing") / "a.parquet")


def test_labels_split_by_something_else_are_noticed(tmp_path, caplog):
    file = folder(tmp_path, a__csv="text,labels\na,x;y\nb,z\n") / "a.csv"
    assert list(read(file).labels.ids) == ["x;y", "z"]
    assert warnings(caplog) == [
        f"{file}: no label cell has '|' but 1 of 2 have ';'. If labels are separated by it, read with separator=';' "
        "(--separator)."
    ]
    assert list(read(file, separator=";").labels.ids) == ["x", "y", "z"]


@pytest.mark.parametrize("name", ["jsonl", "csv", "fasttext", "attentionxml", "annif", "xc"])
def test_wrong_utf8_in_every_text_format(name, tmp_path):
    from treetop.data.frame import from_lists
    from treetop.data.write import write

    write(from_lists(["a caf@"], np.ones((1, 1))), tmp_path / "set", name)
    file = next(f for f in sorted((tmp_path / "set").rglob("*")) if f.is_file() and b"caf@" in f.read_bytes())
    file.write_bytes(file.read_bytes().replace(b"@", b"\xe9"))
    report = validate(tmp_path / "set")
    assert report.count == 1 and "(0xe9) is not UTF-8. Save the file as UTF-8" in report.problems[0]
    assert report.problems[0].startswith(f"{file}:{2 if name == 'csv' else 1}: byte ")


@pytest.mark.parametrize("separator", ["", None])
def test_a_separator_must_separate(tmp_path, separator):
    (tmp_path / "train.csv").write_text("text,labels\na cat,cat|pet\n")
    with pytest.raises(InputError, match=r"^separator: .* is not a separator\. Give the characters between labels"):
        read(tmp_path, separator=separator)


ROWS = "text,labels\na cat,cat\na dog,dog\n"


def read_with(folder, **files):
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, newline="")
    return read(folder)


def test_labels_and_filters_are_tables_as_rows_are(tmp_path):
    """Semicolons, long cells and short rows in labels; filter pairs as CSV."""
    long = "word " * 40_000
    labels = f"id;name;text\ncat;Cat;{long}\ndog;Dog\n"
    made = read_with(tmp_path, train_csv=ROWS, labels_csv=labels, filter_csv="split,row,label\ntest,0,cat\ntrn,1,cat\n")
    assert [*made.labels.names] == ["Cat", "Dog"] and made.labels.texts[0] == long
    assert made.filter_pairs.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train_csv": ROWS.replace("\n", "\r")}, r"train\.csv:1: lines end with CR only, as on old Macs\. Save the"),
        ({"labels_csv": "id,text\rcat,a cat\r"}, r"labels\.csv:1: lines end with CR only"),
        ({"labels_csv": "id,text\ncat,a small, tame cat\n"}, r"labels\.csv:2: 3 cells under a header of 2\. Put cells"),
        ({"labels_csv": 'id,text\ncat,"a cat\n'}, r"labels\.csv:\d: broken CSV \(unexpected end of data\)"),
        (
            {"filter_csv": "row,label\n0,cat\n"},
            r"filter\.csv:1: the header needs the columns 'split', 'row' and 'label'",
        ),
        ({"filter_csv": "split,row,label\ntrain,x,cat\n"}, r"filter\.csv:2: a filter pair needs"),
        ({"filter_csv": "split,row,label\ntset,0,cat\n"}, r"filter\.csv:2: a filter pair of the unknown split 'tset'"),
        ({"filter_csv": "split,row,label\ntrain,7,cat\n"}, r"filter\.csv:2: "),
        (
            {"filter_jsonl": "train 0 cat\n"},
            r'filter\.jsonl:1: broken JSON .* such as {"split": "test", "row": 0, "label"',
        ),
    ],
)
def test_broken_tables_beside_rows_are_told_by_line(tmp_path, files, message):
    with pytest.raises(InputError, match=message):
        read_with(tmp_path, **{"train_csv": ROWS, **files})


def test_chosen_fields_that_are_not_there(tmp_path):
    row = '{"text": "a", "title": "b", "labels": []}\n'
    file = folder(tmp_path, a__jsonl=row) / "a.jsonl"
    assert sentence(file, fields=["titel"]) == (
        "PATH:1: field 'titel' is missing (found: text, title, labels). Choose fields that rows have. "
        "Did you mean 'title'?"
    )
    assert sentence(folder(tmp_path, a__csv="text,title,labels\na,b,\n") / "a.csv", fields=["title", "body"]) == (
        "PATH:1: the header needs the column 'body' (found: text, title, labels). "
        "Rename a column, or name yours with --text-column."
    )
    for wrong in ("title", [1]):
        with pytest.raises(
            InputError, match=r"^fields: .* is not a list of names\. Give one, such as \['title', 'content'\]\.$"
        ):
            read(file, fields=wrong)
