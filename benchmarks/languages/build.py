"""Data sets in many languages with the same labels, from unpacked Debian packages.

    apt-get download libreoffice-help-ja && dpkg -x libreoffice-help-ja_*.deb DEBS
    python benchmarks/languages/build.py DEBS OUT

help-XX: the first lines of each page of LibreOffice's help in language XX -> the page's entries in the English index.
pages400-XX, ...: the same with more characters of a page (--longer 400 800 3000), in languages with spaces.
names-XX: the name of each symbol in language XX -> its English keywords (unicode-cldr-core).
A language has the same documents and labels as any other, so that figures differ by what is made of the texts alone.
DEBS needs libreoffice-help-en-us and unicode-cldr-core. Nothing of the data is in this repository.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

HELP = "usr/share/libreoffice/help"
CLDR = "usr/share/unicode/cldr/common/annotations"
LEAST = 3  # documents of a label
SHORT = 200  # characters of a help page, about two sentences
NAMES = ("ar", "en", "fi", "hi", "ja", "km", "ko", "lo", "my", "ru", "th", "tr", "yue", "zh", "zh_Hant")

Labels = dict[str, list[str]]


def index_entries(folder: Path) -> Labels:
    """Page -> heads of its entries in the index of the English help."""
    found: dict[str, set[str]] = {}
    pattern = re.compile(r'url:"[^/]+/([^?"]+)[^"]*", app:"[^"]*", text:"((?:[^"\\]|\\.)*)"')
    for page, entry in pattern.findall((folder / "en-US" / "bookmarks.js").read_text(encoding="utf-8")):
        found.setdefault(page, set()).add(html.unescape(entry).split(" -- ")[0].strip().lower())
    return {page: sorted(entries) for page, entries in found.items()}


def first_lines(file: Path, size: int) -> str:
    """Title and first paragraphs of a help page."""
    page = file.read_text(encoding="utf-8")
    body = page.partition('<div id="DisplayArea"')[2].partition(">")[2].partition('<div id="SearchFrame"')[0]
    body = re.sub(r"(?s)<(script|style|nav)\b.*?</\1>|<(?!/?(?:span|a|em|b|i)\b)[^>]*>", " ", body)
    text = html.unescape(re.sub(r"<[^>]*>", "", body))
    return unicodedata.normalize("NFC", " ".join(text.split()))[:size]


def annotations(file: Path, *, names: bool) -> Labels:
    """Symbol -> its name, or its keywords."""
    found = {}
    for entry in ElementTree.parse(file).iter("annotation"):
        if (entry.get("type") == "tts") == names and entry.text:
            found[entry.get("cp", "")] = [part.strip() for part in entry.text.split("|")]
    return found


def write(folder: Path, texts: dict[str, str], labels: Labels) -> None:
    """One data set: documents that have a text and a label that is frequent enough."""
    counts = Counter(label for key in texts for label in labels.get(key, []))
    rows = []
    for key in sorted(texts):
        kept = [label for label in labels.get(key, []) if counts[label] >= LEAST]
        if texts[key] and kept:
            rows.append({"id": key, "text": texts[key], "labels": kept})
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "train.jsonl").write_text(lines, encoding="utf-8")
    print(f"{folder.name}: {len(rows):,} documents")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("debs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--longer", type=int, nargs="*", default=[], help="more characters of help pages")
    options = parser.parse_args()
    entries = index_entries(options.debs / HELP)
    for folder in sorted((options.debs / HELP).iterdir()):
        if (folder / "bookmarks.js").exists():
            there = [page for page in entries if (folder / page).exists()]
            for size in (SHORT, *options.longer):
                title = "help" if size == SHORT else f"pages{size}"
                texts = {page: first_lines(folder / page, size) for page in there}
                write(options.out / f"{title}-{folder.name.lower()}", texts, entries)
    keywords = annotations(options.debs / CLDR / "en.xml", names=False)
    for language in NAMES:
        names = annotations(options.debs / CLDR / f"{language}.xml", names=True)
        write(options.out / f"names-{language}", {key: name[0] for key, name in names.items()}, keywords)


if __name__ == "__main__":
    main()
