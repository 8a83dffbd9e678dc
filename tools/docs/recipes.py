"""Every recipe in one table: its idea, and what it reaches with its default settings on two data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tools import records
from tools.docs.markdown import MISSING, markdown, text
from tools.docs.runs import select
from treetop.core.errors import InputError

METRICS = ("P@1", "P@5", "PSP@5")


def recipes(results: Path, words: Sequence[str]) -> str:
    """`recipes CPU_DATA GPU_DATA GPU_FILE...`: scores and costs on one data set, scores on a second.

    The second data set's scores come from `recipes/GPU_DATA.jsonl` (trained on a CPU) or else from the first file of
    `gpu/` that has runs of the recipe's defaults on test rows; which file it was stands below the table.
    """
    from treetop.cli.recipes import summary
    from treetop.core import registry

    if len(words) < 2:
        raise InputError("table recipes: give two data sets, and files of benchmarks/results/gpu.")
    first, second, *files = words
    measured = records.read(results / "recipes" / f"{first}.jsonl")
    rows, sources = [], dict[str, list[str]]()
    for name in registry.names("recipe"):
        facts, found = summary(name), measured.get((name, 1), {})
        costs = [text(_at(found, "train", "cpu_s")), text(_at(found, "model_mb"))]
        scores, source = _second(results, name, second, files)
        if source:
            sources.setdefault(source, []).append(f"`{name}`")
        link = f"[`{name}`](docs/recipes/{name}.md){_preset(found)}"
        rows.append([link, facts["group"], facts["summary"], *_shown(found.get("scores", {})), *costs, *_shown(scores)])
    head = ["recipe", "group", "idea", *(f"{metric} {first}" for metric in METRICS), "train CPU s", "model MB"]
    made = markdown([*head, *(f"{metric} {second.partition('-')[0]}" for metric in METRICS)], rows, left=3)
    return f"{made}\n\n{_caption(first, second, measured, sources)}"


def _second(results: Path, name: str, data: str, files: Sequence[str]) -> tuple[Mapping[str, float], str]:
    """Scores of a recipe's defaults on test rows, means over seeds, and the file they are from."""
    file = results / "recipes" / f"{data}.jsonl"
    found = records.usable(file).get((name, 1))
    if found:
        return found["scores"], f"recipes/{file.name}"
    for source in files:
        runs = [run for run in select(results, source, data, "test") if is_default(run, name)]
        if runs:
            return {metric: mean(float(run[metric]) for run in runs) for metric in METRICS}, f"gpu/{source}.jsonl"
    return {}, ""


def is_default(run: Mapping[str, Any], name: str) -> bool:
    """Whether a run on a GPU is of a recipe as it is now: a former default has another name."""
    usual = run.get("name") == "default" and run.get("preset") in (None, "default")
    return run["section"] == "recipe" and run["recipe"] == name and usual


def _shown(scores: Mapping[str, float]) -> list[str]:
    return [text(scores[metric], 2) if metric in scores else MISSING for metric in METRICS]


def _at(values: Mapping[str, Any], *path: str) -> float | None:
    for key in path[:-1]:
        values = values.get(key, {})
    return values.get(path[-1])


def _preset(found: Mapping[str, Any]) -> str:
    preset = found.get("preset", "default")
    return "" if preset == "default" else f" (`{preset}`)"


def _caption(first: str, second: str, measured: Mapping[records.Key, Any], sources: Mapping[str, list[str]]) -> str:
    """Which records the figures are from, and what was not as usual about them."""
    presets = sorted({f"`{found['preset']}`" for found in measured.values() if found["preset"] != "default"})
    usual = f", by default settings or the preset named ({', '.join(presets)})" if presets else ""
    parts = [f"{', '.join(names)}: `{source}`" for source, names in sources.items()]
    made = "Test rows; trained on all documents, none held out (`--no-calibrate`). "
    made += f"{first} on two CPU cores{usual}: `benchmarks/results/recipes/{first}.jsonl`."
    if parts:
        made += f" {second} by default settings, from `benchmarks/results/`: {'; '.join(parts)}. `gpu/`: one H200."
    return f"{made} –: no record yet."
