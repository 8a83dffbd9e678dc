"""Build what a release consists of, and try the wheel as a stranger would."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.package.build import release
from tools.package.rooms import Debian, Here, Room, try_in
from tools.records import append, provenance
from treetop.core.version import VERSION

EXAMPLE = "python -m tools.package --here python3.12 --debian trixie:3.13"


def main(words: Sequence[str] | None = None) -> None:
    """The command; it ends with 1 and the reason when something is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tools.package", description=__doc__, epilog=f"Example: {EXAMPLE}")
    parser.add_argument("--out", type=Path, default=Path("build/package"), help="folder for sdist and wheel")
    parser.add_argument("--here", metavar="PYTHON", action="append", default=[], help="try it with this Python")
    parser.add_argument("--debian", metavar="SUITE:VERSION", action="append", default=[],
                        help="try it in a root of this release with this Python")  # fmt: skip
    parser.add_argument("--extras", default="serve", help="what to install with the wheel")
    parser.add_argument("--record", type=Path, help="append a line for each trial to this file")
    options = parser.parse_args(words)
    built = release(Path(), options.out, VERSION)
    for name, sha in built.hashes.items():
        sys.stdout.write(f"{sha}  {name}\n")
    rooms: list[Room] = [Here(python) for python in options.here]
    rooms += [Debian(*place.split(":")) for place in options.debian]
    for room in rooms:
        told = try_in(room, built.wheel, options.extras, options.out / "room")
        steps = ", ".join(f"{step} {seconds} s" for step, seconds in told["seconds"].items())
        sys.stdout.write(f"{room.name}, Python {told['python']}: {steps}\n")
        if options.record:
            wheel = {
                "name": f"python-{told['python'].rpartition('.')[0]}-{options.extras}",
                "wheel": built.hashes[built.wheel.name],
            }
            append(options.record, {**provenance(seed=0), **wheel, **told})


if __name__ == "__main__":
    main()
