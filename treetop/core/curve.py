"""The curve of a training: after every epoch loss and figures on held-out documents; of `auto` also of its trials.

The loop appends a line to a file of the job's work folder, `run.json` of the model keeps them all, reports draw them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treetop.core.errors import ModelError
from treetop.core.sealed import unseal

FILE = "curve.jsonl"
DOCUMENTS = "documents"  # in a point of a learning curve: on how many documents a recipe was tried; its epoch is 0
Point = dict[str, Any]  # stage, epoch, step, seconds, loss, and figures by name where there are some


def append(file: Path, line: Mapping[str, Any]) -> None:
    """Add a line of JSON to a file."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def gather(work: Path) -> list[Point]:
    """The points of all stages of a job, in the order of training; those of further members have them in their stage.

    A run that was killed goes over its last steps again: the later line of a step counts.
    """
    points: dict[tuple[str, int], Point] = {}
    for file in [work / FILE, *sorted(work.glob(f"*/{FILE}"))]:
        if not file.is_file():
            continue
        member = "" if file.parent == work else f"{file.parent.name}/"
        for line in file.read_text(encoding="utf-8").splitlines():
            if (point := _point(line)) is not None:
                point["stage"] = member + point["stage"]
                points[point["stage"], point["step"]] = point
    return list(points.values())


def _point(line: str) -> Point | None:
    """A line as a point; None for one that was cut off when its process was killed."""
    try:
        point = json.loads(line)
    except ValueError:
        return None
    return point if is_point(point) else None


def is_point(value: Any) -> bool:
    """Whether this is a point of a curve: a stage, a step, and nothing but finite numbers besides."""
    if not isinstance(value, dict) or not isinstance(value.get("stage"), str) or type(value.get("step")) is not int:
        return False
    numbers = [number for name, number in value.items() if name != "stage"]
    return "epoch" in value and all(type(x) in (int, float) and math.isfinite(x) for x in numbers)


def of_model(folder: Path) -> list[Point]:
    """The curve in a model folder; empty where its training left none."""
    if not (folder / "run.json").is_file():
        return []
    try:
        points = unseal(folder / "run.json").get("curve", [])
    except ModelError:  # `treetop verify` says so
        return []
    return [point for point in points if is_point(point)] if isinstance(points, list) else []
