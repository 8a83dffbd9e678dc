"""Encoders on a hub: a name stands for one commit there, which is downloaded and kept in the settings of a model."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from treetop.core.errors import extra

WAIT = 5.0  # seconds for the hub to answer at all; its client's own tries take half a minute
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json", "model-*.safetensors"]


def at_commit(name: str) -> str:
    """`owner/name@commit` for `owner/name`, or for `owner/name@branch`; raises what the hub's client raises."""
    repository, _, revision = name.partition("@")
    if COMMIT.fullmatch(revision):
        return name
    hub = _client()
    try:
        _knock(hub)
        config = Path(
            hub.hf_hub_download(repository, "config.json", revision=revision or None, endpoint=_endpoint(hub))
        )
    except Exception:
        downloaded = cached(name, "config.json")
        if downloaded is None:
            raise
        config = downloaded
    return f"{repository}@{config.parent.name}"  # its folder is that of a commit


def cached(name: str, file: str) -> Path | None:
    """A file of an encoder that was downloaded before."""
    repository, _, revision = name.partition("@")
    found = extra("huggingface_hub", "torch").try_to_load_from_cache(repository, file, revision=revision or None)
    return Path(found) if isinstance(found, str) else None


def download(name: str) -> Path:
    """The folder with the files of `owner/name@commit`; raises what the hub's client raises."""
    repository, _, commit = name.partition("@")
    hub = _client()
    if cached(name, "tokenizer.json") is None:
        _knock(hub)
    return Path(hub.snapshot_download(repository, revision=commit, allow_patterns=FILES, endpoint=_endpoint(hub)))


def _client() -> Any:
    tools = extra("huggingface_hub.utils", "torch")
    tools.logging.set_verbosity_error()  # it logs every attempt; ours reports the result
    tools.disable_progress_bars()
    return extra("huggingface_hub", "torch")


def _endpoint(hub: Any) -> str:
    return os.environ.get("HF_ENDPOINT") or str(hub.constants.ENDPOINT)


def _knock(hub: Any) -> None:
    extra("huggingface_hub.utils", "torch").get_session().head(_endpoint(hub), timeout=WAIT)
