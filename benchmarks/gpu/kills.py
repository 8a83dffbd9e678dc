"""Random `kill -9` during training on a GPU, each followed by a resume; scores beside those of unbroken runs.

    python benchmarks/gpu/kills.py --data build/gpu --recipe lightxml --name reuters21578-modapte --out results.jsonl

Several recipes come one after the other; `--name` is a folder of `--data` or bundled data, of which `--rows` texts are
learned from. `same` says whether all files of the model are those of the first unbroken run: on a GPU sums of gradients
may differ in their last bits from run to run, on the CPU (`--device cpu`) nothing does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pack import unpack

from treetop.assemble.dual import fit as dual_fit  # noqa: F401 (loaded once, before the children are born)
from treetop.core.dataset import Dataset
from treetop.network import fit as network_fit  # noqa: F401
from treetop.train.checkpoint import Checkpoints
from treetop.training import fit

EVERY = 0.8  # seconds between checkpoints, so that a short life gets somewhere
MORE = {  # what makes a short run go through all that a long one does
    "unidec": ["pool.mine_from=1", "pool.mine_every=1"],
    "astec": ["second_train.epochs={epochs}"],
}


def due(self: Checkpoints, step: int) -> bool:
    return time.monotonic() - self._last >= EVERY


def child(recipe: str, train: Dataset, out: Path, settings: list[str], device: str) -> None:
    Checkpoints.due = due  # type: ignore[method-assign]
    fit(recipe, train, settings=settings, device=device, out=out, resume=True)


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


def score(test: Dataset, out: Path, file: Path, device: str) -> None:
    import treetop

    found = treetop.load(out, device=device).evaluate(test, resamples=0)
    file.write_text(json.dumps({f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}))


def runs(recipe: str, options: argparse.Namespace, train: Dataset, test: Dataset) -> Iterator[dict[str, Any]]:
    """One line for each run of a recipe."""
    settings = [f"encoder.model={options.data / 'encoder'}", f"train.epochs={options.epochs}"]
    settings += [item.format(epochs=options.epochs) for item in MORE.get(recipe, [])] + options.set
    folder, rng, device = Path(tempfile.mkdtemp()), random.Random(0), options.device
    kinds = [("unbroken", 0), ("unbroken again", 0), ("killed", options.kills)]
    first = folder / "unbroken/manifest.json"
    for name, kills in kinds[-1:] if options.only_killed else kinds:
        out, file = folder / name.replace(" ", "-"), folder / "score.json"
        started, count = time.perf_counter(), 0

        def begin(out: Path = out) -> None:
            child(recipe, train, out, settings, device)

        while count < kills and time.perf_counter() - started < options.seconds and killed(begin, out, rng):
            count += 1
        if not out.exists():
            os.waitpid(start(begin), 0)
        line = {"section": "kills", "recipe": recipe, "run": name, "kills": count}
        line["fit_s"] = round(time.perf_counter() - started, 2)
        code = os.waitpid(start(lambda out=out, file=file: score(test, out, file, device)), 0)[1]
        if code:
            yield line | {"error": "no model"}
            continue
        same = first.exists() and (out / "manifest.json").read_bytes() == first.read_bytes()
        yield line | {"same": same, "seconds": round(time.perf_counter() - started, 2), **json.loads(file.read_text())}


def read(options: argparse.Namespace) -> tuple[Dataset, Dataset]:
    folder = options.data / options.name
    where = folder if folder.is_dir() else options.name
    train = Dataset.read(where, "train")
    test = Dataset.read(where, "test").align(train.labels)
    if options.rows and options.rows < len(train):
        train = train.take(np.sort(np.random.default_rng(0).permutation(len(train))[: options.rows]))
        test = test.take(np.arange(min(len(test), options.rows)))
    return train, test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", nargs="+", default=["lightxml"])
    parser.add_argument("--name", default="reuters21578-modapte")
    parser.add_argument("--rows", type=int, default=0, help="texts learned from; 0: all")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--set", action="append", default=[], help="a setting, as in `treetop fit`")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=600.0, help="no kill of a recipe after this")
    parser.add_argument("--only-killed", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    unpack(options.data)
    data = read(options)
    for recipe in options.recipe:
        for line in runs(recipe, options, *data):
            line |= {"data": options.name, "rows": len(data[0]), "epochs": options.epochs}
            print(json.dumps(line), flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
