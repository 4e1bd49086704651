"""Two ends of one link in virtual time, and what lies between: delay, bandwidth, loss."""

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, inf
from random import Random

from groupcomm.link.link import Link
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.link import decode_ack_untrusted, decode_link_untrusted
from groupcomm.wire.packet import HEAD_BYTES, PacketKind

KEY = bytes(16)
WAKE_S = 0.00005
UDP_BYTES = 68
"""The bytes of a datagram besides the packet: seal, UDP, IP."""


def packet(text: bytes = b"", kind: PacketKind = PacketKind.DATA) -> bytes:
    """A packet that a link can carry; it looks no further than at its head."""
    return bytes([kind]) + KEY + text


def notice(ring: int, horizon: int = 1, *, targets: int = 0, shared: bool = False) -> HorizonNotice:
    """A promise of a ring and nothing else."""
    return HorizonNotice(
        ring=ring,
        horizon=horizon,
        upto=0,
        frontier=0,
        unsettled=False,
        held=[],
        targets=targets,
        shared=shared,
    )


def know_path(link: Link) -> None:
    """Packets of all sizes have passed."""
    link.path.arrived(link.path.most, 0.0)
    link.deadline = inf


class Wire:
    """One direction: a queue before a line of this many bytes a second, then a delay."""

    def __init__(
        self,
        delay_s: float,
        bytes_per_s: float = inf,
        queue_bytes: float = inf,
        loss: float = 0.0,
        seed: int = 1,
        loses: Callable[[bytes], bool] = lambda raw: False,
    ) -> None:
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self.queue_bytes = queue_bytes
        self.loss = loss
        self.loses = loses
        self.random = Random(seed)
        self.free_at = 0.0
        self.carried = 0
        self.sent: list[bytes] = []

    def send(self, raw: bytes, now: float) -> float | None:
        """When it arrives; None if it does not."""
        self.sent.append(raw)
        size = len(raw) + UDP_BYTES
        waiting = max(self.free_at - now, 0.0) * self.bytes_per_s if self.free_at > now else 0.0
        if waiting + size > self.queue_bytes:
            return None
        self.free_at = max(self.free_at, now) + size / self.bytes_per_s
        self.carried += size
        if self.loses(raw) or self.random.random() < self.loss:
            return None
        return self.free_at + self.delay_s


class Pair:
    """A sender, a receiver, and a wire each way.

    Attributes:
        got: (when, packet) at the receiver, each once.
        notices: the same of packets outside the link's numbers.
        turn_s: the interval at which both ends act from now on; 0 is whenever they have work.
    """

    def __init__(
        self, there: Wire, back: Wire | None = None, guess_s: float = 0.1, *, known: bool = True
    ) -> None:
        """`known`: it was found out already that packets of all sizes pass."""
        self.turn_s = 0.0
        self.wires = (there, back or Wire(there.delay_s))
        self.ends = [Link(KEY, end, 1340, guess_s) for end in (0, 1)]
        for end in self.ends if known else ():
            know_path(end)
        self.now = 0.0
        self.got: list[tuple[float, bytes]] = []
        self.notices: list[tuple[float, bytes]] = []
        self.feed: Callable[[float], float] = lambda now: inf  # sends; returns its next time
        self._flying: list[tuple[float, int, int, bytes]] = []
        self._count = 0

    def run(self, until: float) -> None:
        """Let time pass."""
        feed_at = self.feed(self.now)
        while True:
            due = min(feed_at, *(end.deadline for end in self.ends))
            if self._flying:
                due = min(due, self._flying[0][0])
            if due > until:
                break
            self.now = max(self.now + WAKE_S, due)
            if self.turn_s:
                self.now = ceil(self.now / self.turn_s) * self.turn_s
            while self._flying and self._flying[0][0] <= self.now:
                _, _, end, raw = heappop(self._flying)
                self._hear(end, raw)
            if self.now >= feed_at:
                feed_at = self.feed(self.now)
            for end, link in enumerate(self.ends):
                for raw in link.step(self.now):
                    self._send(end, raw)
        self.now = until

    def _send(self, end: int, raw: bytes) -> None:
        arrival = self.wires[end].send(raw, self.now)
        if arrival is not None:
            self._count += 1
            heappush(self._flying, (arrival, self._count, 1 - end, raw))

    def _hear(self, end: int, raw: bytes) -> None:
        if raw[0] == PacketKind.ACK:
            self.ends[end].on_acknowledgement(decode_ack_untrusted(raw), self.now)
        elif raw[0] == PacketKind.LINK:
            carried = decode_link_untrusted(raw)
            assert carried.sender == 1 - end
            whole = self.ends[end].on_packet(carried, self.now)
            if whole is not None:
                self.got.append((self.now, whole))
        else:
            self.notices.append((self.now, raw))

    def texts(self) -> list[bytes]:
        """Return the arrived packets, without heads."""
        return [raw[HEAD_BYTES:] for _, raw in self.got]
