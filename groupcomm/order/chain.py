"""The chain of one daemon's packets, with the queues of its sessions.

Each packet names its daemon's packet before it. So FIFO order waits for one daemon's gaps only,
and within the chain each session has a queue of its own.
"""

from collections import deque

from groupcomm.clocks.stamp import Stamp
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket

NOTHING_AGREED = Stamp(0, 0)


class Chain:
    """The packets of one daemon, in its order.

    Attributes:
        daemon: index of the daemon in the view.
        last: every packet of the chain up to this number was received.
        early: packets whose predecessor is missing, by the predecessor's number.
        queues: for each session its undelivered bundles at FIFO or above, oldest first.
        gate: packets with causes that are not all delivered here, oldest first; V and A of a
            chain only rise, so the first bars the rest.
        full: the last of its packets with its causes in full; 0 for none.
        vector: V of that packet; None for none.
        agreed: A of that packet; None for none.
    """

    __slots__ = ("agreed", "daemon", "early", "full", "gate", "last", "queues", "vector")

    def __init__(self, daemon: int, base: int) -> None:
        self.daemon = daemon
        self.last = base
        self.early: dict[int, DataPacket] = {}
        self.queues: dict[int, deque[Bundle]] = {}
        self.gate: deque[DataPacket] = deque()
        self.vector: tuple[int, ...] | None = None
        self.agreed: Stamp | None = None
        self.full = 0

    def resolve_causes(self, packet: DataPacket) -> None:
        """Fill in V and A of a packet that refers to packet n; n is an earlier one of the chain."""
        assert packet.reference == self.full, (
            "a packet refers to another one for causes that it did not have"
        )
        packet.vector = self.vector
        packet.agreed = self.agreed
