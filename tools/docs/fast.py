"""Tables of fast answers on a CPU: forms of an encoder, and the search among a million labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import MISSING, markdown, text

FORMS = ("float32", "onnx", "int8")


def encoder(results: Path, words: Sequence[str]) -> str:
    """`fast_encoder`: CPU milliseconds a text of every form, and the cosine of the int8 vectors."""
    found = [values for values in records.usable(results / "fast-encoder.jsonl").values() if "encoder" in values]
    cells: dict[tuple[str, str, int], dict[str, records.Record]] = {}
    for values in found:
        cells.setdefault((values["encoder"], values["kind"], values["texts"]), {})[values["form"]] = values
    rows = []
    for (name, kind, size), forms in cells.items():
        spent = [text(forms[form]["cpu_ms_per_text"]) if form in forms else MISSING for form in FORMS]
        rows.append(
            [name, kind, f"{size:,}", *spent, text(forms["int8"]["times"], 2), text(forms["int8"]["cosine"], 4)]
        )
    head = ["encoder", "texts", "batch", "float32", "ONNX Runtime float32", "`--fast`", "times as fast", "cosine"]
    return markdown(head, rows)


def answers(results: Path, words: Sequence[str]) -> str:
    """`fast_answers`: metrics of a model and of its fast form."""
    found = [values for values in records.usable(results / "fast-encoder.jsonl").values() if "model" in values]
    rows = []
    for values in found:
        scores = [text(values[metric], 2) for metric in ("P@1", "P@5", "PSP@5")]
        rows.append(
            [values["model"], values["form"], *scores, text(100 * values["same_of_5"], 1), text(values["cpu_s"])]
        )
    return markdown(["model", "form", "P@1", "P@5", "PSP@5", "same labels of 5, %", "CPU s"], rows)


def million(results: Path, words: Sequence[str]) -> str:
    """`million_labels`: milliseconds a text and recall of every search."""
    rows = []
    for values in records.usable(results / "million-labels.jsonl").values():
        figures = [text(values["ms_per_text"]), text(values["cpu_ms_per_text"]), text(values["recall@10"], 4)]
        rows.append(
            [values["search"], f"{values['labels']:,}", f"{values['texts']:,}", *figures, text(values["load"], 1)]
        )
    return markdown(["search", "labels", "batch", "ms a text", "CPU ms a text", "recall@10", "load"], rows)
