"""Set up the peers' environments and run every cell (data set, method, repetition) that has no record yet."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.peers import methods, run
from treetop.core import log
from treetop.core.errors import InputError, TreetopError, choose


def main(words: Sequence[str] | None = None) -> None:
    """The command."""
    options = _parser().parse_args(words)
    usual = [*methods.BIG, *methods.SMALL, methods.SYNTHETIC]
    names = [choose("--dataset", name, methods.ALL) for name in options.dataset or usual]
    bench = run.Bench(options.root, options.data, threads=options.threads, seed=options.seed, run=options.run)
    chosen = methods.select(options.method)
    if not options.data.is_dir() and names != [methods.SYNTHETIC]:
        raise InputError(f"--data {options.data}: no such folder. Give the one that holds {', '.join(names)}.")
    if options.dry_run:
        for name, one, rep in run.plan(chosen, names, options.reps):
            state = "done" if bench.record(name, one, rep) else "to do"
            sys.stdout.write(f"{name}  {one.name}  repetition {rep}  {state}\n")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that the running peer is ended too
    made = run.run(bench, chosen, names, reps=options.reps, fresh=options.fresh)
    sys.stdout.write(f"{len(made)} records in {bench.results}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the data sets")
    parser.add_argument("--dataset", action="append", help="only this data set; repeatable")
    parser.add_argument(
        "--method", action="append", help="only this method; 'peers' or 'treetop': all such; repeatable"
    )
    parser.add_argument("--reps", type=int, default=3, help="repetitions of every cell, interleaved")
    parser.add_argument("--fresh", action="store_true", help="run cells again that have a record")
    parser.add_argument("--dry-run", action="store_true", help="list the cells and stop")
    parser.add_argument("--threads", type=int, default=2, help="threads every system gets")
    parser.add_argument("--seed", type=int, default=0, help="of every system that takes one")
    parser.add_argument("--run", default="peers", help="folder of the records under benchmarks/results")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository: peers/, build/ and benchmarks/")
    return parser


if __name__ == "__main__":
    log.show(bars=False)
    try:
        main()
    except TreetopError as error:
        sys.exit(str(error))
