"""Which requests the protocol answers itself; `test_server.py` sends some."""

import socket
import time

import pytest

from treetop.serve.direct import LARGEST, is_usual
from treetop.serve.sockets import unread_seconds


@pytest.mark.parametrize(
    ("headers", "usual"),
    [
        ([(b"host", b"localhost"), (b"content-length", b"20")], True),
        ([(b"content-length", b"%d" % LARGEST)], True),
        ([(b"content-length", b"%d" % (LARGEST + 1))], False),
        ([(b"content-length", b"9" * 5000)], False),
        ([(b"content-length", b"-1")], False),
        ([(b"content-length", b"5"), (b"content-length", b"6")], False),
        ([(b"content-length", b"5"), (b"expect", b"100-continue")], False),
        ([(b"transfer-encoding", b"chunked")], False),
        ([], False),
    ],
)
def test_what_is_usual(headers, usual):
    assert is_usual(headers) is usual


def test_how_long_bytes_lay_unread():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"x")
        time.sleep(0.1)
        accepted, _ = server.accept()
        with accepted:
            assert 0.05 <= unread_seconds(accepted) < 5
            client.sendall(b"y")
            assert unread_seconds(accepted) < 0.05
