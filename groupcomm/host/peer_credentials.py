"""The process at the other end of a unix socket, as the kernel reports it."""

import socket
import struct
from typing import Final, NamedTuple

_CREDENTIALS: Final = struct.Struct("3i")  # see unix(7), SO_PEERCRED


class PeerCredentials(NamedTuple):
    """Numbers of the process that has connected, or that listens: process, user and group."""

    pid: int
    uid: int
    gid: int


def peer_credentials(connected: socket.socket) -> PeerCredentials:
    """Return the user at the other end of a connected unix socket.

    Raises:
        OSError: it is no longer connected.
    """
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerCredentials(*_CREDENTIALS.unpack(raw))
