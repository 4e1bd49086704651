"""The packets of one ring's stream at one daemon: what is held, missing, and forgotten.

Pure. Numbers are 64-bit counts that start at ``base + 1`` and never wrap.
"""

from bisect import insort

from groupcomm.wire.data import DataPacket

MAX_RANGES = 64
"""Ranges that one list of missing numbers names; the rest follows once these are repaired."""

MAX_AHEAD = 65_536
"""Numbers above the held ones that are kept or looked at; windows stay far below it."""


class Stream:
    """The receive window of one stream.

    Attributes:
        ring: index of the ring that originates it.
        held: every packet up to this number was received.
        known: the highest number that is known to exist.
        packets: received and not yet forgotten, by number.
        early: the numbers of those above `held`, rising.
    """

    __slots__ = ("early", "forgotten", "held", "known", "packets", "ring")

    def __init__(self, ring: int, base: int) -> None:
        self.ring = ring
        self.held = base
        self.known = base
        self.forgotten = base
        self.packets: dict[int, DataPacket] = {}
        self.early: list[int] = []

    def accept(self, packet: DataPacket) -> bool:
        """Take one packet; False if it was here already, or lies beyond any window."""
        number = packet.number
        packets = self.packets
        if number <= self.held or number in packets or number > self.held + MAX_AHEAD:
            return False
        packets[number] = packet
        if number > self.known:
            self.known = number
        if number == self.held + 1:
            early = self.early
            if early:
                run = 0
                while run < len(early) and early[run] == number + 1:
                    number, run = number + 1, run + 1
                del early[:run]
            self.held = number
        else:
            insort(self.early, number)
        return True

    def learn(self, number: int) -> None:
        """Note that packets up to `number` exist, seen or not."""
        if number > self.known:
            self.known = number

    def missing(self, upto: int) -> list[tuple[int, int]]:
        """Ranges (first, last) not received up to `upto`, lowest first; at most MAX_RANGES."""
        ranges: list[tuple[int, int]] = []
        if self.held >= upto:
            return ranges
        first = 0
        packets = self.packets
        upto = min(upto, self.held + MAX_AHEAD)
        for number in range(self.held + 1, upto + 1):
            if number not in packets:
                first = first or number
            elif first:
                ranges.append((first, number - 1))
                first = 0
                if len(ranges) == MAX_RANGES:
                    return ranges
        if first:
            ranges.append((first, upto))
        return ranges

    def forget(self, time: int) -> None:
        """Drop the packets with a stamp at or below `time`: every daemon of the view holds them."""
        packets = self.packets
        while self.forgotten < self.held:
            packet = packets[self.forgotten + 1]
            if packet.time > time:
                return
            self.forgotten += 1
            del packets[self.forgotten]
            for bundle in packet.bundles:
                if not bundle.given:
                    break
            else:
                packet.bundles = []  # each refers to its packet: a cycle of up to 60 KB
