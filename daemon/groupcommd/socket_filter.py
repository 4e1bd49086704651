"""A filter in the kernel: most of what cannot be of this cluster does not wake the daemon.

Classic BPF (McCanne and Jacobson, 1993; Linux, Documentation/networking/filter.rst). It looks at
where a datagram comes from and at its first bytes: version, suite, cluster, and the sender's
number. What does not fit is let through now and then: it is still counted by its reason, and a
daemon whose datagrams come from another place is heard.
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

PASSED_OF: Final = 1024
"""One of so many that do not fit is let through; a power of two."""

MAX_JUMP: Final = 255
"""A jump goes so many instructions ahead at most; what would make it longer is not looked at."""

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_LOAD_BYTE: Final = 0x30  # BPF_LD | BPF_B | BPF_ABS
_LOAD_HALF: Final = 0x28
_LOAD_WORD: Final = 0x20
_JUMP_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06
_RANDOM: Final = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM
_NETWORK: Final = 0xFFF00000  # SKF_NET_OFF: from here on it is the head of IP
_SOURCE_AT: Final = {4: _NETWORK + 12, 6: _NETWORK + 20}  # the last word of the address
_PORT_AT: Final = 0
_ALL: Final = 0xFFFFFFFF
_PAYLOAD: Final = 8  # behind the UDP head
_CLUSTER_AT: Final = _PAYLOAD + 5
_SENDER_AT: Final = _CLUSTER_AT + 8
_INSTRUCTION = struct.Struct("=HBBI")

Instruction = tuple[int, int, int, int]
"""Code, how far to jump if it is true, if it is not, and the operand."""


@attrs.frozen
class Wanted:
    """What datagrams have in common.

    Attributes:
        suite: of the cluster.
        cluster: its 64 bits.
        senders: numbers of all that may be in it.
    """

    suite: int
    cluster: int
    senders: frozenset[int]


def wanted_by(config: CoreConfig) -> Wanted:
    """In a cluster."""
    senders = frozenset(map(daemon_number, config.daemons))
    return Wanted(config.suite, cluster_number(config.cluster), senders)


def program(wanted: Wanted, sources: Collection[tuple[str, int]]) -> list[Instruction]:
    """A filter that takes these datagrams if they come from there, and one of PASSED_OF others.

    Args:
        wanted: what they have in common.
        sources: IP addresses, of one family, and ports.
    """
    checks = [
        (_LOAD_BYTE, _PAYLOAD, [VERSION]),
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
    take = [(_RETURN, 0, 0, _ALL)]
    sample = [(_LOAD_WORD, 0, 0, _RANDOM), (_AND, 0, 0, PASSED_OF - 1), (_JUMP_EQUAL, 0, 1, 0)]
    return [*made, *take, *sample, *take, (_RETURN, 0, 0, 0)]


def _length(checks: Collection[tuple[int, int, list[int]]]) -> int:
    return sum(1 + len(values) for _, _, values in checks)


def attach(to: socket.socket, instructions: Collection[Instruction]) -> bool:
    """Have the system filter what a socket gets; False if it does not."""
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*each) for each in instructions))
    head = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    return _set(to, _SO_ATTACH_FILTER, head)


def detach(of: socket.socket) -> bool:
    """Have it get all again; False if there was no filter."""
    return _set(of, _SO_DETACH_FILTER, bytes(4))


def _set(of: socket.socket, option: int, value: bytes) -> bool:
    try:
        of.setsockopt(socket.SOL_SOCKET, option, value)
    except OSError:
        return False
    return True
