"""Long documents with subjects: the manual pages of a Debian package, and the package's tags as SKOS concepts.

    apt-get update && apt-get download debtags && dpkg -x debtags_*.deb .
    python benchmarks/long_documents/build.py names usr/share/debtags > names.txt      # packages worth looking at
    mkdir debs && cd debs && xargs -n 100 apt-get download < ../names.txt && cd ..     # about 500 MB
    python benchmarks/long_documents/build.py set usr/share/debtags debs OUT

OUT/train and OUT/test are folders in Annif's full-text layout (a.txt, a.tsv) with the concepts in labels.ttl: 300
documents of about 84 KB to train on, the others for test, 376 concepts. Pages come in the order of their names, cut
after 110 KB. The pages are under their packages' licences, the tags under the GPL 2; nothing of either is in this
repository.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import subprocess
import tarfile
from collections import Counter
from pathlib import Path
from zlib import crc32

TAGS, PAGES, LARGEST = 5, 3, 2_500_000  # a package: tags and manual pages at least, bytes at most
SHORTEST, LONGEST = 40_000, 110_000  # characters of a document
TRAIN, CONCEPTS = 300, 376
BASE = "http://debtags.example/"  # tags have no addresses of their own
# Requests of roff whose arguments are not text.
SILENT = re.compile("(ad|br|d[es]|el|f[it]|hy|i[efgn]|IX|LP|ll|n[efr]|PP?|PD|R[ES]|s[op]|t[ai]|T[EHS])")
DROPPED = re.compile(r'\\f(?:\[[^]]*\]|\(..|.)|\\s[-+]?\d|\\[&|^/,:]|\\\*(?:\(..|\[[^]]*\]|.)|"')
DASHES = re.compile(r"\\\((?:en|em|hy|mi)|\\-|\\\[[^]]*\]")


def vocabulary(folder: Path) -> dict[str, str]:
    """Tag -> its short description."""
    found, tag = {}, ""
    for line in (folder / "vocabulary").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(": ")
        tag = value if key == "Tag" else tag if line else ""
        if key == "Description" and tag:
            found[tag] = value
    return found


def packages() -> dict[str, tuple[int, list[str]]]:
    """Package -> (bytes, tags), by the package lists of this machine."""
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    found = {}
    for block in listed.split("\n\n"):
        fields = dict(re.findall(r"(?m)^([A-Z][A-Za-z-]*): ?(.*(?:\n .*)*)", block))
        tags = sorted({tag.strip() for tag in fields.get("Tag", "").split(",") if tag.strip()})
        if "Package" in fields and "Size" in fields:
            found[fields["Package"]] = int(fields["Size"]), tags
    return found


def names() -> list[str]:
    """Packages with tags and manual pages enough; needs the lists of files that `apt-file update` fetches."""
    listed = subprocess.run(["apt-file", "search", "-x", "^/usr/share/man/man[0-9]/"], capture_output=True, text=True)
    pages = Counter(line.partition(":")[0] for line in listed.stdout.splitlines())
    known = packages()
    return sorted(
        name
        for name, count in pages.items()
        if count >= PAGES and name in known and known[name][0] < LARGEST and len(known[name][1]) >= TAGS
    )


def plain(page: str) -> str:
    """The text of a manual page from its first section on; roff is not run, only its marks are taken out."""
    lines = page.split("\n")
    first = next((i for i, line in enumerate(lines) if re.match(r"[.'] *(SH|Sh)\b", line)), len(lines))
    kept = []
    for line in lines[first:]:
        if line[:1] in (".", "'"):
            request = re.match(r"[.'] *([A-Za-z]+) *(.*)", line)
            if request is None or SILENT.fullmatch(request[1]):
                continue
            line = request[2]
        line = re.sub(r"\\\(..", "", DASHES.sub("-", DROPPED.sub("", line)))
        kept.append(line.replace("\\e", "\\").replace("\\ ", " "))
    return " ".join(" ".join(kept).split())


def pages(deb: Path) -> list[str]:
    """The manual pages of a package as plain texts, in the order of their names."""
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as files:
        for member in files:
            if member.isfile() and re.match(r"\./usr/share/man/man\d/", member.name):
                raw = files.extractfile(member).read()  # type: ignore[union-attr]
                raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
                texts[member.name] = plain(raw.decode("utf-8", "replace"))
    return [texts[name] for name in sorted(texts) if texts[name]]


def documents(folder: Path) -> dict[str, str]:
    """Package -> its pages, for those that are long enough."""
    found = {}
    for deb in sorted(folder.glob("*.deb")):
        text = "\n\n".join(pages(deb))
        if len(text) >= SHORTEST:
            found[deb.name.partition("_")[0]] = text[:LONGEST]
    return found


def turtle(concepts: dict[str, str]) -> str:
    """The concepts as SKOS."""
    blocks = ["@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"]
    for tag, description in sorted(concepts.items()):
        name = description.replace("\\", "\\\\").replace('"', '\\"')
        alt = re.split("::|:", tag)[-1].replace("-", " ")
        blocks.append(f'<{BASE}{tag}> a skos:Concept ; skos:prefLabel "{name}"@en ; skos:altLabel "{alt}"@en .\n')
    return "".join(blocks)


def write(out: Path, texts: dict[str, str], tags: dict[str, list[str]], described: dict[str, str]) -> None:
    """Both folders; which documents train is settled by a hash of their names."""
    used = Counter(tag for name in texts for tag in tags[name] if tag in described)
    rest = [tag for tag in sorted(described) if tag not in used]
    chosen = [tag for tag, _ in used.most_common()][:CONCEPTS]
    concepts = {tag: described[tag] for tag in [*chosen, *rest][:CONCEPTS]}
    order = sorted(texts, key=lambda name: (crc32(name.encode()), name))
    for split, members in (("train", order[:TRAIN]), ("test", order[TRAIN:])):
        folder = out / split
        folder.mkdir(parents=True)
        (folder / "labels.ttl").write_text(turtle(concepts), encoding="utf-8")
        for name in members:
            kept = [tag for tag in tags[name] if tag in concepts]
            lines = "".join(f"<{BASE}{tag}>\t{concepts[tag]}\n" for tag in kept)
            (folder / f"{name}.txt").write_text(texts[name], encoding="utf-8")
            (folder / f"{name}.tsv").write_text(lines, encoding="utf-8")
        size = sum(len(texts[name].encode()) for name in members) / max(1, len(members))
        print(f"{split}: {len(members)} documents of {size / 1000:.1f} KB, {len(concepts)} concepts, {len(used)} used")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["names", "set"])
    parser.add_argument("debtags", type=Path, help="folder with the vocabulary of debtags")
    parser.add_argument("debs", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    options = parser.parse_args()
    if options.what == "names":
        print("\n".join(names()))
        return
    tags = {name: tags for name, (_, tags) in packages().items()}
    write(options.out, documents(options.debs), tags, vocabulary(options.debtags))


if __name__ == "__main__":
    main()
