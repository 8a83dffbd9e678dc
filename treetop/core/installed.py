"""How this package was installed, so that a hint how to install more of it works when it is copied."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "treetop"


def command_for(extra: str) -> str:
    """The command that adds an extra: by pipx, uv or pip, of a clone that is edited, or of an address.

    >>> command_for("data").endswith("[data]'")
    True
    """
    wanted = f"{NAME}[{extra}]"
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx install --force '{wanted}'"
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        return f"uv tool install '{wanted}'"
    installer, address, editable = _record()
    pip = "uv pip install" if installer == "uv" else "pip install"
    if address.startswith("file:"):
        place = shlex.quote(unquote(urlsplit(address).path))
        quoted = f"{place[:-1]}[{extra}]'" if place.endswith("'") else f"'{place}[{extra}]'"
        return f"{pip} {'-e ' if editable else ''}{quoted}"
    return f"{pip} '{wanted} @ {address}'" if address else f"{pip} '{wanted}'"


def _record() -> tuple[str, str, bool]:
    """(installer, address it was installed from, whether that folder is used as it is); empty where not known."""
    try:
        found = metadata.distribution(NAME)
        installer, told = (found.read_text("INSTALLER") or "").strip(), found.read_text("direct_url.json")
        direct = json.loads(told) if told else {}
        address, kind = str(direct.get("url", "")), direct.get("vcs_info", {}).get("vcs", "")
        return installer, f"{kind}+{address}" if kind else address, bool(direct.get("dir_info", {}).get("editable"))
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return "", "", False
