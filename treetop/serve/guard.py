"""Who may ask: a bearer token, or, without one, programs and pages of this machine only."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from treetop.serve.problem import Problem
from treetop.serve.settings import is_loopback

OPEN = ("/healthz", "/readyz", "/")  # with the page's own files: what needs no token
FRAMED = "/v1/report"  # shown in a frame, which sends no such header: a cookie for this address alone does as well
COOKIE = "treetop-token"


@dataclass(frozen=True)
class Guard:
    """Checks the headers of a request."""

    token: str = ""

    def check(self, path: str, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse a request that may not be made."""
        found = dict(headers)
        if self.token:
            if path not in OPEN and not path.startswith("/page/"):
                given = found.get(b"authorization", b"")
                self._check_token(given or (_cookie(found.get(b"cookie", b"")) if path == FRAMED else b""))
        else:  # a page of another site could have the browser ask; names that point here by trickery are refused
            host = found.get(b"host", b"").decode("latin-1")
            if not is_loopback(_hostname(f"//{host}")):
                raise Problem(
                    403,
                    f"Host '{host}': this server answers this machine only. Ask 127.0.0.1, or start it with a token.",
                )
        if method not in {"GET", "HEAD"} and (origin := found.get(b"origin")) is not None:
            site, host = origin.decode("latin-1"), found.get(b"host", b"").decode("latin-1")
            if urlsplit_netloc(site) != host:
                raise Problem(403, f"Origin '{site}': only this server's own page may send this from a browser.")

    def allows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request has the token, or none is needed."""
        return not self.token or self._matches(dict(headers).get(b"authorization", b""))

    def _check_token(self, given: bytes) -> None:
        if not self._matches(given):
            raise Problem(
                401,
                "Authorization: missing or wrong token. Send 'Authorization: Bearer TOKEN'.",
                {"www-authenticate": "Bearer"},
            )

    def _matches(self, given: bytes) -> bool:
        scheme, _, token = given.partition(b" ")
        return hmac.compare_digest(token.strip(), self.token.encode()) and scheme.lower() == b"bearer"


def _cookie(header: bytes) -> bytes:
    """What the page's cookie stands for, as an Authorization header would have it; empty where there is none."""
    for pair in header.decode("latin-1").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return b"Bearer " + unquote_to_bytes(value)
    return b""


def urlsplit_netloc(url: str) -> str:
    """Host and port of an address; empty where it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


@lru_cache(256)
def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
