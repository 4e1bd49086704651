"""Junk in masses: datagrams are read later and in batches, and the kernel filters most of them.

Waking up for a turn costs a daemon some thirty times as much as dropping a datagram. So while
junk comes faster than turns are taken, each piece of it would cost a turn.

The filter in the kernel is classic BPF (McCanne and Jacobson, 1993; Linux,
Documentation/networking/filter.rst). It checks the source of a datagram and its first bytes:
version, suite, cluster, and the sender's number. One of PASSED_OF datagrams that do not fit passes:
so they are still counted by their reason, and a daemon whose datagrams come from another place is
heard.
"""

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Collection
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.layout import VERSION
from groupcomm.wire.segments import SEGMENT_VERSION

MANY_PER_S: Final = 2000
"""Rejected datagrams a second; no healthy cluster reaches this rate."""

INTERVAL_S: Final = 0.01
"""The interval over which they are counted."""

PAUSE_S: Final = 0.001
"""The pause in which junk, and the datagrams after it, wait to be read."""

CALM_S: Final = 10.0
"""A flood is over after this time without junk."""


class Flood:
    """A monitor of rejected datagrams, which decides when to pause reading.

    Args:
        max_reads: the most calls that read the socket in one turn.

    Attributes:
        is_on: whether there was too much in the interval before this one.
        is_watched: whether there is any; otherwise nothing needs to be noted.
        over_at: the time at which the flood is over if no more comes; seconds.
    """

    def __init__(self, max_reads: int) -> None:
        self._max_reads = max_reads
        self._received = self._bad = 0  # since the last call of `pause_s`
        self._began = 0.0  # when the present interval began
        self._bad_lately = 0  # datagrams rejected in the present interval
        self.is_on = self.is_watched = False
        self.over_at = 0.0

    def note(self, received: int, rejected: int) -> None:
        """Count the datagrams of a turn, and the rejected ones among them."""
        self._received += received
        self._bad += rejected
        self.is_watched |= rejected > 0

    def pause_s(self, now: float) -> float:
        """Return the time to pause reading after a turn.

        Args:
            now: seconds.

        Returns:
            Seconds; 0 unless there is a flood, and this turn has read all datagrams and found only
            junk.
        """
        received, bad = self._received, self._bad
        self._received = self._bad = 0
        self._bad_lately += bad
        was_junk = bad == received > 0
        is_all = received < self._max_reads
        if now - self._began >= INTERVAL_S:
            self.is_on = self._bad_lately > MANY_PER_S * (now - self._began)
            self.is_watched = self._bad_lately > 0
            self._began, self._bad_lately = now, 0
            if self.is_on:
                self.go_on(now)
        return PAUSE_S if self.is_on and was_junk and is_all else 0.0

    def go_on(self, now: float) -> None:
        """Extend the flood: there is much junk, though the system drops it before it is read."""
        self.over_at = now + CALM_S


PASSED_OF: Final = 1024
"""One of this many datagrams that do not fit passes; a power of two."""

MAX_JUMP: Final = 255
"""The most instructions that a jump can skip; a check that would need more is left out."""

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_LOAD_BYTE: Final = 0x30  # BPF_LD | BPF_B | BPF_ABS
_LOAD_HALF: Final = 0x28
_LOAD_WORD: Final = 0x20
_JUMP_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06
_RANDOM: Final = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM
_NETWORK: Final = 0xFFF00000  # SKF_NET_OFF: the head of IP starts here
_SOURCE_AT: Final = {4: _NETWORK + 12, 6: _NETWORK + 20}  # the last word of the source address
_PORT_AT: Final = 0
_ALL: Final = 0xFFFFFFFF
_PAYLOAD: Final = 8  # after the UDP head
_CLUSTER_AT: Final = _PAYLOAD + 5
_SENDER_AT: Final = _CLUSTER_AT + 8
_INSTRUCTION = struct.Struct("=HBBI")

Instruction = tuple[int, int, int, int]
"""The code, the jump if it is true, the jump if it is not, and the operand."""


@attrs.frozen
class ClusterPattern:
    """The common parts of all datagrams of a cluster.

    Attributes:
        suite: the suite of the cluster.
        cluster: the 64 bits that stand for its name.
        senders: the numbers of all daemons that may be members.
    """

    suite: int
    cluster: int
    senders: frozenset[int]


def pattern_of(config: CoreConfig) -> ClusterPattern:
    """Return the pattern of a cluster's datagrams."""
    senders = frozenset(map(daemon_number, (*config.daemons, *_removed(config))))
    return ClusterPattern(config.suite, cluster_number(config.cluster), senders)


def _removed(config: CoreConfig) -> list[str]:
    """Return the daemons that were removed: they are heard, so that they can be told so."""
    return [] if config.agreed is None else [entry.name for entry in config.agreed.removed]


def program(wanted: ClusterPattern, sources: Collection[tuple[str, int]]) -> list[Instruction]:
    """Return a filter that passes a cluster's datagrams, and one of PASSED_OF others.

    Args:
        wanted: the common bytes of the cluster's datagrams.
        sources: the IP addresses, of one family, and ports that they come from.
    """
    checks = [
        (_LOAD_BYTE, _PAYLOAD, [VERSION, SEGMENT_VERSION]),
        (_LOAD_BYTE, _PAYLOAD + 1, [wanted.suite]),
        (_LOAD_WORD, _CLUSTER_AT, [wanted.cluster >> 32]),
        (_LOAD_WORD, _CLUSTER_AT + 4, [wanted.cluster & _ALL]),
    ]
    hosts = [ipaddress.ip_address(host) for host, _ in sources]
    ends = sorted({int(host) & _ALL for host in hosts})
    further = [
        (_LOAD_WORD, _SOURCE_AT[hosts[0].version if hosts else 4], ends),
        (_LOAD_HALF, _PORT_AT, sorted({port for _, port in sources})),
        (_LOAD_WORD, _SENDER_AT + 4, sorted({each & _ALL for each in wanted.senders})),
    ]
    for check in further:
        if check[2] and _length([*checks, check]) < MAX_JUMP:
            checks.append(check)
    length = _length(checks)
    made: list[Instruction] = []
    for load, at, values in checks:
        made.append((load, 0, 0, at))
        for left, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
            made.append((_JUMP_EQUAL, left, 0 if left else length - len(made), value))
    keep = [(_RETURN, 0, 0, _ALL)]
    sample = [(_LOAD_WORD, 0, 0, _RANDOM), (_AND, 0, 0, PASSED_OF - 1), (_JUMP_EQUAL, 0, 1, 0)]
    return [*made, *keep, *sample, *keep, (_RETURN, 0, 0, 0)]


def _length(checks: Collection[tuple[int, int, list[int]]]) -> int:
    return sum(1 + len(values) for _, _, values in checks)


def attach(to: socket.socket, instructions: Collection[Instruction]) -> bool:
    """Have the system filter the datagrams of a socket; return False if it refuses."""
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*each) for each in instructions))
    head = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    return _set(to, _SO_ATTACH_FILTER, head)


def detach(of: socket.socket) -> bool:
    """Remove the filter of a socket; return False if it had none."""
    return _set(of, _SO_DETACH_FILTER, bytes(4))


def _set(of: socket.socket, option: int, value: bytes) -> bool:
    try:
        of.setsockopt(socket.SOL_SOCKET, option, value)
    except OSError:
        return False
    return True
