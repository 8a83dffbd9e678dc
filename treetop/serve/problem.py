"""Errors as RFC 9457 problem documents: a status, a title and one sentence."""

from __future__ import annotations

import json
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError

from treetop.core.errors import (
    ConfigError,
    InputError,
    LabelError,
    ModelError,
    ResourceError,
    TreetopError,
    shortened,
    visible,
)

TYPE = "application/problem+json"
SHOWN = 60  # characters of a wrong value in a sentence
STATUS: dict[type[TreetopError], int] = {LabelError: 404, InputError: 422, ConfigError: 422, ModelError: 503}


class Problem(Exception):
    """A refused request: its status, one sentence, and headers of the answer."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    @property
    def body(self) -> bytes:
        """The problem document."""
        return _document(self.status, self.detail)


class Busy(Problem):
    """A refusal that is given thousands of times a second: its documents, which differ by a count, are kept."""

    @property
    def body(self) -> bytes:
        """The problem document."""
        return _kept_document(self.status, self.detail)


def _document(status: int, detail: str) -> bytes:
    sentence = visible(shortened(" ".join(detail.split()), 500))
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": sentence}
    return json.dumps(document).encode()


_kept_document = lru_cache(1024)(_document)


def of_error(error: TreetopError) -> Problem:
    """The problem that an error of the library is to a client."""
    if isinstance(error, ResourceError):
        return Problem(507, str(error))
    return Problem(next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500), str(error))


def of_validation(error: ValidationError) -> Problem:
    """The first mistake in a body, as one sentence."""
    return of_mistakes(error.errors(include_url=False))


def of_mistakes(mistakes: Any) -> Problem:
    """The first of pydantic's mistakes, as one sentence."""
    first = mistakes[0]
    where = ".".join(str(part) for part in first["loc"] if part not in {"query", "path"}) or "body"
    if first["type"] in {"json_invalid", "value_error.jsondecode"}:
        return Problem(400, f"body: not valid JSON in UTF-8 ({first['msg']}). Send a JSON object.")
    if first["type"] == "model_attributes_type" and isinstance(first.get("input"), str | bytes):
        return Problem(422, "body: not read as JSON. Send a JSON object with Content-Type: application/json.")
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    got = "" if first["type"] == "missing" else f", got {_shown(first.get('input'))}"
    return Problem(422, f"{where}: {message}{got}. /openapi.json says what is allowed.")


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**SHOWN:
        return "a number of many digits"
    return shortened(repr(value), SHOWN)
