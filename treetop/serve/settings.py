"""What a server was started with; mistakes are refused before anything is loaded."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from treetop.core.errors import ConfigError, InputError, ModelError

BODY = 2 << 20  # bytes of a request
TEXTS = 32  # in one request
DEEPEST = 1000  # labels of one text
IN_FLIGHT = 512  # texts all workers together may have in hand
SECONDS = 30.0  # until a request is given up
SHUTDOWN = 4.0  # seconds for requests that are being answered when the server is told to stop
SHORTEST_TOKEN = 16
REPORT = "index.html"


@dataclass(frozen=True)
class Settings:
    """Options of `treetop serve`."""

    models: tuple[tuple[str, Path], ...]  # (id, folder)
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str = ""
    feedback: Path | None = None
    report: Path | None = None
    show_texts: bool = False
    device: str = "auto"
    fast: bool = False  # int8 encoders and label search on the CPU
    threads: int = 1  # of each worker
    watch: float = 2.0  # seconds between two looks at the model folders; 0: never

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError("serve: no model. Give at least one model folder.")
        if not self.token and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host}: other machines could use this server. Give --token-file FILE with a secret of at "
                f"least {SHORTEST_TOKEN} characters, or listen on 127.0.0.1."
            )


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def named_models(given: list[str]) -> tuple[tuple[str, Path], ...]:
    """(id, folder) of arguments like FOLDER or NAME=FOLDER; an id is the folder's name unless one is given."""
    found: dict[str, Path] = {}
    for argument in given:
        name, equals, rest = argument.partition("=")
        folder = Path(rest) if equals and not Path(argument).exists() else Path(argument)
        id_ = name if folder == Path(rest) and equals else Path(os.path.abspath(folder)).name  # noqa: PTH100 - no links
        if not id_:
            raise ConfigError(f"serve {argument}: the model has no name. Write NAME=FOLDER.")
        if id_ in found:
            raise ConfigError(f"serve: two models are called '{id_}'. Name one of them: NAME={folder}.")
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such model folder. Give the folder that `treetop fit --out` wrote.")
        found[id_] = folder
    return tuple(found.items())


def read_token(file: Path | None) -> str:
    """The secret in a file, without the line's end; empty where there is no file."""
    if file is None:
        return ""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"--token-file {file}: could not be read ({reason}). Give a file with one secret.") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"--token-file {file}: holds no usable secret. Allowed: at least {SHORTEST_TOKEN} printable ASCII "
            "characters without blanks, such as `openssl rand -hex 32` writes."
        )
    return token


def check_report(folder: Path | None, models: Sequence[tuple[str, Path]]) -> Path | None:
    """A folder with a report of one of the models, or None."""
    if folder is not None and all(find_report(folder, id_, models) is None for id_, _ in models):
        where = "index.html" if len(models) == 1 else f"report of a model, such as {models[0][0]}/index.html"
        raise InputError(f"--report {folder}: has no {where}. Give a folder that `treetop evaluate --report` wrote.")
    return folder


def find_report(folder: Path, id_: str, models: Sequence[tuple[str, Path]]) -> Path | None:
    """The page of a model's report: in a folder of its id, or, where there is one model only, in the folder itself."""
    pages = [folder / id_ / REPORT, *([folder / REPORT] if len(models) == 1 else [])]
    return next((page for page in pages if page.is_file()), None)
