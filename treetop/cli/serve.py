"""`treetop serve`: the HTTP API and the page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.data import Device, Fast

MOST = 4  # workers by default
MODELS = "Model folders; the first is the default. NAME=FOLDER gives a model a name other than its folder's."
TOKEN = "File with a secret that requests must send as bearer token; needed if --host is not this machine."
FEEDBACK = "SQLite file to keep feedback in, created if it does not exist. Without it, feedback is refused."
REPORT = "Folder of an evaluation report (of several models: a folder each); default: `report` next to the model."
WATCH = "Seconds between checks whether a model folder was replaced; 0: reload only by SIGHUP and /v1/reload."


def serve(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help=MODELS)],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8000,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes; default: one per core, at most 4.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help=TOKEN)] = None,
    feedback: Annotated[Path | None, typer.Option(help=FEEDBACK)] = None,
    report: Annotated[Path | None, typer.Option(help=REPORT)] = None,
    show_texts: Annotated[
        bool,
        typer.Option("--show-texts", help="Let explanations show the nearest training texts, which may be private."),
    ] = False,
    watch: Annotated[float, typer.Option(min=0, help=WATCH)] = 2.0,
    device: Device = "auto",
    fast: Fast = False,
) -> None:
    """Serve models over HTTP: an API, a web page, health checks and metrics (docs/server.md).

    SIGHUP reloads the models; SIGTERM finishes the requests in progress and stops within five seconds.
    """
    from treetop.core.abilities import check_device
    from treetop.core.errors import ConfigError, extra
    from treetop.core.executor.threads import cores
    from treetop.serve.settings import Settings, check_report, named_models, read_token

    if find_spec("fcntl") is None:
        raise ConfigError(
            "treetop serve: needs Linux or macOS, not this system. Run it in a Linux container or in WSL."
        )
    most = cores()
    processes = min(most, MOST) if workers is None else workers
    check_device(device)
    named = named_models(models)
    settings = Settings(
        named, host, port, processes, read_token(token_file), feedback, check_report(report, named), show_texts,
        device, fast, max(1, most // processes), watch,
    )  # fmt: skip
    for package in ("fastapi", "pydantic", "uvicorn", "httptools", "uvloop"):
        extra(package, "serve")
    from treetop.serve.server import serve as run

    run(settings)
