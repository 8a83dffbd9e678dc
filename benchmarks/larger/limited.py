"""Training under a hard memory limit, page cache included: whether it ends, and what it takes.

    sudo python benchmarks/larger/limited.py DATA --memory 6e9 [--free] [--set tfidf.ngrams=[1,1]] [--record]

The command runs in a memory control group of its own. `--free` runs it again without limit and budget and compares the
models' files. Adds a record to benchmarks/results/larger.jsonl.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from treetop.core.provenance import append, provenance

OUT = Path(__file__).parents[1] / "results" / "larger.jsonl"
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
FILES = ("memory.limit_in_bytes", "total_rss") if V1.is_dir() else ("memory.max", "anon")


class Group:
    """A control group; its peak of memory that is not the system's copy of files."""

    def __init__(self, limit: float) -> None:
        self.folder = (V1 if V1.is_dir() else V2) / "treetop-larger"
        self.folder.mkdir(exist_ok=True)
        (self.folder / FILES[0]).write_text(str(int(limit)))
        self.peak, self.ended = 0, threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.ended.wait(0.1):
            facts = dict(line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
            self.peak = max(self.peak, int(facts[FILES[1]]))

    def close(self) -> None:
        self.ended.set()
        time.sleep(0.5)
        self.folder.rmdir()


def run(words: list[str], group: Group | None, scratch: Path) -> dict[str, Any]:
    """Run `treetop fit`; what it took and what it said."""
    command = [sys.executable, "-m", "treetop", "fit", *words]
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group.folder}/cgroup.procs; exec "$@"', "sh", *command]
    free, lowest, ended = shutil.disk_usage(scratch).free, [shutil.disk_usage(scratch).free], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            lowest[0] = min(lowest[0], shutil.disk_usage(scratch).free)

    threading.Thread(target=watch, daemon=True).start()
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended.set()
    said = [line for line in done.stderr.splitlines() if re.search(r"about .* of memory|large arrays|error|disk", line)]
    return {
        "rc": done.returncode, "seconds": round(time.monotonic() - started, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "disk_gb": round((free - lowest[0]) / 1e9, 2), "said": said[-4:],
    }  # fmt: skip


def hash_of(folder: Path) -> str:
    """A hash of all files of a model, but for run.json, which tells of times."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "run.json"):
        with file.open("rb") as source:
            digest.update(file.relative_to(folder).as_posix().encode() + hashlib.file_digest(source, "sha256").digest())
    return digest.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--recipe", default="xr_linear")
    parser.add_argument("--memory", type=float, required=True, help="bytes")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--left", type=Path, help="go on in the folder that a killed run of this script left")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    scratch = options.left or Path(tempfile.mkdtemp(dir=options.scratch))
    words = [options.recipe, str(options.data), "--no-calibrate", *(word for s in options.set for word in ("--set", s))]
    group = Group(options.memory)
    budget = ["--budget", f"memory={int(options.memory)}B"]
    line: dict[str, Any] = {"name": f"{options.data.name} {options.recipe} {options.memory:g}", "limit": options.memory}
    stages = [] if options.left is None else sorted(f.name for f in (scratch / "limited.work").iterdir() if f.is_dir())
    line |= {"stages_before": stages} | run(
        [*words, "--out", str(scratch / "limited"), *budget, *(["--resume"] if stages else [])], group, scratch
    )
    group.close()
    line["peak_gb"] = round(group.peak / 1e9, 3)
    if line["rc"] == 0:
        line["model_gb"] = round(
            sum(f.stat().st_size for f in (scratch / "limited").rglob("*") if f.is_file()) / 1e9, 3
        )
    print(json.dumps(line), flush=True)
    if options.free and line["rc"] == 0:
        free = Group(2**62)
        line["free"] = run([*words, "--out", str(scratch / "free")], free, scratch)
        free.close()
        line["free"]["peak_gb"] = round(free.peak / 1e9, 3)
        line["same_bytes"] = hash_of(scratch / "limited") == hash_of(scratch / "free")
        print(json.dumps(line), flush=True)
    if options.record:
        append(OUT, provenance(seed=0) | line)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
