"""uvicorn's HTTP protocol with limits it lacks: silent connections, slow headers, headers without end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from treetop.serve.direct import ADDRESS, Direct, is_usual
from treetop.serve.gate import Gate
from treetop.serve.problem import TYPE, Problem
from treetop.serve.sockets import has_unread

SLOW = 10.0  # seconds from a request's first byte to its last
LARGEST_HEADERS = 1 << 16  # bytes
AHEAD = 32  # requests that may follow one that is not answered yet; each takes a hundred times its bytes in memory
KEEP_ALIVE = 75  # seconds a connection may be silent: longer than clients keep one, so that they are the ones to close


class OneWrite:
    """A transport that keeps the head of an answer until its body follows: one system call, one packet."""

    __slots__ = ("close", "head", "is_closing", "transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport, self.head = transport, b""
        self.close, self.is_closing = transport.close, transport.is_closing

    def write(self, data: bytes) -> None:
        """Send, but for the head; nothing, where the client has gone."""
        if self.is_closing():
            return
        if self.head:
            self.transport.write(self.head + data)
            self.head = b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self.head = data
        else:
            self.transport.write(data)


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    _size = 0
    _since = 0.0  # when the connection, or the request that is arriving, began; 0: a request is being answered
    _idle_since = 0.0  # when the last answer went out; 0: there is a request
    _socket: Any = None
    _ending = False  # the server ends: the next answer is the last

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        self._since, self._socket = self.loop.time(), transport.get_extra_info("socket")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone. Its last answer refers to it: released here, or else both wait for the collector."""
        super().connection_lost(exc)
        self.cycle = None  # type: ignore[assignment]

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._size, self._since, self._idle_since = 0, self.loop.time(), 0.0

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, with a colon, a blank and the line's end."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The application begins to answer, or waits for the body of a request that is answered here."""
        if len(self.pipeline) >= AHEAD:
            raise ValueError("too many requests ahead")  # the parser turns it into a 400
        gate: object = self.app
        if isinstance(gate, Gate) and self._answers_directly():
            keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
            keep_alive = keep_alive and not self._ending
            self.cycle = Direct(  # type: ignore[assignment]
                gate, self.headers, self.server_state.default_headers, self.transport, self._socket, keep_alive,
                self.on_response_complete,
            )  # fmt: skip
            return
        super().on_headers_complete()
        self.cycle.keep_alive = self.cycle.keep_alive and not self._ending
        if self.scope["method"] != "HEAD":
            self.cycle.transport = OneWrite(self.transport)  # type: ignore[assignment]

    def _answers_directly(self) -> bool:
        is_free = self.cycle is None or self.cycle.response_complete  # or else answers would change places
        is_read = not self.flow.write_paused  # a client that reads no answers is made to wait
        called = self.url == ADDRESS and self.parser.get_method() == b"POST"
        return called and is_free and is_read and is_usual(self.headers)

    def on_message_complete(self) -> None:
        """All of the request is here."""
        self._since = 0.0
        super().on_message_complete()
        if isinstance(self.cycle, Direct) and not self.cycle.more_body and not self.cycle.response_complete:
            self.cycle.start()

    def on_response_complete(self) -> None:
        """An answer went out; a timer for each, as uvicorn has it, would cost more than a look at all once a second."""
        if self.pipeline or self.flow.read_paused:
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1
            self._idle_since = self.loop.time()

    def close_if_late(self, now: float) -> None:
        """Refuse a request that has been arriving for too long, or close a connection on which none came.

        After a pause of the machine a request may be there that nobody had the time to read. Where the server ends, the
        rest of a request is not waited for.
        """
        if self._ending and self._since and not has_unread(self._socket):
            self.transport.close()
        is_old = self._idle_since and now - self._idle_since > KEEP_ALIVE
        if is_old and not has_unread(self._socket):
            self.transport.close()
        if self._since and now - self._since > SLOW and not self.transport.is_closing():
            self._refuse(408, f"The request did not arrive within {SLOW:g} s. Send it faster.")

    def shutdown(self) -> None:
        """The server ends: requests that lie here are answered, those that have not arrived are not waited for."""
        self._ending = True
        if not (self._since or self.cycle is None or self.cycle.response_complete):
            super().shutdown()
        elif not has_unread(self._socket):
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the form of all refusals."""
        is_hasty = len(self.pipeline) >= AHEAD
        hasty = f"More than {AHEAD} requests on a connection before the first is answered. Wait for answers."
        self._refuse(400, hasty if is_hasty else "Not a valid HTTP request, or its headers are too large.")

    def _refuse(self, status: int, sentence: str) -> None:
        body = Problem(status, sentence).body
        head = (STATUS_LINE[status], b"content-type: ", TYPE.encode(), b"\r\ncontent-length: ", b"%d" % len(body))
        self.transport.write(b"".join([*head, b"\r\nconnection: close\r\n\r\n", body]))
        self.transport.close()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > LARGEST_HEADERS:
            raise ValueError("headers too large")  # the parser turns it into a 400
