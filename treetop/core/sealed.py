"""Sealed JSON: canonical bytes that carry their own hash, so that any changed byte shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from treetop.core.errors import ModelError

Check = Literal["quick", "full"]
LARGEST = 64 << 20  # bytes of a file that is read at once


def seal(values: Mapping[str, Any]) -> bytes:
    """Canonical JSON with a hash of itself, so that any changed byte shows."""
    body = {key: value for key, value in values.items() if key != "sha256"}
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return canonical({**body, "sha256": digest})


def canonical(values: Mapping[str, Any]) -> bytes:
    """The same bytes for the same values."""
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def unseal(file: Path, *, check: Check = "full") -> dict[str, Any]:
    """The values of a sealed file; a full check refuses any byte that is not as `seal` wrote it."""
    raw = read_bytes(file)
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file}: not valid JSON ({error}). The file is damaged; copy the model again.") from None
    if not isinstance(values, dict):
        raise ModelError(f"{file}: expected a JSON object, got {type(values).__name__}.")
    if check == "full":
        try:
            intact = seal(values) == raw
        except (ValueError, UnicodeEncodeError, RecursionError):
            intact = False
        if not intact:
            raise ModelError(f"{file}: changed after it was written (its own hash does not match).")
    return values


def read_bytes(file: Path) -> bytes:
    """A file that must not be large."""
    try:
        if file.stat().st_size > LARGEST:
            raise ModelError(f"{file}: {file.stat().st_size:,} bytes, allowed are {LARGEST:,}.")
        return file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror}).") from None
