"""`python -m tools.annif DATA`: Annif's tf-idf project trained on DATA, its server loaded, a record for each load."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from tools.annif.prepare import PROJECT, Annif, prepare
from tools.annif.server import AnnifServer, form_bodies, measure
from tools.peers.environments import set_up
from tools.records import append, provenance
from tools.serve.processes import ROOT

TEXTS = 5000  # distinct test texts
K = 5
PACKAGES = ("annif", "gunicorn", "uvicorn", "connexion", "scikit-learn", "scipy", "numpy")
VERSIONS = "import json, sys; from importlib.metadata import version; print(json.dumps([*map(version, sys.argv[1:])]))"


def main(
    data: Annotated[str, typer.Argument(help="Data to train on and whose test texts are sent.")],
    rate: Annotated[int, typer.Option(help="Requests a second of the rated load.")] = 1000,
    seconds: Annotated[int, typer.Option(help="Seconds of a load.")] = 10,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 2,
    only_prepare: Annotated[bool, typer.Option("--only-prepare", help="Install and train, send nothing.")] = False,
    record: Annotated[Path | None, typer.Option(help="File to add a line for each load to.")] = None,
) -> None:
    """Train Annif where that has not been done, load its server and print, or record, the figures."""
    from treetop.core.dataset import Dataset

    annif = Annif(set_up("annif", ROOT / "build"), ROOT / "build" / "annif" / "work")
    prepare(annif, data)
    if only_prepare:
        return
    texts = list(Dataset.read(data, "test").texts[:TEXTS])
    server = AnnifServer(annif, workers)
    try:
        found = measure(server, form_bodies(annif.work / "bodies.txt", texts, K), rate, seconds)
    finally:
        server.end()
    shared = {
        "system": "annif",
        "backend": PROJECT,
        "workers": workers,
        "texts": len(texts),
        "packages": _versions(annif),
    }
    for name, figures in found.items():
        typer.echo(json.dumps({"name": name, **shared, **figures}))
        if record is not None:
            append(record, {**provenance(seed=0), "name": name, **shared, **figures})


def _versions(annif: Annif) -> dict[str, str]:
    command = [str(annif.python), "-c", VERSIONS, *PACKAGES]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return dict(zip(PACKAGES, found, strict=True))


typer.run(main)
