"""Damaged and hostile files end in one sentence: no crash of a library, no traceback, no two labels made one."""

import gzip
import json

import numpy as np
import pytest
from scipy import sparse

from treetop.core.errors import DataError, InputError
from treetop.data.frame import from_lists
from treetop.data.inputs import read_inputs
from treetop.data.read import read, read_all
from treetop.data.validate import validate
from treetop.data.write import write

DEEP = "[" * 100_000 + "]" * 100_000


def refused(path, **options):
    with pytest.raises(InputError) as error:
        read(path, **options)
    return str(error.value).replace(str(path), "PATH")


def folder(tmp_path, **files):
    for name, content in files.items():
        file = tmp_path / name.replace("__", ".")
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


# --- Arrow and Parquet


@pytest.fixture
def arrow(tmp_path):
    pytest.importorskip("pyarrow")
    data = from_lists([f"text {i}" for i in range(20)], [["cat"]] * 20)
    write(data, tmp_path / "hf", "huggingface")
    return tmp_path / "hf" / "train" / "data-00000-of-00001.arrow"


def offsets(pyarrow, file):
    """Where the offsets of the column of texts begin in a file."""
    content = file.read_bytes()
    with pyarrow.ipc.open_stream(content) as stream:
        buffer = stream.read_next_batch().column("text").buffers()[1]
    return content, content.index(buffer.to_pybytes())


@pytest.mark.parametrize("value", [2**31 - 1, -1, -(2**31), 10**6])
def test_an_offset_of_an_arrow_file_that_leads_elsewhere_is_refused(arrow, value):
    import pyarrow

    content, start = offsets(pyarrow, arrow)
    changed = content[: start + 40] + value.to_bytes(4, "little", signed=True) + content[start + 44 :]
    arrow.write_bytes(changed)
    sentence = refused(arrow.parent.parent)
    assert "data-00000-of-00001.arrow: cannot be read as Arrow (" in sentence
    assert sentence.endswith("). Save the data set again.")


def test_text_of_an_arrow_file_that_is_not_utf8_is_refused(arrow):
    arrow.write_bytes(arrow.read_bytes().replace(b"text 7", b"text \xff"))
    assert "cannot be read as Arrow (" in refused(arrow.parent.parent)


def test_every_split_is_checked(arrow):
    """The same check stands before `read_all`, which `data stats` and `data convert` use."""
    arrow.write_bytes(arrow.read_bytes().replace(b"text 7", b"text \xff"))
    with pytest.raises(DataError, match="cannot be read as Arrow"):
        read_all(arrow.parent.parent)


def test_text_of_a_parquet_file_that_is_not_utf8_is_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"text": ["a cat", "a dog"], "labels": [["x"], ["y"]]})
    parquet.write_table(table, tmp_path / "train.parquet", compression="none", use_dictionary=False)
    broken = (tmp_path / "train.parquet").read_bytes().replace(b"a dog", b"a d\xff\xff")
    (tmp_path / "train.parquet").write_bytes(broken)
    assert "train.parquet: cannot be read as Parquet (" in refused(tmp_path)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(read_inputs(str(tmp_path / "train.parquet")))


# --- small JSON files and cells

STATES = [
    DEEP,
    '{"_data_files": 3}',
    '{"_data_files": ["x"]}',
    '{"_data_files": [{"file": "x"}]}',
    '{"_data_files": [{"filename": 3}]}',
    '{"_data_files": {"filename": "x"}}',
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state[:30])
def test_a_state_file_of_another_kind_is_refused(arrow, state):
    (arrow.parent / "state.json").write_text(state)
    assert "state.json: " in refused(arrow.parent.parent)


@pytest.mark.parametrize("info", [DEEP, '{"features": 3}', '{"features": {"labels": {"names": [1, 2]}}}'])
def test_an_info_file_of_another_kind_is_refused_or_not_used(arrow, info):
    (arrow.parent / "dataset_info.json").write_text(info)
    if "features" in info and "names" not in info:
        assert len(read(arrow.parent.parent)) == 20
    else:
        assert "dataset_info.json: " in refused(arrow.parent.parent)


@pytest.mark.parametrize(
    "names",
    [
        DEEP,
        '{"splits": 3}',
        '{"splits": [".."]}',
        '{"splits": ["a/b"]}',
        '{"splits": [3]}',
        '{"splits": ["\\ud800"]}',
        f'{{"splits": ["{"x" * 300}"]}}',
    ],
)
def test_splits_of_another_kind_are_refused(arrow, names):
    (arrow.parent.parent / "dataset_dict.json").write_text(names)
    assert "dataset_dict.json: " in refused(arrow.parent.parent)


@pytest.mark.parametrize(
    "facts",
    [DEEP, "[]", '{"propensity": ["0.5", "1"]}', '{"propensity": [1' + "0" * 400 + ", 1]}", '{"propensity": 3}',
     '{"features": [3]}', '{"features": {"given": 3000000000}}', '{"features": {"given": true}}'],
    ids=lambda facts: facts[:30],
)  # fmt: skip
def test_facts_of_another_kind_are_refused(tmp_path, facts):
    path = folder(tmp_path, train__jsonl='{"text": "a", "labels": ["x"]}\n', dataset__json=facts)
    assert refused(path).startswith("PATH/dataset.json: ")


def test_deep_json_in_a_cell_is_refused(tmp_path):
    path = folder(tmp_path, train__csv=f"text,labels\na,x\nb,{DEEP}\n")
    assert (
        refused(path) == f"PATH/train.csv:3: the cell of 'labels' starts with [ but is not a JSON list: {DEEP[:40]!r}."
    )


def test_deep_json_in_a_row_is_refused(tmp_path):
    path = folder(tmp_path, train__jsonl=f'{{"text": "a", "labels": {DEEP}}}\n')
    assert "broken JSON (it is nested too deeply)" in refused(path)


@pytest.mark.parametrize("places", ["[1.5]", '["3"]', "[true]", "[[1]]"])
def test_columns_of_features_are_whole_numbers(tmp_path, places):
    row = f'{{"text": "", "labels": ["x"], "features": {{"given": [{places}, [0.5]]}}}}\n'
    assert "field 'features' must look like" in refused(folder(tmp_path, train__jsonl=row))


# --- SKOS

RDF = """<?xml version="1.0" encoding="{}"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#">
<skos:Concept rdf:about="urn:a"><skos:prefLabel>Cat</skos:prefLabel></skos:Concept></rdf:RDF>
"""
ROW = '{"text": "a", "labels": ["urn:a"]}\n'
PREFIX = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"


@pytest.mark.parametrize("encoding", ["nope", "utf-7", "utf-32", "cp037", "idna", "rot13", "shift_jis"])
def test_an_odd_encoding_of_xml_is_refused(tmp_path, encoding):
    path = folder(tmp_path, train__jsonl=ROW, labels__rdf=RDF.format(encoding))
    assert refused(path).startswith("PATH/labels.rdf: cannot be read as RDF/XML (")


def test_a_usual_encoding_of_xml_is_read(tmp_path):
    path = folder(tmp_path, train__jsonl=ROW, labels__rdf=RDF.format("iso-8859-1"))
    assert read(path).labels.names[0] == "Cat"


@pytest.mark.parametrize("keep", [12, 40, -3])
def test_a_vocabulary_whose_gzip_data_end_early_is_refused(tmp_path, keep):
    (tmp_path / "labels.rdf.gz").write_bytes(gzip.compress(RDF.format("utf-8").encode())[:keep])
    assert refused(folder(tmp_path, train__jsonl=ROW)).startswith("PATH/labels.rdf.gz")


@pytest.mark.parametrize("text", [r"\UFFFFFFFF", r"\U00110000", r"\uD800", r"a\uDFFF\uD800"])
def test_an_escape_that_is_no_character_is_refused(tmp_path, text):
    path = folder(
        tmp_path, train__jsonl=ROW, labels__ttl=f'{PREFIX}<urn:a> a skos:Concept ; skos:prefLabel "{text}" .\n'
    )
    assert refused(path).startswith("PATH/labels.ttl: ")


def test_two_uris_of_one_id_are_refused(tmp_path):
    turtle = f"{PREFIX}<urn:x-treetop:a%62> a skos:Concept .\n<urn:x-treetop:ab> a skos:Concept .\n"
    path = folder(tmp_path, train__jsonl=ROW, labels__ttl=turtle)
    assert refused(path) == "PATH/labels.ttl: two concepts have the id 'ab'. Rename one."


def test_percent_signs_that_are_not_utf8_keep_labels_apart(tmp_path):
    turtle = f"{PREFIX}<urn:x-treetop:%FF> a skos:Concept .\n<urn:x-treetop:%FE> a skos:Concept .\n"
    data = read(folder(tmp_path, train__jsonl='{"text": "a", "labels": []}\n', labels__ttl=turtle))
    assert list(data.labels.ids) == ["urn:x-treetop:%FE", "urn:x-treetop:%FF"]


# --- npz


def pecos(tmp_path, **parts):
    """A folder of PECOS whose targets have other parts than scipy writes."""
    Y = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    made = {"format": b"csr", "shape": Y.shape, "data": Y.data, "indices": Y.indices, "indptr": Y.indptr} | parts
    np.savez(tmp_path / "Y.trn.npz", **made)
    (tmp_path / "X.trn.txt").write_text("a\nb\nc\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["<U3", "S2", "c8", "M8[D]", "m8[s]", "f16"])
def test_targets_that_are_not_numbers_are_refused(tmp_path, kind):
    sentence = refused(pecos(tmp_path, data=np.zeros(3, kind)))
    assert sentence == (
        f"PATH/Y.trn.npz: not a sparse matrix in npz form (values of type {np.dtype(kind)}, expected numbers). "
        "Copy the file again."
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"shape": np.array([3.0, 3.0])}, {"shape": np.array(["3", "3"])}, {"shape": np.array([3, 2**40])},
        {"shape": np.array([-3, 3])}, {"shape": np.array([3, 3, 3])}, {"format": b"dia"}, {"format": b""},
        {"format": b"csc", "indices": np.array([0, 1, 2**30])}, {"indices": np.array([0, 1, -1])},
    ],
    ids=str,
)  # fmt: skip
def test_parts_of_a_matrix_that_do_not_fit_are_refused(tmp_path, parts):
    assert refused(pecos(tmp_path, **parts)).startswith("PATH/Y.trn.npz: not a sparse matrix in npz form (")


# --- numbers


@pytest.mark.parametrize("number", ["1_0", "٣", "１", "1_0.5"])
def test_only_plain_digits_are_numbers(tmp_path, number):
    files = {
        "old.txt": f"1 20 9\n1 {number}:1\n",
        "labels.txt": f"1 20 20\n{number} 3:1\n",
        "values.svm": f"a 3:{number}\n",
        "cell.csv": f"text,labels,relevance\na,x,{number}\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match="not a pair of|not whole numbers|expected numbers such as"):
            read(tmp_path / name)


@pytest.mark.parametrize("header", ["٣ 4", "3 1_0", "² 3"])
def test_only_plain_digits_are_a_header(tmp_path, header):
    path = folder(tmp_path, trn_X_Y__txt=f"{header}\n0:1\n0:1\n0:1\n", trn_X__txt="a\nb\nc\n")
    assert "expected a header of 2 whole numbers" in refused(path)


def test_only_plain_digits_are_a_filter_pair(tmp_path):
    path = folder(tmp_path, trn_X_Y__txt="1 4\n0:1\n", trn_X__txt="a\n", filter_labels_train__txt="٠ 1\n")
    assert "expected 'row label', two whole numbers, got '٠ 1'." in refused(path)


# --- halves of surrogate pairs

LONE = r"\ud800", r"\udfff"


def test_ids_with_half_of_a_pair_are_refused(tmp_path):
    for name, row in {"labels": '"labels": ["{}"]', "id": '"labels": [], "id": "{}"'}.items():
        for half in LONE:
            path = folder(tmp_path, train__jsonl='{"text": "a", ' + row.format(half) + "}\n")
            what = "the label" if name == "labels" else "the id"
            sentence = f"PATH/train.jsonl:1: {what} '{half}' has half of a surrogate pair, which UTF-8 cannot hold. "
            assert refused(path) == sentence + "Fix it."


@pytest.mark.parametrize("field", ["id", "name"])
def test_labels_with_half_of_a_pair_are_refused(tmp_path, field):
    label = json.dumps({"id": "x", "name": "n"} | {field: "\udfff"})
    path = folder(tmp_path, train__jsonl='{"text": "a", "labels": []}\n', labels__jsonl=label + "\n")
    assert r"'\udfff' has half of a surrogate pair" in refused(path)


def test_texts_with_half_of_a_pair_are_told(tmp_path, caplog):
    path = folder(
        tmp_path, train__jsonl='{"text": "a\\ud800", "labels": ["x"]}\n{"text": "\\ud83d\\ude00", "labels": []}\n'
    )
    assert list(read(path).texts) == ["a\ufffd", "😀"]
    assert f"{path}/train.jsonl:1: half of a surrogate pair in a text (replaced by U+FFFD); kept." in caplog.messages
    assert "half of a surrogate pair in a text" in refused(path, strict=True)


def test_a_list_with_half_of_a_pair_as_label_is_refused():
    with pytest.raises(InputError, match="has half of a surrogate pair"):
        from_lists(["a", "b"], [["\ud800"], ["\ud801"]])


def test_predict_can_print_what_it_reads(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a\\ud800"}\n{"text": "b", "id": "\\ud800"}\n')
    texts = read_inputs(str(tmp_path / "in.jsonl"))
    assert next(texts).text == "a\ufffd"
    with pytest.raises(DataError, match=r"in.jsonl:2: the id '\\ud800' has half"):
        next(texts)


def test_sentences_can_be_printed(tmp_path):
    path = folder(tmp_path, train__jsonl='{"text": "a", "labels": "\\ud800"}\n{"\\udfff": 1, "labels": []}\n')
    report = validate(path)
    assert report.count == 2
    "".join(report.problems).encode()
