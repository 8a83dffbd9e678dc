"""A server to load, and the programs that load it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = ROOT / "benchmarks" / "serve"
HELPER = b"resource_tracker"
TICK = os.sysconf("SC_CLK_TCK")


class Running:
    """A server in a process of its own: what it says, and its workers' CPU time and memory."""

    process: subprocess.Popen[str]
    port: int

    @property
    def workers(self) -> list[int]:
        """Process ids of the workers: children of the process, but for Python's helper of processes."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if HELPER not in Path(f"/proc/{child}/cmdline").read_bytes()]

    def cpu(self) -> float:
        """CPU seconds of all workers so far."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.workers]
        return sum(int(field[11]) + int(field[12]) for field in fields) / TICK

    def memory(self) -> int:
        """Bytes in memory of all workers, without pages of files they share."""
        found = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self.workers)
        return sum(1024 * int(size) for text in found for size in re.findall(r"^Anonymous:\s+(\d+)", text, re.M))

    def get(self, path: str) -> str:
        """What a page says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as reply:
            return str(reply.read().decode())

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to a JSON body."""
        data = json.dumps(body or {}).encode()
        address = f"http://127.0.0.1:{self.port}{path}"
        typed = {"content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(address, data, typed, method="POST"), timeout=10) as reply:
            return json.load(reply)

    def end(self, number: int = signal.SIGTERM) -> float:
        """Seconds from the signal to the end."""
        started = time.monotonic()
        workers = self.workers
        self.process.send_signal(number)
        for pid in workers if number == signal.SIGKILL else ():
            os.kill(pid, number)
        self.process.wait(20)
        while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() - started < 20:
            time.sleep(0.01)
        return time.monotonic() - started


class Server(Running):
    """`treetop serve`."""

    def __init__(self, model: Path, feedback: Path, workers: int, options: Sequence[str] = ()) -> None:
        self.feedback = feedback
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "treetop", "serve", str(model), "--port", "0", "--workers", str(workers),
                "--feedback", str(feedback), *options,
            ],
            stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "300"},
        )  # fmt: skip
        if self.process.stderr is None:
            raise RuntimeError("the server has no log")
        for line in self.process.stderr:
            if found := re.search(r"http://\S+:(\d+),", line):
                self.port = int(found[1])
                break
        else:
            raise RuntimeError("the server did not start")


class Steal:
    """The share of this machine's CPU time that its host took away, from here on."""

    def __init__(self) -> None:
        self.before = self._now()

    def percent(self) -> float:
        """Percent of all cores' time."""
        stolen, total = (after - before for before, after in zip(self.before, self._now(), strict=True))
        return 100 * stolen / max(total, 1)

    def _now(self) -> tuple[int, int]:
        ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return ticks[7], sum(ticks)


@dataclass(frozen=True)
class Requests:
    """What is asked: bodies, one a line of a file, all sent to one address."""

    bodies: Path
    path: str = "/v1/predict"
    kind: str = "application/json"


def open_loop(server: Running, rate: float, seconds: float, requests: Requests) -> Any:
    """Requests at fixed times; see `benchmarks/serve/load.js`. A process that is under way: `finished` waits for it."""
    words = ["node", str(HERE / "load.js"), "127.0.0.1", str(server.port), str(rate), str(seconds)]
    words += [str(requests.bodies), requests.path, requests.kind]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def finished(process: Any) -> dict[str, Any]:
    """The figures a generator printed."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the generator ended with code {process.returncode}")
    found: dict[str, Any] = json.loads(out)
    return found


def autocannon(server: Running, rate: int, seconds: int, connections: int, requests: Requests) -> dict[str, Any]:
    """The same rate by autocannon -R, which sends each connection's share of a second in one go."""
    body = requests.bodies.read_text(encoding="utf-8").split("\n", 1)[0]
    program = ROOT / "build" / "node_modules" / ".bin" / "autocannon"
    words = [
        str(program), "-j", "-n", "-m", "POST", "-R", str(rate), "-c", str(connections), "-d", str(seconds), "-H",
        f"content-type={requests.kind}", "-b", body, f"http://127.0.0.1:{server.port}{requests.path}",
    ]  # fmt: skip
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return {
        "connections": connections, "requests_per_s": found["requests"]["average"], "p50": found["latency"]["p50"],
        "p99": found["latency"]["p99"], "non2xx": found["non2xx"], "errors": found["errors"],
    }  # fmt: skip


def wrk(server: Running, seconds: int, connections: int, requests: Requests) -> dict[str, Any]:
    """As many requests as the server takes, one after the other on each connection."""
    words = [
        "wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", str(HERE / "texts.lua"),
        f"http://127.0.0.1:{server.port}{requests.path}", "--", str(requests.bodies), requests.kind,
    ]  # fmt: skip
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    found = {f"p{q}": _ms(value) for q, value in re.findall(r"^\s+(50|90|99)%\s+(\S+)", out, re.M)}
    return {
        "connections": connections, "requests_per_s": float(rate[1]) if rate else 0.0,
        "refused": int(refused[1]) if refused else 0, **found,
    }  # fmt: skip


def _ms(value: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", value).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]
