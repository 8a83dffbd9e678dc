"""Records side by side: aligned columns for a terminal, or Markdown with intervals and the reason of every gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]

COLUMNS = (  # title, place in a record, decimals
    ("P@1", "scores.P@1", 2),
    ("P@5", "scores.P@5", 2),
    ("PSP@5", "scores.PSP@5", 2),
    ("train CPU s", "train.cpu_s", 1),
    ("wall s", "train.wall_s", 1),
    ("peak MB", "train.peak_mb", 0),
    ("model MB", "model_mb", 1),
    ("documents/s", "batch.docs_per_s", 0),
)
SCORES = ("P@1", "P@3", "P@5", "nDCG@10", "PSP@1", "PSP@5", "R@10", "C@5")
BINS = ("head", "torso", "tail")
COSTS = (
    ("train CPU s", "train.cpu_s", 1),
    ("GPU s", "train.gpu_s", 1),
    ("wall s", "train.wall_s", 1),
    ("peak MB", "train.peak_mb", 0),
    ("model MB", "model_mb", 1),
    ("documents/s", "batch.docs_per_s", 0),
    ("one text ms, p50", "single.p50_ms", 2),
    ("p99", "single.p99_ms", 2),
)
DASH = "–"


def terminal(records: Sequence[Record]) -> str:
    """Records as aligned columns; those that failed are left out, as their errors were printed."""
    rows = [["recipe", *(title for title, _, _ in COLUMNS)]]
    for values in records:
        if "problem" not in values:
            rows.append([_title(values), *(_figure(values, path, digits) for _, path, digits in COLUMNS)])
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        [row[0].ljust(wide[0]), *(cell.rjust(w) for cell, w in zip(row[1:], wide[1:], strict=True))] for row in rows
    ]
    return "\n".join("  ".join(line) for line in lines)


def markdown(records: Sequence[Record]) -> str:
    """Scores with 95 % intervals and recall by label frequency, costs, and why cells are missing."""
    done = [values for values in records if "problem" not in values]
    scores = _grid(
        ["recipe", *SCORES, *(f"R@10 {name}" for name in BINS)],
        [[_title(r), *(_score(r, name) for name in SCORES), *(_bin(r, name) for name in BINS)] for r in done],
    )
    costs = _grid(
        ["recipe", *(title for title, _, _ in COSTS)],
        [[_title(r), *(_figure(r, path, digits) for _, path, digits in COSTS)] for r in done],
    )
    parts = [_heading(done), scores, costs] if done else []
    if missing := [values for values in records if "problem" in values]:
        parts.append("Missing:\n\n" + "\n".join(f"- `{_title(r)}`: {r['problem']}" for r in missing))
    return "\n\n".join(parts) + "\n"


def _heading(records: Sequence[Record]) -> str:
    data, machine = records[0]["data"], records[0]["machine"]
    return (
        f"{data['name']}: {data['train']:,} training texts, {data['test']:,} test texts, {data['labels']:,} labels; "
        f"{machine['cores']} cores ({machine['cpu']}). Brackets: 95 % intervals over the test texts."
    )


def _title(values: Record) -> str:
    preset = values.get("preset", "default")
    return values["recipe"] + ("" if preset == "default" else f":{preset}")


def _score(values: Record, name: str) -> str:
    score, interval = values["scores"].get(name), values["intervals"].get(name)
    if score is None:
        return DASH
    return f"{score:.2f}" + (f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else "")


def _bin(values: Record, name: str) -> str:
    found = next((part["R@10"] for part in values["bins"] if part["name"] == name), None)
    return DASH if found is None else f"{found:.1f}"


def _figure(values: Record, path: str, digits: int) -> str:
    part, _, key = path.partition(".")
    found = values.get(part)
    found = found.get(key) if key and isinstance(found, dict) else found
    return DASH if found is None else f"{found:,.{digits}f}"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
