"""Junk datagrams, made of captured ones; and the capture."""

import json
import socket
import struct
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from random import Random
from typing import Final

from groupcomm.security.layout import COUNTER, FIXED_BYTES, HEAD_BYTES, SUITE_AES_GCM, VERSION
from groupcomm.security.sealing import PLACE

KINDS: Final = ("random", "stranger", "forged", "replay")
"""Bytes without sense; heads of this cluster by senders that are none, or of starts that were none;
heads of daemons in the view with a seal that does not fit, of the present epoch and of later ones;
copies."""

Address = tuple[str, int]

_SENDER_AT: Final = 13  # after version, suite, scope, key id and cluster
_START_AT: Final = 21
_PLACED: Final = HEAD_BYTES + PLACE.size
_ETH_P_IP: Final = 0x0800
_LONGEST: Final = 400
_PORTS = struct.Struct("!HH")
_UDP = struct.Struct("!HHHH")
_IP = struct.Struct("!BBHHHBBH4s4s")


def junk(kind: str, real: bytes, rng: Random) -> bytes:
    """Return one datagram of a kind.

    Args:
        kind: one of KINDS.
        real: a datagram sealed by a daemon of the cluster, and sent to the target of the junk.
        rng: draws the rest.
    """
    if kind == "random":
        return rng.randbytes(rng.randint(1, _LONGEST))
    if kind == "replay":
        return real
    sealed = rng.randbytes(rng.randint(16, _LONGEST))
    if kind == "stranger":
        at = rng.choice((_SENDER_AT, _START_AT))  # the rest is of another datagram
        return real[:at] + rng.randbytes(HEAD_BYTES - at) + real[HEAD_BYTES:_PLACED] + sealed
    channel, epoch = PLACE.unpack_from(real, HEAD_BYTES)
    place = PLACE.pack(channel, epoch + rng.choice((0, rng.randint(1, 1000))))
    counter = COUNTER.pack(COUNTER.unpack_from(real, FIXED_BYTES)[0] + rng.randint(1, 2**40))
    return real[:FIXED_BYTES] + counter + place + sealed


def spoofed(source: Address, target: Address, data: bytes) -> bytes:
    """Return an IPv4 packet that looks as if another one had sent it (RFC 791, RFC 768: no
    checksums)."""
    udp = _UDP.pack(source[1], target[1], 8 + len(data), 0) + data
    ends = socket.inet_aton(source[0]), socket.inet_aton(target[0])
    return _IP.pack(0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0, *ends) + udp


def capture(
    targets: Collection[Address], count: int, patience_s: float
) -> dict[Address, list[bytes]]:
    """Return datagrams to addresses of this host over loopback, this number for each.

    Raises:
        PermissionError: only root may.
    """
    found: dict[Address, list[bytes]] = {target: [] for target in targets}
    end = time.monotonic() + patience_s
    kind, protocol = socket.SOCK_DGRAM, socket.htons(_ETH_P_IP)
    with socket.socket(socket.AF_PACKET, kind, protocol) as wire:
        wire.bind(("lo", _ETH_P_IP))
        wire.settimeout(0.1)
        while time.monotonic() < end and min(map(len, found.values())) < count:
            try:
                target, data = _read(wire.recv(65_536))
            except TimeoutError:
                continue
            if target in found and data[:2] == bytes((VERSION, SUITE_AES_GCM)):
                found[target].append(data)
    return found


def _read(packet: bytes) -> tuple[Address, bytes]:
    """Return the destination of an IPv4 packet, and its bytes after the UDP head; it may be TCP as
    well."""
    head = (packet[0] & 15) * 4
    _, port = _PORTS.unpack_from(packet, head)
    return (socket.inet_ntoa(packet[16:20]), port), packet[head + 8 :]


def write_captured(path: Path, captured: Mapping[Address, list[bytes]]) -> None:
    """For another process to read."""
    path.write_text(json.dumps([[*at, [d.hex() for d in of]] for at, of in captured.items()]))


def read_captured(path: Path) -> dict[Address, list[bytes]]:
    """Return the captured datagrams in the file."""
    read = json.loads(path.read_text())
    return {(host, port): [bytes.fromhex(d) for d in of] for host, port, of in read}
