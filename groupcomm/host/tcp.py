"""TCP connections whose other end may vanish without a word: by its power, or by its cable.

The system's own limits are 2 hours for an idle connection and 15 minutes for one with data in
flight. Keepalive shortens the first. For the second there is TCP_USER_TIMEOUT, but Linux also ends
a connection by it whose reader is merely slow: alive, with a full window (tcp_probe_timer). Where a
slow reader may be slow, `is_unanswered` tells the two apart.
"""

import socket
import struct
from typing import Final

PROBES: Final = 4
"""The unanswered probes of an idle connection after which it ends."""

UNANSWERED: Final = 2
"""Repetitions in a row without an answer; a single one may be on its way."""

_INFO: Final = struct.Struct("=8B13I")  # the begin of struct tcp_info of Linux
_RETRANSMITS, _PROBES, _LAST_ACK = 2, 3, 20  # the places of fields in it


def set_up_tcp(made: socket.socket, vanished_s: float) -> None:
    """Send small messages at once, and have the system end an idle connection to a vanished host.

    Args:
        made: a socket of TCP.
        vanished_s: the seconds after which an idle connection ends, 2 at least; 0 for the system's.
    """
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if vanished_s:
        each_s = max(1, round(vanished_s / 2 / PROBES))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, round(vanished_s / 2)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, each_s)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def end_if_unanswered(made: socket.socket, vanished_s: float) -> None:
    """Have the system end a connection on which data are not taken for some seconds.

    That may be because its reader is slow.
    """
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * vanished_s))


def is_unanswered(made: socket.socket, vanished_s: float) -> bool:
    """Return whether the other host has answered nothing for some seconds, though it was asked.

    A host is alive that acknowledges data, or says that its reader has no room for them.
    """
    if made.family == socket.AF_UNIX:
        return False
    info = _INFO.unpack(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    asked = max(info[_RETRANSMITS], info[_PROBES])
    return bool(asked >= UNANSWERED and info[_LAST_ACK] >= 1000 * vanished_s)
