"""Files as other tools write them, found by name and content, become the right Dataset."""

import gzip
import json
import logging

import numpy as np
import pytest
from scipy import sparse

from treetop.core.dataset import Dataset
from treetop.data import catalog
from treetop.data.read import read, read_all


def fill(tmp_path, files):
    for name, content in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        data = content.encode() if isinstance(content, str) else content
        file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return tmp_path


def rows(data):
    ids = list(data.labels.ids)
    return [
        (text, {ids[j]: v for j, v in zip(row.indices, row.data, strict=True)})
        for text, row in zip(data.texts, data.Y, strict=True)
    ]


ONE = [("a cat", {"pet": 1.0, "cat": 1.0}), ("a dog", {"pet": 1.0})]
FOLDERS = {
    "jsonl": {"train.jsonl": '{"text": "a cat", "labels": ["pet", "cat"]}\n\n{"text": "a dog", "labels": ["pet"]}\n'},
    "jsonl.gz": {"trn.jsonl.gz": '{"text": "a cat", "labels": ["pet", "cat"]}\n{"text": "a dog", "labels": ["pet"]}'},
    "title": {
        "train.json": '{"title": "a", "content": "cat", "labels": ["pet", "cat"]}\n'
        '{"title": "a dog", "labels": ["pet"]}\n'
    },
    "csv": {"train.csv": 'text,labels\na cat,pet|cat\na dog,"[""pet""]"\n'},
    "semicolon": {"train.csv": "id;text;labels\n1;a cat;pet|cat\n2;a dog;pet\n"},
    "tsv": {"train.tsv": "labels\ttext\npet|cat\ta cat\npet\ta dog\n"},
    "fasttext": {"train.txt": "__label__pet __label__cat a cat\n__label__pet a dog\n"},
    "fasttext late": {"train.txt": "a cat __label__pet __label__cat\n__label__pet a dog\n"},
    "annif": {"train.tsv": "a cat\t<pet> <cat>\na dog\t<pet>\n"},
    "annif csv": {"train.csv": "document_id,text,subject_uris\n1,a cat,<pet> <cat>\n2,a dog,pet\n"},
    "attentionxml": {"train_raw_texts.txt": "a/SEP/cat\na dog\n", "train_labels.txt": "pet cat\npet\n"},
    "tokens": {"train_texts.txt.gz": "a cat\na dog\n", "train_labels.txt": "pet cat\npet\n", "train.txt": "x"},
}


@pytest.mark.parametrize("name", FOLDERS)
def test_texts_with_label_strings(name, tmp_path):
    data = read(fill(tmp_path, FOLDERS[name]))
    assert rows(data) == ONE
    assert list(data.labels.ids) == ["pet", "cat"]  # order of first appearance


NUMBERED = {
    "lf": {
        "trn.json.gz": '{"uid": "d1", "title": "a", "content": "cat", "target_ind": [0, 1], "target_rel": [1.0, 1.0]}\n'
        '{"uid": "d2", "title": "a dog", "content": "", "target_ind": [0], "target_rel": [1.0]}\n',
        "lbl.json.gz": '{"uid": "p", "title": "pet"}\n{"uid": "c", "title": "cat", "content": ""}\n'
        '{"uid": "x", "title": ""}\n',
        "filter_labels_train.txt": "1 2\n",
    },
    "xc with texts": {
        "trn_X_Y.txt": "2 3\n0:1 1:1\n0:1\n",
        "trn_X.txt": "a cat\na dog\n",
        "Y.txt": "pet\ncat\n\n",
        "trn_filter_labels.txt": "1 2\n",
    },
    "raw folder": {
        "trn_X_Y.txt": "2 3\n0:1 1:1\n0:1\n",
        "raw/trn_X.txt": "a cat\na dog\n",
        "raw/Y.txt": "pet\ncat\n\n",
        "filter_labels_train.txt": "1 2",
    },
}


@pytest.mark.parametrize("name", NUMBERED)
def test_texts_with_label_numbers(name, tmp_path):
    data = read(fill(tmp_path, NUMBERED[name]))
    assert list(data.texts) == ["a cat", "a dog"]
    assert data.Y.toarray().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert list(data.labels.texts) == ["pet", "cat", ""]
    assert list(data.labels.ids) == (["p", "c", "x"] if name == "lf" else ["0", "1", "2"])
    assert data.filter_pairs.tolist() == [[1, 2]]


def test_a_pecos_folder_brings_features_and_soft_targets(tmp_path):
    fill(tmp_path, {"X.trn.txt": "a cat\na dog\n", "output-items.txt": "pet\ncat\n"})
    (tmp_path / "tfidf-attnxml").mkdir()
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_matrix(np.array([[1, 0.5], [1, 0]], np.float32)))
    sparse.save_npz(tmp_path / "tfidf-attnxml/X.trn.npz", sparse.csr_matrix(np.eye(2, 5, dtype=np.float32)))
    data = read(tmp_path)
    assert data.Y.toarray().tolist() == [[1, 0.5], [1, 0]] and data.relevance is None
    assert list(data.labels.names) == ["pet", "cat"] and data.features["given"].shape == (2, 5)


SPARSE = {
    "old": {"train.txt": "4 3 2\n0,1 0:0.5 2:1\n 1:2\n1 \n2:1\n"},
    "new": {"trn_X_Xf.txt": "4 3\n0:0.5 2:1 \n1:2\n\n2:1\n\n", "trn_X_Y.txt": "4 2\n0:1 1:1\n\n1:1\n\n\n"},
    "libsvm": {"train.svm": "0,1 0:0.5 2:1\n 1:2 # note\n1\n2:1\n"},
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_rows_keep_empty_labels_and_features(name, tmp_path):
    data = read(fill(tmp_path, SPARSE[name]))
    assert data.features["given"].toarray().tolist() == [[0.5, 0, 1], [0, 2, 0], [0, 0, 0], [0, 0, 1]]
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [0, 1], [0, 0]]
    assert list(data.texts) == [""] * 4 and list(data.labels.ids) == ["0", "1"]


def test_values_above_one_are_relevance(tmp_path):
    lf = NUMBERED["lf"] | {"trn.json.gz": '{"title": "a", "target_ind": [1, 0], "target_rel": [3, 0.5]}\n'}
    data = read(fill(tmp_path, {key: lf[key] for key in ("trn.json.gz", "lbl.json.gz")}))
    assert data.Y.toarray().tolist() == [[1, 1, 0]] and data.relevance.toarray().tolist() == [[0.5, 3, 0]]


def test_soft_targets_relevance_roles_and_ids(tmp_path):
    lines = [
        {"text": "a", "labels": ["x"]},
        {"text": "b", "labels": {"x": 0.5, "y": 1}, "id": 7, "role": "synthetic"},
        {"text": "c", "labels": ["y", "x"], "relevance": [2, 3]},
    ]
    data = read(fill(tmp_path, {"train.jsonl": "\n".join(map(json.dumps, lines))}))
    assert data.Y.toarray().tolist() == [[1, 0], [0.5, 1], [1, 1]]
    assert data.relevance.toarray().tolist() == [[1, 0], [1, 1], [3, 2]]
    assert list(data.ids) == ["", "7", ""] and data.roles.tolist() == [0, 2, 0]


def test_labels_by_name_where_one_label_has_it(tmp_path):
    labels = "id,name,text,status\n1,pet,a tame animal,\n2,cat,,retired\n"
    data = read(fill(tmp_path, FOLDERS["jsonl"] | {"labels.csv": labels}))
    assert list(data.labels.ids) == ["1", "2"] and data.labels.status.tolist() == [0, 1]
    assert list(data.labels.texts) == ["a tame animal", ""] and data.Y.toarray().tolist() == [[1, 1], [1, 0]]


def test_whole_numbers_are_label_ids(tmp_path):
    data = read(fill(tmp_path, {"train.jsonl": '{"text": "a", "labels": [12, "x", 12]}\n'}))
    assert list(data.labels.ids) == ["12", "x"]


def test_an_annif_vocabulary_names_the_labels(tmp_path):
    data = read(fill(tmp_path, FOLDERS["annif"] | {"labels.tsv": "<cat>\tCat\n<pet>\tPet\n"}))
    assert list(data.labels.ids) == ["cat", "pet"] and list(data.labels.names) == ["Cat", "Pet"]


def test_test_has_the_columns_of_train(tmp_path):
    fill(
        tmp_path,
        FOLDERS["jsonl"] | {"test.csv": "text,labels\nx,cat|new\n", "dev.jsonl": '{"text": "v", "labels": ["other"]}'},
    )
    assert list(read(tmp_path, "test").labels.ids) == ["pet", "cat", "new"]
    assert list(read(tmp_path, "validation").labels.ids) == ["pet", "cat", "other"]
    everything = read_all(tmp_path)
    assert list(everything) == ["train", "valid", "test"]
    assert {tuple(data.labels.ids) for data in everything.values()} == {("pet", "cat", "other", "new")}
    assert everything["train"].Y.shape == (2, 4)


def test_libsvm_test_is_as_wide_as_train(tmp_path):
    fill(tmp_path, {"train.svm": "a 0:1 9:1\n", "test.svm": "a 0:1\n"})
    assert read(tmp_path, "test").features["given"].shape == (1, 10)


def test_one_file_answers_every_split(tmp_path):
    file = fill(tmp_path, FOLDERS["csv"]) / "train.csv"
    assert rows(read(file, "test")) == rows(read(str(file))) == ONE
    assert list(read_all(file)) == ["train"]


def test_what_was_detected_is_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    read(fill(tmp_path, FOLDERS["fasttext"]))
    assert f"{tmp_path}: format fasttext, splits train" in caplog.messages


def test_other_files_in_the_folder_do_not_matter(tmp_path):
    data = read(fill(tmp_path, FOLDERS["jsonl"] | {"test.py": "print()", "train.log": "x", "README.md": "x"}))
    assert rows(data) == ONE


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("lf_amazontitles-131k", (0.6, 2.6)),
        ("Wiki-500K", (0.5, 0.4)),
        ("EURLex-4K", (0.55, 1.5)),
        ("mine", (0.55, 1.5)),
    ],
)
def test_propensity_constants_come_by_folder_name(name, pair, tmp_path):
    assert read(fill(tmp_path / name, FOLDERS["jsonl"])).propensity == pair


def test_dataset_json_beats_the_catalogue(tmp_path):
    fill(tmp_path / "Wiki-500K", FOLDERS["jsonl"] | {"dataset.json": '{"propensity": [0.7, 2]}'})
    assert read(tmp_path / "Wiki-500K").propensity == (0.7, 2.0)


def test_titles_sets_use_the_title_only(tmp_path):
    lf = {key: NUMBERED["lf"][key] for key in ("trn.json.gz", "lbl.json.gz")}
    assert list(read(fill(tmp_path / "LF-AmazonTitles-131K", lf)).texts) == ["a", "a dog"]
    assert list(read(fill(tmp_path / "LF-Amazon-131K", lf)).texts) == ["a cat", "a dog"]
    assert list(read(tmp_path / "LF-Amazon-131K", fields=("content", "title")).texts) == ["cat a", "a dog"]


NAMED = {
    "jsonl": '{"text": "x", "head": "a", "body": "cat", "labels": ["pet"]}\n{"text": "y", "body": "dog", "labels": []}',
    "csv": "text,head,body,labels\nx,a,cat,pet\ny,,dog,\n",
}


@pytest.mark.parametrize("kind", [*NAMED, "parquet"])
def test_chosen_fields_are_the_text_whatever_text_holds(kind, tmp_path):
    file = tmp_path / f"train.{kind}"
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        table = {"text": ["x", "y"], "head": ["a", None], "body": ["cat", "dog"], "labels": [["pet"], []]}
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(table), file)
    else:
        file.write_text(NAMED[kind])
    assert list(Dataset.read(file, fields=["head", "body"]).texts) == ["a cat", "dog"]
    assert list(Dataset.read(file, fields=("body", "text")).texts) == ["cat x", "dog y"]
    assert list(Dataset.read(file).texts) == ["x", "y"]


def test_titles_sets_with_whole_texts_keep_them(tmp_path):
    row = '{"text": "a cat", "title": "cat", "labels": ["pet"]}\n'
    assert list(read(fill(tmp_path / "LF-AmazonTitles-131K", {"train.jsonl": row})).texts) == ["a cat"]


def test_bundled_sets_are_whole():
    for name in catalog.bundled():
        catalog.check_bundled(name)
    part = Dataset.read("metamath", "test")
    assert part.Y.shape == (769, 10_386) and len(part.filter_pairs) == 214
    ids = list(part.labels.ids)
    assert all(part.ids[row] == ids[column] for row, column in part.filter_pairs)  # a theorem is its own label


def test_bundled_wordnet_has_its_known_shape():
    train = Dataset.read("wordnet")
    counts = np.bincount(train.Y.indices, minlength=train.n_labels)
    assert train.Y.shape == (78_673, 18_815) and (counts <= 5).sum() == 12_653 and counts.min() == 1


class FakeDataset:
    """Has what treetop looks at in a `datasets.Dataset`."""

    class features(dict):
        pass

    def __init__(self, rows, names=None):
        sequence = type("Sequence", (), {"feature": type("ClassLabel", (), {"names": names})})
        self.rows, self.features = rows, {"text": None, "labels": sequence}
        self.column_names = ["text", "labels"]

    def __iter__(self):
        return iter(self.rows)


def test_hugging_face_objects():
    hard = FakeDataset([{"text": "a cat", "labels": [1, 0]}, {"text": "a dog", "labels": [1]}], ["cat", "pet"])
    assert rows(read(hard)) == ONE
    both = read({"train": hard, "validation": FakeDataset([{"text": "v", "labels": ["pet"]}])}, "valid")
    assert rows(both) == [("v", {"pet": 1.0})] and both.n_labels == 2


def test_the_folder_one_stands_in_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/train.jsonl").write_text('{"text": "a cat", "labels": ["cat"]}\n')
    monkeypatch.chdir(tmp_path / "mine")
    assert Dataset.read(".").name == Dataset.read("../mine").name == "mine"
