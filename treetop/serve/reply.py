"""An answer before it is sent: status, body, headers; and the headers every answer has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from treetop.serve.problem import TYPE, Problem

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
REPORT_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " + (
    "frame-ancestors 'self'; sandbox"
)
ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


JSON = "application/json"
OF_JSON = [(b"content-type", JSON.encode()), (b"cache-control", b"no-store"), *ALWAYS]


@dataclass
class Reply:
    """What goes back to a client."""

    body: bytes = b""
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    csp: str = CSP
    cache: str = "no-store"

    @classmethod
    def of_problem(cls, problem: Problem) -> Reply:
        """A refusal."""
        return cls(problem.body, problem.status, TYPE, problem.headers)

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """All headers; the policy is for what a browser may show as a page."""
        size = (b"content-length", b"%d" % len(self.body))
        if self.media == JSON and not self.headers:
            return [size, *OF_JSON]
        own = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in self.headers.items()]
        typed = [] if self.status in {204, 304} else [(b"content-type", self.media.encode())]
        policy = [(b"content-security-policy", self.csp.encode())]
        return [size, *typed, (b"cache-control", self.cache.encode()), *policy, *ALWAYS, *own]


def as_json(value: Any) -> bytes:
    """Compact JSON in UTF-8; what is not finite is null."""
    return to_json(value, inf_nan_mode="null")
