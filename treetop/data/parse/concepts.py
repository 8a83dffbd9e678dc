"""What SKOS triples say of concepts: names in the wanted languages, relations, and which took the place of others."""

from __future__ import annotations

from dataclasses import dataclass, field

from treetop.core.language import tag_of
from treetop.core.thesaurus import Thesaurus
from treetop.data.parse.rows import Reading

SKOS, RDF = "http://www.w3.org/2004/02/skos/core#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
OWL, REPLACED = "http://www.w3.org/2002/07/owl#", "http://purl.org/dc/terms/isReplacedBy"
NAMES = ("prefLabel", "altLabel", "hiddenLabel", "definition")
RELATIONS = ("broader", "narrower", "related")
Triple = tuple[str, str, str, str]  # subject, predicate, object, language of the object


@dataclass
class Concepts:
    """What triples say of concepts, by their URIs."""

    named: set[str] = field(default_factory=set)
    retired: set[str] = field(default_factory=set)
    names: dict[str, dict[str, list[tuple[int, str, str]]]] = field(
        default_factory=lambda: {kind: {} for kind in NAMES}
    )
    relations: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {kind: {} for kind in RELATIONS})
    replaced: dict[str, str] = field(default_factory=dict)  # concept -> the one that took its place

    def add(self, triple: Triple, wanted: list[str]) -> None:
        """Texts are kept with a rank: the wanted languages first, then no language, then any."""
        subject, predicate, value, language = triple
        kind = predicate[len(SKOS) :] if predicate.startswith(SKOS) else ""
        if predicate == RDF + "type" and value == SKOS + "Concept":
            self.named.add(subject)
        elif predicate == OWL + "deprecated" and value in ("true", "1"):
            self.retired.add(subject)
        elif predicate == REPLACED:
            self.replaced.setdefault(subject, value)
        elif kind in NAMES:
            rank = _rank(language.lower(), wanted)
            self.names[kind].setdefault(subject, []).append((rank, language, value))
        elif kind in RELATIONS:
            self.relations[kind].setdefault(subject, []).append(value)

    def name(self, uri: str) -> tuple[int, str, str]:
        """(rank, language, text) of the preferred name."""
        return min(self.names["prefLabel"].get(uri, []), default=(0, "", ""))

    def others(self, uri: str, kind: str) -> list[str]:
        """Other names in the language of the preferred one."""
        language = self.name(uri)[1]
        return sorted(name for _, its, name in self.names[kind].get(uri, []) if its == language)

    def successor(self, uri: str) -> str | None:
        """The concept that took a deprecated one's place, through several if need be; None: none that is in use."""
        seen = {uri}
        while uri in self.retired and (uri := self.replaced.get(uri, "")) not in seen:
            seen.add(uri)
        known = uri in self.named or uri in self.names["prefLabel"]
        return uri if len(seen) > 1 and known and uri not in self.retired else None

    def all_names(self, uri: str, wanted: int) -> list[str]:
        """What a text may call a concept: names in the language of the preferred one, and in all `wanted` ones."""
        found = self.others(uri, "altLabel") + self.others(uri, "hiddenLabel")
        for kind in NAMES[:3]:
            found += [name for rank, _, name in self.names[kind].get(uri, []) if rank < wanted]
        return [name for name in dict.fromkeys(found) if name != self.name(uri)[2]]

    def text(self, uri: str) -> str:
        """The definition, or all names."""
        names = ", ".join([self.name(uri)[2], *self.others(uri, "altLabel")])
        return min(self.names["definition"].get(uri, []), default=(0, "", names))[2]

    def thesaurus(self, uris: list[str], wanted: int) -> Thesaurus | None:
        """Other names and relations; `narrower` is `broader` seen from the other side.

        The names of a deprecated concept are also those of the one that took its place.
        """
        columns = {uri: column for column, uri in enumerate(uris)}
        names = [(columns[uri], self.all_names(uri, wanted)) for uri in uris]
        for uri in sorted(self.replaced):
            if (heir := self.successor(uri)) is not None and self.name(uri)[2]:
                names.append((columns[heir], [self.name(uri)[2], *self.all_names(uri, wanted)]))
        broader, narrower, related = (self.relations[kind] for kind in RELATIONS)
        up = [(columns[uri], others) for uri, others in broader.items() if uri in columns]
        up += [(columns[n], [uri]) for uri, others in narrower.items() for n in others if n in columns]
        across = [(columns[uri], others) for uri, others in related.items() if uri in columns]
        return Thesaurus.of(columns, names, up, across)


def languages_of(reading: Reading) -> list[str]:
    """The wanted language tags, first ones first."""
    return [
        tag.strip().lower()
        for tag in (reading.language or tag_of(reading.text_language) or "en").split(",")
        if tag.strip()
    ]


def _rank(language: str, wanted: list[str]) -> int:
    """How much a language is wanted, 0 the most; "en" stands for "en-GB", too."""
    found = [at for at, tag in enumerate(wanted) if language == tag or language.startswith(f"{tag}-")]
    return found[0] if found else len(wanted) + bool(language)
