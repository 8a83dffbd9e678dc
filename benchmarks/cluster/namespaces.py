"""Two network namespaces with private addresses, joined by one cable: as near to two machines as one machine comes.

    sudo python benchmarks/cluster/namespaces.py DATA... [--client]

A head with one core in the first, a worker with one core in the second; the command runs in the first, with `--client`
in the second, through ray://. Data cross the cable, whose bytes are counted. The namespaces are removed at the end.
Adds a record per data set to benchmarks/results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from local import RESULTS, ROOT, hash_of, run, treetop

from treetop.core.provenance import append, provenance, versions

NAMES, ADDRESSES = ("treetop-a", "treetop-b"), ("10.77.0.1", "10.77.0.2")
PORT, CLIENT = 6399, 10001


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def inside(name: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", name, *words]


@contextlib.contextmanager
def cable() -> Iterator[None]:
    """Both namespaces, while the block runs."""
    try:
        ip("link", "add", "treetop-a", "type", "veth", "peer", "name", "treetop-b")
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            ip("netns", "add", name)
            ip("link", "set", name, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
            for device in (name, "lo"):
                ip("-n", name, "link", "set", device, "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", "treetop-a"], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def nodes() -> Iterator[None]:
    """A head and a worker, one core each."""
    ray = str(Path(sys.executable).with_name("ray"))
    common = ["--num-cpus", "1", "--object-store-memory", "1500000000", "--block", "--disable-usage-stats"]
    head = ["--head", "--port", str(PORT), "--ray-client-server-port", str(CLIENT), "--include-dashboard", "false"]
    first = [ray, "start", *head, "--node-ip-address", ADDRESSES[0], *common]
    second = [ray, "start", "--address", f"{ADDRESSES[0]}:{PORT}", "--node-ip-address", ADDRESSES[1], *common]
    started = []
    try:
        for name, words in zip(NAMES, (first, second), strict=True):
            started.append(subprocess.Popen(inside(name, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(15)
        yield
    finally:
        for process in reversed(started):
            process.terminate()  # --block: ends what it started
        for process in started:
            process.wait(60)


def sent() -> int:
    """Bytes that the first namespace sent over the cable."""
    shown = subprocess.run(
        inside(NAMES[0], "cat", f"/sys/class/net/{NAMES[0]}/statistics/tx_bytes"), capture_output=True, check=True
    )
    return int(shown.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--client", action="store_true")
    options = parser.parse_args()
    address = f"ray://{ADDRESSES[0]}:{CLIENT}" if options.client else f"{ADDRESSES[0]}:{PORT}"
    with cable(), nodes(), tempfile.TemporaryDirectory() as work:
        for data in options.data:
            one, two = Path(work) / f"one-{data.name}", Path(work) / f"two-{data.name}"
            seconds, before, started = run("fit", "xr_linear", data, "--out", one), sent(), time.monotonic()
            words = treetop("fit", "xr_linear", data, "--out", two, "--cluster", address)
            subprocess.run(inside(NAMES[int(options.client)], *words), check=True, cwd=ROOT)
            record = {
                **provenance(seed=0), "versions": versions(),
                "name": f"namespaces {'client ' * options.client}{data.name}", "data": data.name, "nodes": 2,
                "client": options.client, "seconds_threads": seconds, "seconds_cluster": time.monotonic() - started,
                "bytes_sent": sent() - before, "hash": hash_of(one), "hash_cluster": hash_of(two),
                "same": hash_of(one) == hash_of(two),
            }  # fmt: skip
            append(RESULTS, record)
            print({name: record[name] for name in ("name", "same", "bytes_sent", "seconds_cluster", "seconds_threads")})
