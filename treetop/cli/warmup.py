"""`treetop warmup`: the numeric kernels are compiled now, so that later commands need not."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from treetop.cli.streams import confirm

GROUPS = {"baselines", "linear, trees"}  # recipes whose kernels are compiled; networks run in torch
DOCUMENTS, LABELS = 6000, 100  # of the small data: enough documents for held-out ones


def warmup() -> None:
    """Compile the numeric kernels for this machine: train, save, load and ask a small model of every linear recipe."""
    from treetop.core import log
    from treetop.core.leftovers import temporary
    from treetop.kernels.runtime import cache

    started, folder = time.monotonic(), cache.folder()
    before = _files(folder)
    with tempfile.TemporaryDirectory() as work, temporary(Path(work)), log.quiet():
        for recipe in _recipes():
            _use(recipe, Path(work) / recipe)
    place = "for this process only, as there is no folder to keep them in" if folder is None else f"in {folder}"
    new = _files(folder) - before
    confirm(f"kernels compiled {place}: {new} new, {time.monotonic() - started:.0f} s")


def _recipes() -> list[str]:
    from treetop.augment.compose import constant
    from treetop.core import registry

    return [name for name in registry.names("recipe") if constant(name, "GROUP", "") in GROUPS]


def _use(recipe: str, folder: Path) -> None:
    """Every command once, on arrays in memory and on those of a loaded model, which are read-only."""
    from treetop.data.frame import from_lists
    from treetop.model import load
    from treetop.training import fit

    labels = [[f"label{i % LABELS}", f"group{i % 7}"] for i in range(DOCUMENTS)]
    train, test = (
        from_lists([f"word{i % 17} word{i % LABELS}{more}" for i in range(DOCUMENTS)], labels) for more in ("", " new")
    )
    model = fit(recipe, train, out=folder)
    for opened in (model, load(folder)):
        opened.evaluate(test, resamples=2)
        opened.predict([train.texts[0]])
        opened.explain(train.texts[0], k=1)


def _files(folder: Path | None) -> int:
    from treetop.kernels.runtime.cache import ANNOUNCED

    return 0 if folder is None else sum(file.name != ANNOUNCED for file in folder.iterdir())
