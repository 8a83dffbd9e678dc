"""What is asked of the server: each scenario returns the figures of its record."""

from __future__ import annotations

import shutil
import signal
import threading
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.serve.processes import Requests, Server, autocannon, finished, open_loop, wrk
from treetop.serve.feedback.store import read_feedback


@dataclass(frozen=True)
class Setup:
    """What is measured on: a model folder, requests, a rate, how long."""

    model: Path
    requests: Requests
    work: Path  # folder for feedback and copies
    rate: int
    seconds: int
    soak: int  # seconds
    workers: int
    options: tuple[str, ...] = ()  # of `treetop serve`

    def server(self, name: str = "feedback", model: Path | None = None) -> Server:
        """A server on a new file of feedback."""
        file = self.work / f"{name}.sqlite"
        for old in self.work.glob(f"{name}.sqlite*"):
            old.unlink()
        return Server(model or self.model, file, self.workers, self.options)


def rated(setup: Setup) -> dict[str, Any]:
    """The rate the server shall bear: open loop, and by autocannon."""
    server = setup.server()
    finished(open_loop(server, setup.rate // 2, 3, setup.requests))  # warm
    before = server.cpu()
    found = finished(open_loop(server, setup.rate, setup.seconds, setup.requests))
    found["server_cpu_ms_per_request"] = 1000 * (server.cpu() - before) / found["sent"]
    found["autocannon"] = [autocannon(server, setup.rate, min(10, setup.seconds), c, setup.requests) for c in (10, 20)]
    found["shutdown_s"] = server.end()
    return found


def maximum(setup: Setup) -> dict[str, Any]:
    """As many as it takes."""
    server = setup.server()
    found = [wrk(server, min(10, setup.seconds), connections, setup.requests) for connections in (8, 16, 32, 64)]
    server.end()
    return {"wrk": found}


def overload(setup: Setup) -> dict[str, Any]:
    """Three times the rated load: 429s, never 5xx, and what is accepted is answered soon."""
    server = setup.server()
    finished(open_loop(server, setup.rate, 3, setup.requests))
    found = finished(open_loop(server, 3 * setup.rate, setup.seconds, setup.requests))
    found["after"] = finished(open_loop(server, setup.rate, 3, setup.requests))
    server.end()
    return found


def reload(setup: Setup) -> dict[str, Any]:
    """The model is opened again, rolled back and replaced under the rated load: no request fails."""
    copy = setup.work / "model"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(setup.model, copy)
    server = setup.server(model=copy)
    load = open_loop(server, setup.rate, setup.seconds, setup.requests)
    done = 0
    while load.poll() is None:
        fresh = setup.work / "fresh"
        shutil.copytree(setup.model, fresh)
        old = setup.work / "old"
        copy.rename(old)
        fresh.rename(copy)
        server.process.send_signal(signal.SIGHUP)
        shutil.rmtree(old)
        time.sleep(2)
        done += 1
    found = finished(load)
    server.end()
    return {**found, "reloads": done}


def kill(setup: Setup) -> dict[str, Any]:
    """Killed with `kill -9` under load, several times: all feedback that was acknowledged is there."""
    acknowledged: set[int] = set()
    kills, down = 3, []
    server = setup.server()
    file = server.feedback
    for n in range(kills):
        stop = threading.Event()
        asking = [threading.Thread(target=_give, args=(server, stop, acknowledged)) for _ in range(4)]
        load = open_loop(server, setup.rate // 2, 4, setup.requests)
        for thread in asking:
            thread.start()
        time.sleep(3)
        server.end(signal.SIGKILL)
        stop.set()
        for thread in asking:
            thread.join()
        load.kill()
        load.wait()
        if n < kills - 1:
            started = time.monotonic()
            server = Server(setup.model, file, setup.workers, setup.options)
            down.append(time.monotonic() - started)
    stored = {entry.id for entry in read_feedback(file)}
    return {"kills": kills, "acknowledged": len(acknowledged), "lost": len(acknowledged - stored), "restart_s": down}


def _give(server: Server, stop: threading.Event, acknowledged: set[int]) -> None:
    n = 0
    while not stop.is_set():
        n += 1
        try:
            label = {"text": f"text {n}", "labels": []}
            acknowledged.add(int(server.post("/v1/feedback", label)["id"]))
        except (urllib.error.URLError, OSError, ValueError):
            time.sleep(0.01)


def soak(setup: Setup) -> dict[str, Any]:
    """The rated load for long: memory after the first tenth and at the end."""
    server = setup.server()
    load = open_loop(server, setup.rate, setup.soak, setup.requests)
    time.sleep(setup.soak / 10)
    first = server.memory()
    found = finished(load)
    last = server.memory()
    server.end()
    return {**found, "memory_mb": last / 1e6, "growth_percent": 100 * (last - first) / first}


SCENARIOS: dict[str, Callable[[Setup], dict[str, Any]]] = {
    "rated": rated, "maximum": maximum, "overload": overload, "reload": reload, "kill": kill, "soak": soak,
}  # fmt: skip
