"""A request to `/v1/predict` answered by the protocol itself, without a task of its own.

What a task, its messages and its timeouts cost is as much as the model's part of the answer; a refusal under overload
must cost next to nothing. Whatever is unusual about a request goes through the gate as any other does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from treetop.serve.gate import NUMBERS, PREDICT, Gate, refusal
from treetop.serve.reply import OF_JSON, Reply
from treetop.serve.sockets import unread_seconds

Headers = list[tuple[bytes, bytes]]
ADDRESS = PREDICT.encode()
LARGEST = 1 << 16  # bytes of a body; larger ones need flow control
ROUTE = NUMBERS["predict"]
UNUSUAL = {b"expect", b"transfer-encoding", b"upgrade"}  # headers


class Direct:
    """One request and its answer; stands where uvicorn's protocol expects its own `RequestResponseCycle`."""

    __slots__ = ("body", "defaults", "disconnected", "gate", "headers", "keep_alive", "more_body", "on_response",
                 "response_complete", "since", "socket", "transport")  # fmt: skip
    message_event = asyncio.Event()  # the protocol sets it; nobody waits for it

    def __init__(
        self, gate: Gate, headers: Headers, defaults: Headers, transport: asyncio.Transport, socket: Any,
        keep_alive: bool, on_response: Callable[[], None],
    ) -> None:  # fmt: skip
        self.gate, self.headers, self.transport, self.socket = gate, headers, transport, socket
        self.defaults = defaults  # headers of every answer: the date
        self.keep_alive, self.on_response = keep_alive, on_response
        self.body = bytearray()
        self.more_body, self.disconnected, self.response_complete = True, False, False

    def start(self) -> None:
        """Answer, now that all of the body is here: refusals at once, the rest when its batch is computed."""
        self.since = time.perf_counter()
        try:
            self.gate.guard.check(PREDICT, "POST", self.headers)
            self.gate.service.pressure.check(unread_seconds(self.socket))
            self.gate.predict.start(bytes(self.body), self._finish)
        except Exception as error:
            self._finish(error)

    def _finish(self, answer: Reply | BaseException) -> None:
        reply = answer if isinstance(answer, Reply) else refusal(answer)
        self.gate.service.metrics.count(ROUTE, reply.status, time.perf_counter() - self.since)
        if self.disconnected or self.transport.is_closing():
            return
        self.transport.write(_head(reply, self.defaults, self.keep_alive) + reply.body)
        self.response_complete = True
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def is_usual(headers: Headers) -> bool:
    """Whether a request's body has a known, small size, and nothing else is asked for."""
    sizes = [value for name, value in headers if name == b"content-length"]
    if len(sizes) != 1 or not sizes[0].isdigit() or int(sizes[0][:20]) > LARGEST:
        return False
    return not any(name in UNUSUAL for name, _ in headers)


def _head(reply: Reply, defaults: Headers, keep_alive: bool) -> bytes:
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    headers = USUAL % len(reply.body) if reply.status == 200 else _lines(reply.raw_headers())
    return b"".join((STATUS_LINE[reply.status], _lines(defaults), headers, end))


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


USUAL = b"content-length: %d\r\n" + _lines(OF_JSON)
