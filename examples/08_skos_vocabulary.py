"""Annif's form: titles with URIs of a SKOS vocabulary. Names of subjects are found in the text."""

from pathlib import Path

import treetop

folder = Path("subjects")
folder.mkdir(exist_ok=True)
(folder / "labels.ttl").write_text(
    """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix s: <http://example.org/subjects/> .
s:1 a skos:Concept ; skos:prefLabel "mining industry"@en , "kaivosteollisuus"@fi ; skos:broader s:4 .
s:2 a skos:Concept ; skos:prefLabel "waste management"@en , "jätehuolto"@fi .
s:3 a skos:Concept ; skos:prefLabel "dams"@en , "padot"@fi ; skos:altLabel "barrages"@en .
s:4 a skos:Concept ; skos:prefLabel "industry"@en , "teollisuus"@fi .
""",
    encoding="utf-8",
)
(folder / "train.tsv").write_text(
    "Tailings of the mining industry\t<http://example.org/subjects/1> <http://example.org/subjects/2>\n"
    "Safety of old dams\t<http://example.org/subjects/3>\n"
    "Waste management in towns\t<http://example.org/subjects/2>\n",
    encoding="utf-8",
)
data = treetop.Dataset.read("subjects", language="en,fi")  # names in English; Finnish ones count as other names
model = treetop.fit("lexical", data)
for text in ("Barrages in the mountains", "Suomen kaivosteollisuus"):
    best = model.explain(text, k=1)[0]
    print(f"{text}: {best.label} ({best.id}), broader: {best.vocabulary.broader}")
