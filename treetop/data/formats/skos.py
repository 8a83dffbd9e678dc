"""Labels from a SKOS vocabulary, Turtle or RDF/XML: prefLabel is the name, definition or all names the text.

The common forms are read here, streaming and without a package; Turtle that is too clever goes to rdflib. SKOS has no
order, so labels are sorted by id.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import numpy as np

from treetop.core.dataset import ACTIVE, RETIRED, LabelSet
from treetop.core.errors import DataError, extra
from treetop.core.texts import Texts
from treetop.data.parse.concepts import (
    NAMES,
    OWL,
    RDF,
    RELATIONS,
    REPLACED,
    SKOS,
    Concepts,
    Triple,
    languages_of,
)  # fmt: skip
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.lines import head, lines, open_bytes
from treetop.data.parse.rows import Reading, shown
from treetop.data.parse.surrogates import whole

XML = "{http://www.w3.org/XML/1998/namespace}"
OWN = "urn:x-treetop:"  # prefix for ids that are not URIs
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")

WANTED = {RDF + "type", OWL + "deprecated", REPLACED, *(SKOS + kind for kind in (*NAMES, *RELATIONS))}

# Only single characters repeat possessively: Python before 3.11.5 forgets alternatives inside a possessive group.
TOKEN = re.compile(
    r"""\s+ | \#[^\n]*
    | (?P<iri><[^<>"{}|^`\x00-\x20]*>)
    | (?P<text>\"\"\"[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*\"\"\" | '''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*'''
      | "[^"\\\n]*+(?:\\.[^"\\\n]*+)*" | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*')
    | @(?P<lang>[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    | (?P<mark>\^\^|[;,.\[\]()])(?![0-9])
    | (?P<word>[^\s<>"';,\[\]()#@^]*[^\s<>"';,\[\]()#@^.])""",
    re.VERBOSE | re.DOTALL,
)


def to_uri(id_: str) -> str:
    """A label id as a URI: itself if it is one."""
    return id_ if URI.fullmatch(id_) and not id_.startswith(OWN) else OWN + quote(id_, safe="")


def from_uri(uri: str) -> str:
    """The label id behind a URI."""
    try:
        return unquote(uri[len(OWN) :], errors="strict") if uri.startswith(OWN) else uri
    except UnicodeDecodeError:
        return uri  # not one that `to_uri` made


def read_labels(file: Path, reading: Reading) -> LabelSet:
    """Labels of a .ttl (.nt) or .rdf (.xml) file."""
    return collect(_triples(file, reading), reading, file)


def read_successors(file: Path, reading: Reading) -> dict[str, str]:
    """{id of a deprecated concept: id of the one that took its place} (`dct:isReplacedBy`)."""
    found = _concepts(_triples(file, reading), reading)
    pairs = ((uri, found.successor(uri)) for uri in sorted(found.replaced))
    return {from_uri(uri): from_uri(heir) for uri, heir in pairs if heir is not None}


def _triples(file: Path, reading: Reading) -> Iterable[Triple]:
    is_xml = head(file, 4096).lstrip().startswith((b"<?xml", b"<rdf", b"<!DOCTYPE"))
    return xml_triples(file) if is_xml else turtle_triples(file, reading)


def _concepts(triples: Iterable[Triple], reading: Reading) -> Concepts:
    found, wanted = Concepts(), languages_of(reading)
    for triple in triples:
        found.add(triple, wanted)
    return found


def collect(triples: Iterable[Triple], reading: Reading, file: object) -> LabelSet:
    """Labels from the triples that speak of concepts."""
    found = _concepts(triples, reading)
    uris = sorted(found.named | found.names["prefLabel"].keys())
    if not uris:
        raise DataError("no skos:Concept found. Expected SKOS as Turtle or RDF/XML.", file=file)
    ids = Counter(map(from_uri, uris))
    if len(ids) < len(uris):
        raise DataError(f"two concepts have the id {shown(ids.most_common(1)[0][0])}. Rename one.", file=file)
    names, texts = [found.name(uri)[2] or from_uri(uri) for uri in uris], map(found.text, uris)
    status = np.array([RETIRED if uri in found.retired else ACTIVE for uri in uris], np.uint8)
    return LabelSet(
        Texts.of(ids), Texts.of(names), Texts.of(texts), status, found.thesaurus(uris, len(languages_of(reading)))
    )


def xml_triples(file: Path) -> Iterator[Triple]:
    """Triples of RDF/XML: properties of every element with rdf:about."""
    about, resource = f"{{{RDF}}}about", f"{{{RDF}}}resource"
    try:
        with open_bytes(file) as (stream, _):
            for element in _elements(stream, file):
                subject = element.get(about)
                if subject is None:
                    continue
                if element.tag != f"{{{RDF}}}Description":
                    yield subject, RDF + "type", _plain(element.tag), ""
                for child in element:
                    value = child.get(resource)
                    language = child.get(XML + "lang") or element.get(XML + "lang") or ""
                    yield subject, _plain(child.tag), (child.text or "") if value is None else value, language
                element.clear()
    except DataError:
        raise
    except (ElementTree.ParseError, EOFError, OSError, LookupError, ValueError, zlib.error) as error:
        raise DataError(f"cannot be read as RDF/XML ({error}). Fix it, or convert it to Turtle.", file=file) from None


def _elements(stream: IO[bytes], file: Path) -> Iterator[Any]:
    """Elements as they end; an overlong one is refused."""
    limits, waiting = Limits.of_environment(), 0
    parser: Any = ElementTree.XMLPullParser()
    while part := stream.read(1 << 16):
        parser.feed(part)
        waiting += len(part)
        for _, element in parser.read_events():
            waiting = 0
            yield element
        if waiting > limits.line:
            sentence = f"an element is longer than {limits.shown('line')}, the most that is read. Fix it, or "
            raise DataError(sentence + how_to_raise("line"), file=file)
    parser.close()
    yield from (element for _, element in parser.read_events())


def _plain(tag: str) -> str:
    return tag[1:].replace("}", "")


def turtle_triples(file: Path, reading: Reading) -> list[Triple]:
    """Triples of Turtle or N-Triples."""
    text = "\n".join(line for _, line in lines(file, reading.problem))
    try:
        return [triple for triple in _statements(text) if triple[1] in WANTED]
    except ValueError as error:
        return _clever_triples(text, error, file)


def _clever_triples(text: str, error: ValueError, file: Path) -> list[Triple]:
    """Triples of Turtle that `_statements` could not read, by rdflib."""
    try:
        rdflib = extra("rdflib", "data")
    except ImportError as missing:
        raise DataError(f"{error}; {missing}", file=file) from None
    try:
        graph = rdflib.Graph().parse(data=text, format="turtle")
        found = [(str(s), str(p), str(o), getattr(o, "language", None) or "") for s, p, o in graph]
        for subject, _, value, _ in found:
            whole(subject, "the URI"), whole(value, "the text")
    except Exception as broken:  # rdflib raises many kinds
        reason = " ".join(str(broken).split())[:100]
        raise DataError(f"cannot be read as Turtle ({reason}). Fix the file.", file=file) from None
    return found


def _statements(text: str) -> Iterator[Triple]:
    """Triples of `subject predicate object , object ; predicate object .`; blank nodes and lists are left to rdflib."""
    tokens = _tokens(text)
    end = ("", "")
    prefixes: dict[str, str] = {}
    subject = predicate = ""
    for kind, token in tokens:
        if kind in ("lang", "word") and token.lower() == "prefix" and not subject:
            name, iri = next(tokens, end)[1], next(tokens, end)[1]
            prefixes[name.removesuffix(":")] = iri
            if kind == "lang":
                next(tokens, end)  # the dot after @prefix
        elif kind == "mark":
            if token in "[]()":
                raise ValueError("a blank node or a list is used")
            if token == "^^":
                next(tokens, end)  # the type of a text
            subject = "" if token == "." else subject
            predicate = "" if token in ".;" else predicate
        elif not subject:
            subject = _name(kind, token, prefixes)
        elif not predicate:
            predicate = RDF + "type" if token == "a" else _name(kind, token, prefixes)
        else:
            yield subject, predicate, *_object(kind, token, prefixes)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    pending: tuple[str, str] | None = None
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at : at + 20]!r}")
        at = match.end()
        kind = match.lastgroup
        if kind is None:
            continue
        token = match[kind]
        if pending is not None:  # a text waits for its language
            yield "text", pending[1] + "\0" + (token if kind == "lang" else "")
            pending = None
            if kind == "lang":
                continue
        if kind == "text":
            long = token[:3] in ('"""', "'''")
            pending = (kind, _unescape(token[3:-3] if long else token[1:-1]))
            continue
        yield kind, token[1:-1] if kind == "iri" else token
    if pending is not None:
        raise ValueError("the file ends inside a statement")


ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 1:
            return ESCAPES.get(code, code)
        if int(code[1:], 16) > sys.maxunicode:
            raise ValueError(f"'{match[0]}' is not a character")
        return chr(int(code[1:], 16))

    return whole(re.sub(ESCAPED, plain, text), "the text") if "\\" in text else text


def _name(kind: str, token: str, prefixes: dict[str, str]) -> str:
    if kind == "iri":
        return _unescape(token)
    prefix, colon, rest = token.partition(":")
    if token.startswith("_:"):
        return token
    if kind != "word" or not colon or prefix not in prefixes:
        raise ValueError(f"'{token}' is not a known name")
    return prefixes[prefix] + re.sub(r"\\(.)", r"\1", rest)


def _object(kind: str, token: str, prefixes: dict[str, str]) -> tuple[str, str]:
    if kind == "text":
        value, _, language = token.rpartition("\0")
        return value, language
    if kind == "word" and ":" not in token:  # true, false, a number
        return token, ""
    return _name(kind, token, prefixes), ""


def turtle(labels: LabelSet, merged: Mapping[int, int] | None = None) -> Iterator[str]:
    """Lines of a Turtle file with these labels; `merged` are columns replaced by others."""
    yield f"@prefix skos: <{SKOS}> .\n@prefix owl: <{OWL}> .\n"
    more = [{}] * len(labels) if labels.thesaurus is None else labels.thesaurus.by_label(labels.ids)
    fields = zip(labels.ids, labels.names, labels.texts, labels.status, more, strict=True)
    for column, (id_, name, text, status, lists) in enumerate(fields):
        parts = [f"\n<{to_uri(id_)}> a skos:Concept"]
        if name != id_ or text or lists.get("alt"):
            parts.append(f"skos:prefLabel {_literal(name)}")
        others = lists.get("alt", [])
        if text != ", ".join([name, *others]) and (text or others):  # which is what a text is read as without one
            parts.append(f"skos:definition {_literal(text)}")
        parts += [f"skos:altLabel {_literal(other)}" for other in others]
        parts += [f"skos:{kind} <{to_uri(id_)}>" for kind in ("broader", "related") for id_ in lists.get(kind, [])]
        if status == RETIRED:
            parts.append("owl:deprecated true")
        if merged and column in merged:
            parts.append(f"<{REPLACED}> <{to_uri(labels.ids[merged[column]])}>")
        yield " ;\n  ".join(parts) + " .\n"


def _literal(text: str) -> str:
    for letter, code in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(letter, code)
    return f'"{text}"'
