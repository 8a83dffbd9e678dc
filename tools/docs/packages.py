"""The table of Pythons on which the wheel was tried, from the records of `python -m tools.package`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import markdown

LIBRARIES = ("numpy", "scipy", "numba")
MEANS = {"serve": "fit, predict, evaluate, verify, server", "serve,torch,offline": "the same, two networks"}


def packages(results: Path, words: Sequence[str]) -> str:
    """`packages`: a row for each Python and what was installed with the wheel."""
    found = sorted(
        records.read(results / "packages.jsonl").values(), key=lambda told: (_parts(told["python"]), told["name"])
    )
    head = ("Python", "where", "tried", *LIBRARIES, "first `demo`", "without numba")
    rows = [
        (
            told["python"], told["where"], MEANS[told["extras"]], *(told["installed"][name] for name in LIBRARIES),
            f"{told['seconds']['demo']:.0f} s", "says what to install",
        )
        for told in found
        if "demo without numba" in told["seconds"]
    ]  # fmt: skip
    return markdown(head, rows, left=3)


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
