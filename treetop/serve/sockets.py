"""Listening sockets: one for each worker on the same port, so that the kernel shares out connections.

They belong to the parent, which keeps them open: what connects while a worker is replaced waits for the next one.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import sys
import termios
from typing import Any

from treetop.core.errors import ConfigError

BACKLOG = 4096  # connections; one more would be tried again by its client after a second only
SINCE_DATA = struct.Struct("=52xI")  # of the kernel's tcp_info: tcpi_last_data_recv, in milliseconds
REASONS = {
    errno.EADDRINUSE: "another program listens there. Give another --port, or 0 for any that is free",
    errno.EACCES: "not allowed. Ports below 1024 are for the system; give a --port above",
    errno.EADDRNOTAVAIL: "this machine does not have that address. Give one of its own as --host",
}


def listen(host: str, port: int, n: int) -> list[socket.socket]:
    """`n` sockets bound to one address; refused where somebody else has it."""
    family, address = _resolved(host, port)
    try:
        with _socket(family) as alone:  # without SO_REUSEPORT, so that another server's port is seen as taken
            alone.bind(address)
            bound = alone.getsockname()
            if n == 1:
                return [alone.dup()]
        return [_bound(family, bound) for _ in range(n)]
    except OSError as error:
        reason = REASONS.get(error.errno or 0, str(error.strerror))
        raise ConfigError(f"--host {host} --port {port}: cannot be used: {reason}.") from None


def unread_seconds(sock: Any) -> float:
    """How long ago the last bytes reached a connection: the time a request lay there unread, if asked once it is."""
    if sys.platform != "linux":
        return 0.0
    (ms,) = SINCE_DATA.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SINCE_DATA.size))
    return float(ms) / 1000


def has_unread(sock: Any) -> bool:
    """Whether bytes of a client wait to be read."""
    try:
        return fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)) != bytes(4)
    except OSError:
        return False  # closed


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ConfigError(f"--host {host}: not an address of this machine. Give one, such as 127.0.0.1.") from None
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]


def _socket(family: socket.AddressFamily) -> socket.socket:
    """Small answers go out at once (TCP_NODELAY): waiting for an acknowledgement costs 40 ms an answer."""
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _bound(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    made = _socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(address)
    return made
