import asyncio

import pytest

pytest.importorskip("uvicorn")

from uvicorn import Config
from uvicorn.server import ServerState

from treetop.serve.protocol import SLOW, LimitedProtocol

HEAD = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"


class Wire(asyncio.Transport):
    """What is written to a client, and whether its connection was closed."""

    def __init__(self):
        super().__init__()
        self.sent, self.closed = b"", False

    def write(self, data):
        self.sent += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name, default=None):
        return default

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


def test_a_request_that_is_answered_is_not_late():
    assert after(SLOW + 1, HEAD + b"\r\nabcde") == (False, b"")
