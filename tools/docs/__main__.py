"""Write the pages, tables and figures of the documentation, or with --check only say what is out of date."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.docs import figures, generated, pages, tables

KINDS = ("pages", "tables", "figures")


def main(words: Sequence[str] | None = None) -> int:
    """The command; 1 when something is out of date under --check."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(KINDS)}; default: all")
    parser.add_argument("--file", type=Path, action="append", help="only the tables of this file; repeatable")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when something is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    options = parser.parse_args(words)
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(KINDS)}")
    kinds = options.kinds or (["tables"] if options.file else KINDS)
    stale_files: list[Path] = []
    for kind in KINDS:
        if kind in kinds:
            stale_files += WRITERS[kind](options.root, options.check, options.file)
    for file in stale_files:
        sys.stdout.write(f"{file}: {'out of date' if options.check else 'updated'}\n")
    return int(options.check and bool(stale_files))


def write_pages(root: Path, check: bool, files: list[Path] | None = None) -> list[Path]:
    """Pages of docs/ that are made from the code."""
    docs = root / "docs"
    return (generated.stale if check else generated.write)(docs, pages.pages(docs))


def write_tables(root: Path, check: bool, files: list[Path] | None = None) -> list[Path]:
    """Tables of README.md, docs/ and benchmarks/, and the scores `treetop recipes` shows."""
    results = root / "benchmarks" / "results"
    usual = [root / "README.md", *sorted((root / "docs").rglob("*.md")), root / "benchmarks" / "README.md"]
    changed = [file for file in files or usual if tables.update(file, results, check=check)]
    if files:
        return changed
    scores = {"scores.json": json.dumps(tables.scores(results), indent=1, sort_keys=True) + "\n"}
    return changed + (generated.stale if check else generated.write)(root / "treetop" / "recipes", scores)


def write_figures(root: Path, check: bool, files: list[Path] | None = None) -> list[Path]:
    """Figures of docs/figures."""
    drawn = figures.figures(root / "benchmarks" / "results")
    return (generated.stale if check else generated.write)(root / "docs" / "figures", drawn)


WRITERS = {"pages": write_pages, "tables": write_tables, "figures": write_figures}

if __name__ == "__main__":
    sys.exit(main())
