"""Ten random `kill -9` during training on a GPU, each followed by a resume; scores beside those of unbroken runs.

python benchmarks/gpu/kills.py --data build/gpu --recipe lightxml --name reuters21578-modapte --out results.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from pack import unpack

from treetop.assemble import neural_fit  # noqa: F401 (loaded once, before the children are born)
from treetop.core.dataset import Dataset
from treetop.train.checkpoint import Checkpoints
from treetop.training import fit

DEVICE = os.environ.get("KILLS_DEVICE", "cuda")
EVERY = 0.8  # seconds between checkpoints, so that a short life gets somewhere


def due(self: Checkpoints) -> bool:
    return time.monotonic() - self._last >= EVERY


def child(recipe: str, train: Path, out: Path, settings: dict[str, Any]) -> None:
    Checkpoints.due = due  # type: ignore[method-assign]
    fit(recipe, Dataset.read(train, "train"), settings=settings, device=DEVICE, out=out, resume=True)


def start(work: Any) -> int:
    """A child process that runs `work()`; CUDA is not touched in the parent."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            print(repr(error)[:500], flush=True)
        os._exit(code)
    return pid


def killed(begin: Any, out: Path, rng: random.Random) -> bool:
    """Start a child and kill it a moment after its training began; False when it ended before."""
    seen = steps(out)
    pid = start(begin)
    while steps(out) == seen:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 1.0))
    if os.waitpid(pid, os.WNOHANG)[0]:
        return False
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def steps(out: Path) -> float:
    """When the last stage or checkpoint was put in place."""
    return max((p.stat().st_mtime for p in out.with_name(out.name + ".work").glob("[!.]*")), default=0.0)


def score(data: Path, name: str, out: Path, file: Path) -> None:
    import torch

    import treetop

    model = treetop.load(out)
    for features in model.features.values():
        features.to(torch.device(DEVICE))
    found = model.evaluate(Dataset.read(data / name, "test"), resamples=0)
    file.write_text(json.dumps({f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", default="lightxml")
    parser.add_argument("--name", default="reuters21578-modapte")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--only-killed", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not (options.data / "encoder").is_dir():
        unpack(options.data)
    settings = {"encoder": {"encoder": str(options.data / "encoder")}, "train": {"epochs": options.epochs}}
    folder, rng, lines = Path(tempfile.mkdtemp()), random.Random(0), []
    runs = [("unbroken", 0), ("unbroken again", 0), ("killed", options.kills)]
    for name, kills in runs[-1:] if options.only_killed else runs:
        out = folder / name.replace(" ", "-")
        started, count = time.perf_counter(), 0

        def begin(out: Path = out) -> None:
            child(options.recipe, options.data / options.name, out, settings)

        while count < kills and killed(begin, out, rng):
            count += 1
        if not out.exists():
            os.waitpid(start(begin), 0)
        file = folder / "score.json"
        os.waitpid(start(lambda out=out, file=file: score(options.data, options.name, out, file)), 0)
        seconds = time.perf_counter() - started
        lines.append(
            {
                "section": "kills",
                "recipe": options.recipe,
                "run": name,
                "kills": count,
                "seconds": seconds,
                **json.loads(file.read_text()),
            }
        )
        print(json.dumps(lines[-1]), flush=True)
    if options.out:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
