"""What models of parts of few documents teach, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import MISSING, markdown, text

SCORES = ("P@1", "P@5", "PSP@5")


def few_documents(results: Path, words: Sequence[str]) -> str:
    """`few_documents`: each recipe with and without what models of folds teach, on test rows."""
    pairs: dict[tuple[str, str], dict[bool, records.Record]] = {}
    for values in records.usable(results / "few-documents.jsonl").values():
        pairs.setdefault((values["data"], values["what"]), {})[values["folds"]] = values
    rows = []
    for (data, recipe), pair in sorted(pairs.items()):
        if {*pair} != {True, False}:
            continue
        plain, taught = pair[False], pair[True]
        both = [" / ".join(text(each[score], 1) for score in SCORES) for each in (plain, taught)]
        ece = text(taught["ece"], 3) if "ece" in taught else MISSING
        name, _, _ = data.partition(":")
        seconds = [text(each["seconds"], 1) for each in (plain, taught)]
        rows.append([f"{name}, {taught['documents']:,}", recipe, *both, ece, ", ".join(seconds)])
    head = ["documents", "recipe", "`--no-calibrate`: P@1 / P@5 / PSP@5", "by folds", "ECE", "seconds without, with"]
    return markdown(head, rows)
