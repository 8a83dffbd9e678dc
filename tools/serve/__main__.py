"""`python -m tools.serve MODEL DATA`: load scenarios on a real server, a record each."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tools.records import append, provenance
from tools.serve.processes import ROOT, Requests, Steal
from tools.serve.scenarios import SCENARIOS, Setup

TEXTS = 5000  # distinct test texts
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "pydantic")


def main(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    data: Annotated[str, typer.Argument(help="Data whose test texts are sent.")],
    only: Annotated[list[str] | None, typer.Option(help=f"Some of {', '.join(SCENARIOS)}.")] = None,
    rate: Annotated[int, typer.Option(help="Rated requests a second.")] = 1000,
    seconds: Annotated[int, typer.Option(help="Seconds of a scenario.")] = 30,
    soak: Annotated[int, typer.Option(help="Seconds of the soak.")] = 600,
    repeat: Annotated[int, typer.Option(help="Runs of each scenario.")] = 1,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 2,
    fast: Annotated[bool, typer.Option("--fast", help="`treetop serve --fast`.")] = False,
    record: Annotated[Path | None, typer.Option(help="File to add a line for each scenario to.")] = None,
) -> None:
    """Run load scenarios and print, or record, their figures."""
    from treetop.core.dataset import Dataset

    work = ROOT / "build" / "serve"
    work.mkdir(parents=True, exist_ok=True)
    texts = Dataset.read(data, "test").texts
    bodies = work / "bodies.jsonl"
    lines = (json.dumps({"texts": [text], "k": 5}) + "\n" for text in texts[:TEXTS])
    bodies.write_text("".join(lines), encoding="utf-8")
    setup = Setup(model, Requests(bodies), work, rate, seconds, soak, workers, ("--fast",) if fast else ())
    for name in [name for name in only or SCENARIOS for _ in range(repeat)]:
        steal = Steal()
        found = SCENARIOS[name](setup)
        facts = {
            "name": name,
            "system": "treetop",
            "model": model.name,
            "fast": fast,
            "workers": workers,
            "nice": os.nice(0),  # below 0: before other programs of this machine
            "texts": min(TEXTS, len(texts)),
            **found,
            "steal_percent": round(steal.percent(), 1),
        }
        facts["packages"] = {package: version(package) for package in PACKAGES}
        typer.echo(json.dumps(facts))
        if record is not None:
            append(record, {**provenance(seed=0), **facts})


typer.run(main)
