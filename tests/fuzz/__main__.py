"""`python -m tests.fuzz`: all parts, one after the other."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from .harness import Case, Part, main

PARTS = ("models", "readers", "settings", "replacement", "io_faults")


def part(name: str) -> Part:
    """The part in a file of this name."""
    module = importlib.import_module(f"{__package__}.{name}")
    return readers(module) if name == "readers" else module.PART


def readers(module: Any) -> Part:
    """The readers, which also run by themselves, as cases: formats in turn, and a seed for each mutation."""

    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--formats", default="all", help="of `readers`: names with commas, or all")

    def case(case: Case) -> str:
        names = module.formats(case.options.formats)
        round_, place = divmod(case.number, len(names))
        with tempfile.TemporaryDirectory(dir=case.home) as folder:
            outcome = module.read_case(names[place], case.options.seed * 10**6 + round_, Path(folder))
        return f"{names[place]}: {outcome}"

    return Part("readers", case, arguments=arguments, patience=30.0)


if __name__ == "__main__":
    here = [name for name in PARTS if importlib.util.find_spec(f"{__package__}.{name}")]
    main(*map(part, here), module="tests.fuzz")
