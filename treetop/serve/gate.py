"""The outermost layer: who may ask, how much and how long; every answer, good or bad, goes out here, in one piece."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from pydantic import ValidationError

from treetop.core.errors import TreetopError
from treetop.core.log import logger
from treetop.serve.guard import Guard
from treetop.serve.metrics import ROUTES
from treetop.serve.problem import Problem, of_error, of_validation
from treetop.serve.reply import Reply
from treetop.serve.routes.predict import Predict
from treetop.serve.service import Service
from treetop.serve.settings import BODY, SECONDS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
NUMBERS = {route: number for number, route in enumerate(ROUTES)}
PREDICT = "/v1/predict"
KINDS = {"reload": "admin", "rollback": "admin", "model": "models", "report": "models"}
DRAINED = 8 * BODY  # bytes
DEEPEST = 8  # calls of a trace in the log
UNCOUNTED = {"/healthz", "/readyz", "/metrics"}  # must answer under any load


class Gate:
    """An ASGI application around another; `predict` is called without it."""

    def __init__(self, service: Service, app: Any, predict: Predict) -> None:
        self.service, self.app, self.predict = service, app, predict
        self.guard = Guard(service.settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = time.perf_counter()
        reply = await self._reply(scope, receive)
        self.service.metrics.count(_route(scope["path"]), reply.status, time.perf_counter() - started)
        head = {"type": "http.response.start", "status": reply.status, "headers": reply.raw_headers()}
        await send(head)
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        try:
            self.guard.check(scope["path"], scope["method"], scope["headers"])
            if _predicts(scope["path"]):
                self.service.pressure.check()
            body = await _whole_body(scope, receive)
            if scope["method"] == "POST" and scope["path"] == PREDICT:
                return await self.predict(body)
            _check_query(scope["query_string"])
            if scope["method"] == "HEAD":  # the protocol sends the head of the answer alone
                scope = {**scope, "method": "GET"}
            async with asyncio.timeout(SECONDS):
                return await self._answer(scope, body)
        except Exception as error:
            return refusal(error)

    async def _answer(self, scope: Scope, body: bytes) -> Reply:
        counted = scope["path"] not in UNCOUNTED and not _predicts(scope["path"])
        if not counted:
            return await _through(self.app, scope, body)
        self.service.pressure.enter_other()
        try:
            return await _through(self.app, scope, body)
        finally:
            self.service.pressure.leave_other()


def refusal(error: BaseException) -> Reply:
    """The answer to a request that failed."""
    if isinstance(error, Problem):
        return Reply.of_problem(error)
    if isinstance(error, ValidationError):
        return Reply.of_problem(of_validation(error))
    if isinstance(error, TreetopError):
        return Reply.of_problem(of_error(error))
    if isinstance(error, TimeoutError):
        return Reply.of_problem(Problem(503, f"No answer within {SECONDS:g} s. Send less text, or try again."))
    _log(error)
    return Reply.of_problem(Problem(500, "An error of the server itself; its log says where."))


def _route(path: str) -> int:
    """The number of a path's row of figures."""
    _, first, *rest = f"{path}//".split("/")
    name = KINDS.get(rest[0], rest[0]) if first == "v1" else {"page": "page", "": "page"}.get(first, "other")
    if name == "projects" and "suggest" in path:
        name = "predict"
    return NUMBERS.get(name, NUMBERS["other"])


def _check_query(query: bytes) -> None:
    """Refuse what is not UTF-8; the framework would go on with other characters."""
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        raise Problem(400, "query: not UTF-8. Send its values in UTF-8, percent-encoded.") from None


def _predicts(path: str) -> bool:
    return path == PREDICT or (path.startswith("/v1/projects/") and "/suggest" in path)


async def _whole_body(scope: Scope, receive: Receive) -> bytes:
    """The body, if it is not too large; `protocol.py` closes connections on which it does not come in time.

    Most of what is too large is read to its end, as clients that still send do not see the answer.
    """
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if length.isdigit() and int(length[:20]) > DRAINED:
        raise _too_large()
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "The client went away.")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > BODY:
            parts.clear()
        if size > DRAINED:
            raise _too_large()
    if size > BODY:
        raise _too_large()
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large() -> Problem:
    return Problem(413, f"body: more than {BODY:,} bytes. Send fewer or shorter texts.", {"connection": "close"})


async def _through(app: Any, scope: Scope, body: bytes) -> Reply:
    """The answer of the inner application, in one piece."""
    message: MutableMapping[str, Any] = {"type": "http.request", "body": body, "more_body": False}
    started: MutableMapping[str, Any] = {}
    parts: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        nonlocal message
        given, message = message, {"type": "http.disconnect"}
        return given

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in started["headers"]}
    headers.pop("content-length", None)
    return Reply(
        b"".join(parts), started["status"], headers.pop("content-type", ""),
        csp=headers.pop("content-security-policy", Reply.csp), cache=headers.pop("cache-control", Reply.cache),
        headers=headers,
    )  # fmt: skip


def _log(error: BaseException) -> None:
    """Where an error came from, innermost first, without its message, which may hold a part of a text."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[-DEEPEST:])
    places = (f"{frame.name} ({Path(frame.filename).name}:{frame.lineno})" for frame in frames)
    logger.error("%s in a request: %s", type(error).__name__, " < ".join(places))
