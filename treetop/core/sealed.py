"""Sealed JSON: canonical bytes with their own hash, so that any changed byte is detected."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

from treetop.core.errors import ModelError
from treetop.core.folder import read_plain

Check = Literal["quick", "full"]
DEEPEST = 100  # maximum nesting of lists and objects


def seal(values: Mapping[str, Any]) -> bytes:
    """Canonical JSON with a hash of itself."""
    body = {key: value for key, value in values.items() if key != "sha256"}
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return canonical({**body, "sha256": digest})


def canonical(values: Mapping[str, Any]) -> bytes:
    """The same bytes for the same values."""
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def unseal(file: Path, *, check: Check = "full") -> dict[str, Any]:
    """The values of a sealed file; a full check refuses any byte that is not as `seal` wrote it."""
    return unsealed(read_plain(file), file, check=check)


def read_bytes(file: Path) -> bytes:
    """A small plain file outside a model; it may be a link."""
    return read_plain(file.resolve())


def unsealed(raw: bytes, file: Path, *, check: Check = "full") -> dict[str, Any]:
    """`unseal` of bytes that were read from `file`."""
    try:
        values = parse(raw)
    except ValueError as error:
        raise ModelError(f"{file}: not valid JSON ({error}). The file is damaged; copy the model again.") from None
    if not isinstance(values, dict):
        raise ModelError(f"{file}: expected a JSON object, got {type(values).__name__}.")
    if check == "full" and seal(values) != raw:
        raise ModelError(f"{file}: changed after it was written (its hash does not match).")
    return values


def parse(raw: bytes) -> Any:
    """Values of strict JSON: UTF-8, finite numbers, 64-bit integers, no deep nesting; else ValueError."""
    try:
        values = _decoder.decode(raw.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if raw.count(b"[") + raw.count(b"{") > DEEPEST:
        _check_depth(values)
    if b"\\ud" in raw.lower():  # half of a surrogate pair, which UTF-8 cannot encode
        json.dumps(values, ensure_ascii=False).encode()
    return values


def _check_depth(values: Any) -> None:
    layer = [values]
    for _ in range(DEEPEST):
        inner = [item.values() if isinstance(item, dict) else item for item in layer if isinstance(item, dict | list)]
        layer = [value for values in inner for value in values]
        if not layer:
            return
    raise ValueError("nested too deeply")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits[:20])


def _whole(digits: str) -> int:
    number = int(digits) if len(digits) <= 20 else 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"the whole number {digits[:20]}... has more than 64 bits")
    return number


_decoder = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
