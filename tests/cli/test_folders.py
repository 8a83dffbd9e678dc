"""One file, one document: Annif's full-text folders, and folders, pages and PDFs to predict."""

import json
import sys

import pytest

import toy
from command import run
from treetop.core.dataset import Dataset
from treetop.core.errors import DataError, MissingExtraError
from treetop.data.parse.documents import read_document

from ..fuzz.corpus import pdf

PAGE = (
    "<html><head><title>On cats</title><style>p {color: red}</style></head><body><p>My <b>old</b> c&auml;t</p>"
    "<script>var dog = '<p>dog</p>';</script><ul><li>one<li>two</ul></body></html>"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The toy data as documents with subjects: train with .tsv, test with .key; and a model of them."""
    home = tmp_path_factory.mktemp("folders")
    for split, seed in (("train", 0), ("test", 1)):
        data = toy.dataset(seed)
        (home / "data" / split).mkdir(parents=True)
        for i, text in enumerate(data.texts):
            place = home / "data" / split / f"doc-{i:03}.txt"
            place.write_text(text.replace(" ", "\n", 1))
            names = [(data.labels.ids[c], f"{data.labels.names[c]} ({c})") for c in data.Y[i].indices]
            tsv = "".join(f"<urn:l:{id_}>\t{name}\n" for id_, name in names)
            key = "".join(f"{name}\n" for _, name in names)
            place.with_suffix(".tsv" if split == "train" else ".key").write_text(tsv if split == "train" else key)
    done = run(
        "fit", "xr_linear", home / "data", "--out", home / "m", "--set", "tfidf.min_df=1", "--no-calibrate"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return home


def test_a_full_text_folder_is_a_data_set(home):
    train = Dataset.read(home / "data")
    assert len(train) == 60 and train.ids[0] == "doc-000" and "\n" in train.texts[0]
    assert train.labels.ids[0].startswith("urn:l:L") and " and " in train.labels.names[0]
    scores = json.loads(run("evaluate", home / "m", home / "data", "--json").stdout)
    assert scores["P@1"] > 50
    assert Dataset.read(home / "data" / "test").labels.names[0] == Dataset.read(home / "data" / "test").labels.ids[0]


def test_labels_beside_the_documents_are_read(tmp_path):
    (tmp_path / "a.txt").write_text("my cat")
    (tmp_path / "a.key").write_text("Cat\n\n")
    (tmp_path / "labels.csv").write_text("id,name\nc,Cat\nd,Dog\n")
    data = Dataset.read(tmp_path)
    assert list(data.labels.ids) == ["c", "d"] and data.Y.nnz == 1


def test_a_document_is_read_once_and_those_without_subjects_are_told(tmp_path, caplog):
    for name, text in {"a.txt": "plain", "a.html": PAGE, "a.key": "x\n", "b.txt": "alone"}.items():
        (tmp_path / name).write_text(text)
    assert list(Dataset.read(tmp_path).texts) == ["plain"]
    without = "documents without a .tsv or .key file beside them are left out: 1, such as b.txt."
    assert without in caplog.text
    assert run("fit", "popular", tmp_path, "--out", tmp_path / "m").stderr.count(without) == 1


def test_unreadable_documents_are_named_and_skipped_on_request(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_bytes(b"caf\xe9" if name == "b" else b"a cat")
        (tmp_path / f"{name}.key").write_text("cat\n")
    done = run("data", "stats", tmp_path)
    assert (
        done.returncode == 2
        and f"error: {tmp_path / 'b.txt'}:1: byte 4 of the line (0xe9) is not UTF-8." in done.stderr
    )
    done = run("data", "stats", tmp_path, "--json", "--skip-bad", "--skipped", tmp_path / "x.skipped.jsonl")
    assert json.loads(done.stdout)["splits"]["train"]["rows"] == 2
    assert json.loads((tmp_path / "x.skipped.jsonl").read_text())["file"] == str(tmp_path / "b.txt")
    (tmp_path / "c.txt").write_bytes(b"")
    (tmp_path / "b.txt").unlink()
    assert f"note: {tmp_path / 'c.txt'}: row with an empty text; kept." in run("data", "validate", tmp_path).stdout


def test_predict_answers_a_row_for_each_file(home, tmp_path):
    text = Dataset.read(home / "data", "test").texts[0]
    (tmp_path / "docs/inner").mkdir(parents=True)
    for name in ("b.txt", "inner/a.html", "inner/c.pdf", "notes.docx", ".hidden.txt"):
        content = pdf(text.replace("\n", " ")) if name.endswith("pdf") else f"<p>{text}</p>" if "html" in name else text
        place = tmp_path / "docs" / name
        place.write_bytes(content) if isinstance(content, bytes) else place.write_text(content)
    done = run("predict", home / "m", tmp_path / "docs")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["file"] for row in rows] == ["b.txt", "inner/a.html", "inner/c.pdf"], done.stderr
    assert rows[0]["ids"] == rows[1]["ids"] == rows[2]["ids"]
    assert "1 files that are not documents are left out (.docx)" in done.stderr
    run("predict", home / "m", tmp_path / "docs", "--out", tmp_path / "out.csv", "--long", "-k", 1)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "row,id,file,rank,label_id,label,score,probability"


def test_a_whole_file_is_one_document(home, tmp_path):
    (tmp_path / "a.txt").write_text("a cat\nand a dog\n")
    assert len(run("predict", home / "m", tmp_path / "a.txt").stdout.splitlines()) == 2
    done = run("predict", home / "m", tmp_path / "a.txt", "--whole-file")
    assert json.loads(done.stdout)["file"] == "a.txt"
    piped = run("predict", home / "m", "--whole-file", stdin="a cat\nand a dog\n")
    assert json.loads(piped.stdout)["ids"] == json.loads(done.stdout)["ids"]
    (tmp_path / "a.html").write_text(PAGE)
    assert len(run("predict", home / "m", tmp_path / "a.html").stdout.splitlines()) == 1


def test_folders_without_documents_and_columns_of_documents_are_refused(home, tmp_path):
    (tmp_path / "a.docx").write_text("x")
    done = run("predict", home / "m", tmp_path)
    assert f"{tmp_path}: no documents (.txt, .md, .html, .htm, .xhtml, .pdf) found (found: a.docx)." in done.stderr
    (tmp_path / "a.txt").write_text("x")
    done = run("predict", home / "m", tmp_path, "--keep-column", "id")
    assert "--keep-column: documents have no columns. Leave it out; the file names are kept anyway." in done.stderr


def test_pages_lose_their_markup(tmp_path):
    (tmp_path / "a.html").write_text(PAGE)
    assert read_document(tmp_path / "a.html") == "On cats\nMy old cät\none\ntwo"
    (tmp_path / "b.htm").write_bytes('<meta charset="iso-8859-1"><p>Käse</p>'.encode("latin1"))
    assert read_document(tmp_path / "b.htm") == "Käse"
    (tmp_path / "c.html").write_bytes(b"<p>K\xe4se</p>")
    with pytest.raises(DataError, match=r"c.html: is not UTF-8, as it should be. Save it as UTF-8."):
        read_document(tmp_path / "c.html")


def test_pdfs_are_read_or_refused_in_a_sentence(tmp_path, monkeypatch, caplog, capsys):
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf("a tabby cat", "my dog"))
    pytest.importorskip("pypdf")
    assert read_document(file).split() == ["a", "tabby", "cat", "my", "dog"]
    file.write_bytes(b"%PDF-1.4 nothing")
    with pytest.raises(DataError, match=r"a.pdf: cannot be read as PDF \(.*\). Save it again, or as text.") as error:
        read_document(file)
    assert "\n" not in str(error.value) and not caplog.records and not capsys.readouterr().err
    file.write_bytes(pdf(""))
    with pytest.raises(DataError, match=r"a.pdf: the PDF has no text; it may be a scan."):
        read_document(file)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[files\]'"):
        read_document(file)


def test_documents_have_the_limits_of_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("TREETOP_MAX_LINE", "1000")
    for name in ("a.txt", "a.html"):
        (tmp_path / name).write_text("a cat\n" * 500)
        with pytest.raises(DataError, match=f"{name}: more than 0.001 MB for one text, the most that is read"):
            read_document(tmp_path / name)
