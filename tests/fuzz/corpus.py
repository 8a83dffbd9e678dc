"""A small valid folder of every format that is read, as bytes: what the fuzzer starts from."""

from __future__ import annotations

import functools
import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.data.write import write

Files = dict[str, bytes]  # path inside the folder -> content

ROWS, LABELS, FEATURES = 24, 7, 12
RDF = """<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#"
  xmlns:owl="http://www.w3.org/2002/07/owl#">
 <skos:Concept rdf:about="urn:x:l0"><skos:prefLabel xml:lang="en">Cat</skos:prefLabel>
  <skos:altLabel xml:lang="en">tabby &amp; co</skos:altLabel><owl:deprecated>true</owl:deprecated></skos:Concept>
 <rdf:Description rdf:about="urn:x:l1"><rdf:type rdf:resource="http://www.w3.org/2004/02/skos/core#Concept"/>
  <skos:prefLabel>Hund \u00e4\u65e5</skos:prefLabel>
  <skos:definition>a tame \u00e4nimal</skos:definition></rdf:Description>
</rdf:RDF>
"""
TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
PREFIX l: <urn:x:>
# a comment
l:l0 a skos:Concept ; skos:prefLabel "Cat"@en , 'Katze'@de ; skos:altLabel \"\"\"a "tabby"\n cat\"\"\"@en .
<urn:x:l1> a skos:Concept ; skos:prefLabel "H\\u00fcnd \\U0001F415" ; skos:definition "tame"^^<urn:t> .
"""


def dataset(*, features: bool = True, soft: bool = True) -> Dataset:
    """Rows with texts, ids, roles, soft targets, features and filter pairs; words from several scripts."""
    rng = np.random.default_rng(7)
    words = ["tabby", "cat", "Hünd", "日本", "a,b", "dog", "tame", "12:3", "é", "🐕"]
    Y = (rng.random((ROWS, LABELS)) < 0.3).astype(np.float32)
    Y[np.arange(ROWS), np.arange(ROWS) % LABELS] = 0.5 if soft else 1
    X = sparse.csr_matrix(rng.random((ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.3), dtype=np.float32)
    return Dataset(
        Texts.of(" ".join(rng.choice(words, 6)) for _ in range(ROWS)),
        sparse.csr_matrix(Y),
        LabelSet.of([f"l{i}" for i in range(LABELS)], texts=[f"label {i}" for i in range(LABELS)]),
        ids=Texts.of(f"d{i}" for i in range(ROWS)),
        features={"given": X} if features else {},
        filter_pairs=np.array([[0, 1], [3, 2]]),
    )


def _written(format: str, **options: bool) -> Callable[[], Files]:
    def made() -> Files:
        data = dataset(**options)
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "data")
            write({"train": data, "test": data.take(np.arange(6))}, out, format, lossy=True)
            return {str(f.relative_to(out)): f.read_bytes() for f in sorted(out.rglob("*")) if f.is_file()}

    return made


def _rows_with(**files: str) -> Callable[[], Files]:
    rows = '{"text": "a tabby", "labels": ["urn:x:l0"]}\n{"text": "my dog", "labels": ["urn:x:l1"]}\n'
    return lambda: {"train.jsonl": rows.encode(), **{name.replace("__", "."): t.encode() for name, t in files.items()}}


def _annif_csv() -> Files:
    rows = 'text,subject_uris\n"a ""tabby"", cat",<urn:x:l0>\nmy dog,<urn:x:l1> <urn:x:l0>\n'
    return {"train.csv": rows.encode(), "labels.txt": b"<urn:x:l0>\tCat\n<urn:x:l1>\tDog\n"}


def _plain_parquet() -> Files:
    """Uncompressed and without a dictionary, so that changed bytes reach the values."""
    import pyarrow
    from pyarrow import parquet

    data = dataset()
    ids = list(data.labels.ids)
    rows = [{"text": t, "labels": [ids[j] for j in data.Y[i].indices], "id": f"{i}"} for i, t in enumerate(data.texts)]
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), out, compression="none", use_dictionary=False)
    return {"train.parquet": out.getvalue()}


def _sheet() -> bytes:
    import openpyxl

    book, out = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["id", "text", "labels"])
    for i, text in enumerate(dataset().texts):
        book.active.append([i, text, f"l{i % 3}|l{i % 5}"])
    book.create_sheet("more").append(["x", 1.5, True])
    book.save(out)
    return out.getvalue()


def _sheet_parts() -> Files:
    """A spreadsheet unpacked, so that changed bytes reach the cells; `packed` makes it one again."""
    with zipfile.ZipFile(io.BytesIO(_sheet())) as source:
        return {part.filename: source.read(part) for part in source.infolist()}


def packed(files: Files, name: str) -> Files:
    """One zip file of many."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for part, content in files.items():
            target.writestr(part, content)
    return {name: out.getvalue()}


HTML = b"""<!DOCTYPE html><html><head><meta charset="utf-8"><title>A cat</title><style>p {color: red}</style></head>
<body><p>my &auml; <b>tabby</b><script>if (a < b) run("</p>")</script><br/>cat &#9731; <!-- no --></body></html>"""


def pdf(*pages: str) -> bytes:
    """A small PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for i, text in enumerate(pages):
        more = f"/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 600 800] /Contents {5 + 2 * i} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R {more} >>")
        stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, starts = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        starts.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{start:010} 00000 n \n" for start in starts)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
    end += f"<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()


def _fulltext() -> Files:
    files = {
        "a.txt": b"a tabby\ncat",
        "a.tsv": b"<urn:x:l0>\tCat\n<urn:x:l1>\tPet\n",
        "b.html": HTML,
        "b.key": b"Cat\n",
    }
    return {f"train/{name}": content for name, content in files.items()} | {
        "test/c.pdf": pdf("my old dog", "two"),
        "test/c.key": b"Pet\nDog\n",
    }


def _class_labels() -> Files:
    """A Hugging Face folder of one split, whose labels are numbers with names in dataset_info.json."""
    import pyarrow

    rows = [{"text": f"text {i}", "labels": [i % 3], "score": 0.5} for i in range(ROWS)]
    table, out = pyarrow.Table.from_pylist(rows), io.BytesIO()
    with pyarrow.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    names = '{"features": {"labels": {"feature": {"names": ["a", "b", "c"], "_type": "ClassLabel"}, "_type": "List"}}}'
    state = b'{"_data_files": [{"filename": "data.arrow"}], "_split": null}'
    return {"data.arrow": out.getvalue(), "state.json": state, "dataset_info.json": names.encode()}


def _packed(format: str) -> Callable[[], Files]:
    def made() -> Files:
        data = dataset(features=False)
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "data")
            write(data, out, format, lossy=True, gzip=True)
            return {f.name: f.read_bytes() for f in sorted(out.iterdir())}

    return made


TABLES = {"labels__csv": "id,name,text,status\nurn:x:l0,Cat,a cat,\nurn:x:l1,Dog,,retired\n"}
TABLES |= {"filter__tsv": "split\trow\tlabel\ntrain\t0\turn:x:l1\n"}
CORPUS: dict[str, Callable[[], Files]] = {
    "jsonl": _written("jsonl"),
    "jsonl_gz": _packed("jsonl"),
    "csv": _written("csv"),
    "tsv": _written("tsv"),
    "parquet": _written("parquet"),
    "parquet_plain": _plain_parquet,
    "xc_old": _written("xc_old", soft=False),
    "xc": _written("xc"),
    "lf": _written("lf"),
    "attentionxml": _written("attentionxml"),
    "pecos": _written("pecos"),
    "libsvm": _written("libsvm"),
    "fasttext": _written("fasttext"),
    "annif": _written("annif"),
    "annif_csv": _annif_csv,
    "skos_turtle": _rows_with(labels__ttl=TURTLE),
    "skos_xml": _rows_with(labels__rdf=RDF),
    "label_tables": _rows_with(**TABLES),
    "xlsx": lambda: {"train.xlsx": _sheet()},
    "xlsx_parts": _sheet_parts,
    "fulltext": _fulltext,
    "huggingface": _written("huggingface"),
    "huggingface_classes": _class_labels,
    "input_lines": lambda: {"input.txt": b'a tabby cat\n\nmy dog, \xc3\xa4\n{"text": "a dog"}\n'},
    "input_stdin": lambda: {"stdin": b'a tabby cat\r\nmy dog\n{"text": "a dog", "id": 3}\n'},
    "input_jsonl": lambda: {"input.jsonl": b'{"text": "a dog", "id": "d1"}\n{"title": "a", "content": "b"}\n'},
    "input_csv": lambda: {"input.csv": b'id,text\n1,"a, dog"\n2,cat\n'},
    "input_parquet": lambda: {"input.parquet": _plain_parquet()["train.parquet"]},
    "input_xlsx": lambda: {"input.xlsx": _sheet()},
    "input_html": lambda: {"input.html": HTML},
    "input_pdf": lambda: {"input.pdf": pdf("a tabby cat", "my dog")},
}


@functools.cache
def corpus(name: str) -> Files:
    """The valid files of a format."""
    return CORPUS[name]()
