"""Models that are loaded while another process puts others in their place, again and again.

A writer saves two models over each other (one has changed labels, and changes them once more in place) and takes the
folder away now and then. Each load answers exactly as one of the models that were ever there, or is a TreetopError.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

import toy
import treetop
from treetop.core.errors import TreetopError

from .harness import Case, Part, main

TINY = {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5}, "trees": 1}
NAMES = ("parabel", "edited", "edited again")
TEXTS = ["cat and horses", "river stones", "dog fishs bread"]
PAUSE = 0.02  # seconds at most between two loads, so that they meet a save at every point


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--loads", type=int, default=5000, help="of `replacement`: number of loads")


def prepare(home: Path, options: Namespace) -> None:
    """Two models of different sizes, one with a log of label changes, and what they answer."""
    treetop.fit("parabel", toy.dataset(), settings=TINY, out=home / "parabel", threads=1)
    model = treetop.fit("neighbours", toy.dataset(seed=1, n=90), threads=1)
    model.save(home / "edited")
    treetop.load(home / "edited").retire_labels(["L01", "L02"]).save(home / "edited")
    shutil.copytree(home / "edited", home / "edited again")
    treetop.load(home / "edited again").retire_labels(["L05"]).save(home / "edited again")
    (home / "answers.json").write_text(json.dumps([answers(home / name) for name in NAMES]))
    assert len({*known(home)}) == len(NAMES)  # or the cases could not tell them apart


def answers(folder: Path, check: str = "quick") -> str:
    """What the model in a folder answers, and what it says of itself."""
    model = treetop.load(folder, check=check)  # type: ignore[arg-type]
    rows = [[(label.id, label.name, label.score) for label in row] for row in model.predict(TEXTS, 9)]
    return str((model.card.recipe, len(model.labels), rows))


@functools.cache
def known(home: Path) -> list[str]:
    return list(json.loads((home / "answers.json").read_text()))


@functools.cache
def writer(home: Path) -> tuple[int, Path]:
    """A process that writes for as long as this one lives, and the folder it writes."""
    place = home / f"replaced-{os.getpid()}"
    place.mkdir()
    parent = os.getpid()
    child = os.fork()
    if not child:
        code = 1
        try:
            write(home, place, parent)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child, place / "m"


def write(home: Path, place: Path, parent: int) -> None:
    """Save the models over each other, in every order, until the parent is gone."""
    random = np.random.default_rng(parent)
    one, other = treetop.load(home / "parabel"), treetop.load(home / "edited")
    for model in itertools.cycle((one, other)):
        if os.getppid() != parent:
            return
        model.save(place / "m", overwrite=True)
        if model is other:
            with contextlib.suppress(TreetopError):
                treetop.load(place / "m").retire_labels(["L05"]).save(place / "m")
        if random.random() < 0.02:
            (place / "m").rename(place / "gone")  # at once: of a model that is removed file by file some are there
            shutil.rmtree(place / "gone")


def case(case: Case) -> str:
    """One load from the folder that is being replaced."""
    child, folder = writer(case.home)
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "the writer has ended"
    time.sleep(case.random.random() * PAUSE)
    check = "full" if case.random.random() < 0.2 else "quick"
    found = answers(folder, check)
    assert found in known(case.home), f"none of the models answers so ({check}): {found[:300]}"
    return NAMES[known(case.home).index(found)]


def total(home: Path, options: Namespace) -> int:
    return int(options.loads)


PART = Part("replacement", case, prepare, arguments, total, batch=500)

if __name__ == "__main__":
    main(PART, module="tests.fuzz.replacement")
