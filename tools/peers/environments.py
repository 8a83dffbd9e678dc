"""One virtual environment per peer under `peers/`, made once; ours is the interpreter that runs the benchmark."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from treetop.core.errors import ResourceError, choose
from treetop.core.log import logger

TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Environment:
    """What is installed for a peer, in order; later steps are held to the pins of earlier ones."""

    name: str
    steps: tuple[tuple[str, ...], ...]


# torch comes first and pinned where a peer wants it: left alone, the peers pull a release with 4 GB of GPU libraries.
ENVIRONMENTS = {
    env.name: env
    for env in (
        Environment("libpecos", ((TORCH,), ("libpecos==1.2.8",))),
        Environment("omikuji", (("omikuji==0.5.2", "numpy", "scipy"),)),
        Environment("napkinxc", (("napkinxc==0.7.2", "numpy", "scipy"),)),
        Environment("annif", (("annif==1.4.3",),)),
        Environment("libmultilabel", ((TORCH,), ("libmultilabel==0.10.0", "scikit-learn"))),
    )
}


def python_of(name: str | None, root: Path) -> Path:
    """The interpreter of an environment (None: our own)."""
    return Path(sys.executable) if name is None else root / name / "bin" / "python"


def set_up(name: str, root: Path) -> Path:
    """The interpreter of peer `name`, after making its environment if it is not there or has other contents."""
    env = ENVIRONMENTS[choose("environment", name, ENVIRONMENTS)]
    folder, python = root / name, python_of(name, root)
    marker, wanted = folder / ".ready", "\n".join(" ".join(step) for step in env.steps) + "\n"
    if marker.exists() and marker.read_text() == wanted:
        return python
    logger.info("%s: setting up its environment in %s", name, folder)
    folder.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(folder)], name)
    pins = folder / "pins.txt"
    pins.write_text("")
    for step in env.steps:
        _call([str(python), "-m", "pip", "install", "--quiet", "-c", str(pins), *step], name)
        pins.write_text(pins.read_text() + "".join(f"{package}\n" for package in step if "==" in package))
    marker.write_text(wanted)
    return python


def _call(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = " ".join(done.stderr.strip().splitlines()[-3:])
        raise ResourceError(f"{name}: '{' '.join(command[1:])}' ended with {done.returncode}: {tail}")
