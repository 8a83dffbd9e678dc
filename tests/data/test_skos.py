"""The own reader and rdflib agree; names come in the wanted language."""

import dataclasses

import numpy as np
import pytest
import rdflib

from treetop.core.dataset import Dataset
from treetop.core.errors import DataError
from treetop.data.formats import skos
from treetop.data.label_files import read_label_file
from treetop.data.parse.rows import Reading
from treetop.data.read import read

TURTLE = r'''
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
PREFIX y: <http://example.org/y/>
# a comment; with "marks" .
y:p1 a skos:Concept ; skos:prefLabel "cat"@en , "kissa"@fi ; skos:altLabel "puss"@en, "moggy"@en, "katti"@fi .
<http://example.org/y/p2> a skos:Concept , owl:Thing ;
  skos:prefLabel """a "long"
label"""@en, 'Hund'@de ; skos:definition "tame \"dog\" \u00e4"@en ; owl:deprecated true ; skos:broader y:p1 .
y:p3 skos:prefLabel "plain"^^xsd:string ; skos:notation 5.2 , -3 .
y:scheme a skos:ConceptScheme .
'''
WANT = {
    "http://example.org/y/p1": ("cat", "cat, moggy, puss", 0),
    "http://example.org/y/p2": ('a "long"\nlabel', 'tame "dog" ä', 1),
    "http://example.org/y/p3": ("plain", "plain", 0),
}


def table(labels):
    return dict(zip(labels.ids, zip(labels.names, labels.texts, labels.status.tolist(), strict=True), strict=True))


def test_turtle_gives_labels_in_a_language(tmp_path):
    (tmp_path / "labels.ttl").write_text(TURTLE)
    labels = skos.read_labels(tmp_path / "labels.ttl", Reading())
    assert table(labels) == WANT
    finnish = table(skos.read_labels(tmp_path / "labels.ttl", Reading(language="fi")))
    assert finnish["http://example.org/y/p1"] == ("kissa", "kissa, katti", 0)


def test_other_names_and_relations_are_kept(tmp_path):
    more = "y:p1 skos:hiddenLabel 'catt'@en ; skos:related y:p3, y:absent . y:p3 skos:narrower y:p1 .\n"
    (tmp_path / "labels.ttl").write_text(TURTLE + more)
    labels = skos.read_labels(tmp_path / "labels.ttl", Reading())
    p1, p2, p3 = labels.thesaurus.by_label(labels.ids)
    place = "http://example.org/y/"
    assert p1 == {"alt": ["catt", "moggy", "puss"], "broader": [place + "p3"], "related": [place + "p3"]}
    assert p2 == {"broader": [place + "p1"]} and p3 == {}


def test_a_label_file_gives_other_names_and_refuses_what_is_none(tmp_path):
    (tmp_path / "labels.jsonl").write_text('{"id": "a", "alt": ["b", "c"], "broader": ["z"]}\n{"id": "z"}\n')
    labels, _ = read_label_file(tmp_path / "labels.jsonl")
    assert labels.thesaurus.by_label(labels.ids) == [{"alt": ["b", "c"], "broader": ["z"]}, {}]
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "alt": [1]}\n')
    with pytest.raises(DataError, match=r"bad.jsonl:1: field 'alt' of label 'a' .* expected a list of strings"):
        read_label_file(tmp_path / "bad.jsonl")


@pytest.mark.parametrize("kind", ["turtle", "nt", "xml", "pretty-xml"])
def test_what_rdflib_writes(kind, tmp_path):
    file = tmp_path / ("labels.rdf" if "xml" in kind else "labels.ttl")
    rdflib.Graph().parse(data=TURTLE, format="turtle").serialize(file, format=kind, encoding="utf-8")
    assert table(skos.read_labels(file, Reading())) == WANT


def test_own_triples_are_those_of_rdflib():
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    theirs = {(str(s), str(p), str(o), getattr(o, "language", None) or "") for s, p, o in graph}
    assert set(skos._statements(TURTLE)) == theirs


def test_clever_turtle_goes_to_rdflib(tmp_path):
    (tmp_path / "labels.ttl").write_text(TURTLE + "y:p4 skos:prefLabel 'new' ; skos:note [ skos:x 'y' ] .\n")
    labels = skos.read_labels(tmp_path / "labels.ttl", Reading())
    assert table(labels) == WANT | {"http://example.org/y/p4": ("new", "new", 0)}


def test_broken_files_are_refused(tmp_path):
    file = tmp_path / "labels.ttl"
    file.write_text("<a> <b")
    with pytest.raises(DataError, match="cannot be read as Turtle"):
        skos.read_labels(file, Reading())
    file.write_text("<?xml version='1.0'?><rdf>")
    with pytest.raises(DataError, match=r"cannot be read as RDF/XML \(no element found"):
        skos.read_labels(file, Reading())
    file.write_text("<http://a> <http://b> <http://c> .")
    with pytest.raises(DataError, match=r"no skos:Concept found. Expected SKOS as Turtle or RDF/XML."):
        skos.read_labels(file, Reading())


def test_rows_and_labels_meet(tmp_path):
    (tmp_path / "labels.ttl").write_text(TURTLE)
    (tmp_path / "train.tsv").write_text("a text\t<http://example.org/y/p3> <http://example.org/y/p1>\n")
    data = read(tmp_path)
    assert data.Y.toarray().tolist() == [[1, 0, 1]] and data.labels.find("plain") == 2


MORE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> . @prefix y: <http://example.org/y/> .
y:new a skos:Concept ; skos:prefLabel "car"@en-GB, "auto"@fi, "bil"@sv ; skos:hiddenLabel "carr"@en-GB .
y:old a skos:Concept ; owl:deprecated true ; skos:prefLabel "motor car"@en, "moottorivaunu"@fi ;
  dct:isReplacedBy y:mid .
y:mid a skos:Concept ; owl:deprecated true ; dct:isReplacedBy y:new .
y:loop a skos:Concept ; owl:deprecated true ; skos:prefLabel "loop"@en ; dct:isReplacedBy y:loop .
y:lost a skos:Concept ; owl:deprecated true ; skos:prefLabel "lost"@en ; dct:isReplacedBy y:absent .
"""


def names_of(tmp_path, language):
    (tmp_path / "labels.ttl").write_text(MORE)
    labels = skos.read_labels(tmp_path / "labels.ttl", Reading(language=language))
    column = list(labels.ids).index("http://example.org/y/new")
    return labels.names[column], set(labels.thesaurus.by_label(labels.ids)[column]["alt"])


def test_names_in_several_languages_are_other_names_and_the_first_names_the_label(tmp_path):
    assert names_of(tmp_path, "en") == ("car", {"carr", "motor car"})
    assert names_of(tmp_path, "fi, en") == ("auto", {"car", "carr", "moottorivaunu", "motor car"})
    assert names_of(tmp_path, "sv") == ("bil", {"motor car"})


def test_names_are_in_the_language_of_the_texts_where_no_other_is_asked_for(tmp_path):
    (tmp_path / "labels.ttl").write_text(MORE)
    (tmp_path / "train.tsv").write_text("an old car\t<http://example.org/y/new>\n")

    def name(**options):
        labels = Dataset.read(tmp_path, **options).labels
        return labels.names[labels.columns["http://example.org/y/new"]]

    assert name() == "car" and name(text_language="finnish") == "auto"
    (tmp_path / "dataset.json").write_text('{"language": "sv-FI"}')
    assert name() == "bil" and name(language="en") == "car" and name(text_language="fi") == "auto"


def test_a_deprecated_concept_is_followed_to_the_one_that_took_its_place(tmp_path):
    (tmp_path / "labels.ttl").write_text(MORE)
    heirs = skos.read_successors(tmp_path / "labels.ttl", Reading())
    place = "http://example.org/y/"
    assert heirs == {place + "old": place + "new", place + "mid": place + "new"}


def test_merged_labels_are_written_as_replaced(tmp_path):
    labels = skos.LabelSet.of(["a", "b"], ["one", "two"])
    (tmp_path / "l.ttl").write_text("".join(skos.turtle(dataclasses.replace(labels, status=np.array([1, 0])), {0: 1})))
    assert skos.read_successors(tmp_path / "l.ttl", Reading()) == {"a": "b"}
    assert [each for each in skos.read_labels(tmp_path / "l.ttl", Reading()).status] == [1, 0]
