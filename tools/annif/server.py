"""Annif behind gunicorn, as its documentation recommends, to load like our own server."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tools.annif.prepare import PROJECT, Annif
from tools.serve.processes import Requests, Running, finished, open_loop, wrk

START = 120  # seconds at most
SETTLE = 120  # seconds at most
IDLE = 0.05  # CPU seconds a second
PATH = f"/v1/projects/{PROJECT}/suggest"
FORM = "application/x-www-form-urlencoded"


class AnnifServer(Running):
    """gunicorn with uvicorn's workers; ready once the project answers."""

    def __init__(self, annif: Annif, workers: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        with (annif.work / "server.log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    str(annif.python.parent / "gunicorn"), "annif:create_app()", "--bind", f"127.0.0.1:{self.port}",
                    "--workers", str(workers), "--timeout", "600", "--graceful-timeout", "5", "--worker-class",
                    "uvicorn.workers.UvicornWorker",
                ],
                stderr=log, stdout=log, text=True, env=annif.environment, cwd=annif.work,
            )  # fmt: skip
        end = time.monotonic() + START
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"annif did not start; see {annif.work / 'server.log'}")
            time.sleep(0.2)

    def _ready(self) -> bool:
        try:
            return bool(json.loads(self.get(f"/v1/projects/{PROJECT}"))["is_trained"])
        except (urllib.error.URLError, OSError):
            return False


def form_bodies(file: Path, texts: list[str], limit: int) -> Requests:
    """One form a line: a text and how many labels are asked for."""
    file.write_text("".join(urlencode({"text": text, "limit": limit}) + "\n" for text in texts), encoding="utf-8")
    return Requests(file, PATH, FORM)


def measure(server: AnnifServer, requests: Requests, rate: int, seconds: int) -> dict[str, dict[str, Any]]:
    """What it takes at most, and how soon it answers at half of that and at the rate our server is measured with."""
    finished(open_loop(server, 1, 5, requests))  # warm
    most = []
    for connections in (2, 4, 8):
        _settle(server)
        most.append(wrk(server, seconds, connections, requests))
    half = max(1, round(max(found["requests_per_s"] for found in most) / 2))
    found = {"annif-maximum": {"wrk": most, "memory_mb": server.memory() / 1e6}}
    for name, offered in (("annif-half", half), ("annif-rated", rate)):
        _settle(server)
        before = server.cpu()
        load = finished(open_loop(server, offered, seconds, requests))
        load["server_cpu_ms_per_request"] = 1000 * (server.cpu() - before) / max(1, load["answered"])
        found[name] = load
    return found


def _settle(server: Running) -> None:
    """Wait until requests that nobody waits for any more are done: the workers are idle for a second."""
    end = time.monotonic() + SETTLE
    busy = True
    while busy and time.monotonic() < end:
        before = server.cpu()
        time.sleep(1)
        busy = server.cpu() - before > IDLE
