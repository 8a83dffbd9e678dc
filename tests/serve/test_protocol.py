import asyncio
import gc
import socket
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn")

from uvicorn import Config
from uvicorn.server import ServerState

from treetop.serve.gate import Gate
from treetop.serve.protocol import KEEP_ALIVE, SLOW, LimitedProtocol
from treetop.serve.reply import Reply
from treetop.serve.settings import Settings

HEAD = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"


class Wire(asyncio.Transport):
    """What is written to a client, and whether its connection was closed."""

    def __init__(self, **extra):
        super().__init__()
        self.sent, self.closed, self.extra = b"", False, extra

    def write(self, data):
        self.sent += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name, default=None):
        return self.extra.get(name, default)

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def nothing(scope, receive, send):
    await receive()


def after(seconds, *pieces):
    """Whether a client that sent `pieces` was cut off so much later, and what it was told."""

    async def run():
        config = Config(nothing, lifespan="off", log_config=None)
        config.load()
        wire, protocol = Wire(), LimitedProtocol(config, ServerState(), {})
        protocol.connection_made(wire)
        for piece in pieces:
            protocol.data_received(piece)
        protocol.close_if_late(asyncio.get_running_loop().time() + seconds)
        closed = wire.closed
        protocol.connection_lost(None)
        return closed, wire.sent

    return asyncio.run(run())


@pytest.mark.parametrize("pieces", [(), (HEAD[:30],), (HEAD,), (HEAD + b"\r\n", b"abc")])
def test_requests_that_do_not_arrive_are_refused(pieces):
    closed, sent = after(SLOW + 1, *pieces)
    assert closed and sent.startswith(b"HTTP/1.1 408") and b"did not arrive within 10 s" in sent
    assert after(SLOW - 1, *pieces) == (False, b"")


class Answers:
    """Answers every request to `/v1/predict` at once."""

    def start(self, body, done):
        done(Reply(b"{}"))


def answered(sock):
    """What a client sees, and a connection that has answered its first request."""
    always = SimpleNamespace(check=lambda *_: None, count=lambda *_: None)
    service = SimpleNamespace(settings=Settings((("toy", Path()),)), pressure=always, metrics=always)
    config = Config(Gate(service, nothing, Answers()), lifespan="off", log_config=None)
    config.load()
    config.loaded_app = config.app  # without what uvicorn puts around it
    wire, protocol = Wire(socket=sock), LimitedProtocol(config, ServerState(), {})
    protocol.connection_made(wire)
    protocol.data_received(HEAD + b"\r\nabcde")
    assert wire.sent.startswith(b"HTTP/1.1 200")
    return wire, protocol


def test_a_connection_that_is_gone_is_freed_at_once():
    """A reference from its last answer would keep it until the collector of cycles comes by, after minutes of load."""

    async def run(sock):
        _, protocol = answered(sock)
        protocol.connection_lost(None)
        return weakref.ref(protocol)

    gc.disable()
    try:
        with socket.socket() as sock:
            assert asyncio.run(run(sock))() is None
    finally:
        gc.enable()


def connected(run):
    """Run with both ends of a connection, the server's first."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            asyncio.run(run(accepted, client))


@pytest.mark.parametrize("rest", [b"\r\nabcde", b"expect: none\r\n\r\nabcde"], ids=["direct", "general"])
def test_a_request_that_lies_unread_when_the_server_ends_is_answered(rest):
    """Closing a connection with bytes in it resets it, so that the client would not know whether it was heard."""

    async def run(sock, client):
        wire, protocol = answered(sock)
        client.sendall(HEAD + rest)
        protocol.shutdown()
        assert not wire.closed
        wire.sent = b""
        protocol.data_received(sock.recv(1000))
        for _ in range(10):
            await asyncio.sleep(0)
        assert b"connection: close" in wire.sent and wire.closed
        protocol.connection_lost(None)

    connected(run)


def test_the_rest_of_a_request_is_not_waited_for_when_the_server_ends():
    async def run(sock, client):
        wire, protocol = answered(sock)
        client.sendall(HEAD)
        protocol.shutdown()
        protocol.data_received(sock.recv(1000))
        assert not wire.closed
        protocol.close_if_late(asyncio.get_running_loop().time() + 1)
        assert wire.closed and b"408" not in wire.sent

    connected(run)


def test_a_connection_without_a_request_is_closed_when_the_server_ends():
    async def run(sock, client):
        wire, protocol = answered(sock)
        protocol.shutdown()
        assert wire.closed

    connected(run)


def test_a_silent_connection_is_closed_unless_a_request_just_came():
    async def run(sock, client):
        wire, protocol = answered(sock)
        late = asyncio.get_running_loop().time() + KEEP_ALIVE + 1
        protocol.close_if_late(late - 2)
        assert not wire.closed
        client.sendall(HEAD)
        protocol.close_if_late(late)
        assert not wire.closed
        sock.recv(1000)
        protocol.close_if_late(late)
        assert wire.closed

    connected(run)


@pytest.mark.parametrize(("more", "said"), [(32, b""), (33, b"More than 32 requests on a connection")])
def test_requests_that_run_ahead_of_answers_are_limited(more, said):
    """Each of them would take a hundred times its size in memory."""
    closed, sent = after(0, (HEAD + b"\r\nabcde") * (1 + more))
    assert closed is bool(said) and said in sent and sent.startswith(b"HTTP/1.1 400") is bool(said)


def test_a_request_that_is_answered_is_not_late():
    assert after(SLOW + 1, HEAD + b"\r\nabcde") == (False, b"")
