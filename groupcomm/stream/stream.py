"""The packets of one ring's stream at one daemon: held, missing, asked for, or forgotten.

Pure. ``now`` is in seconds. Numbers are 64-bit counts that start at ``base + 1`` and never wrap.
"""

from bisect import insort
from math import inf

from groupcomm.stream.ranges import Range, ranges_of
from groupcomm.wire.data import DataPacket

MAX_RANGES = 64
"""The most ranges in one list of missing numbers; the rest follows once these are repaired."""

MAX_AHEAD = 65_536
"""Numbers above the held ones that are kept or looked at; windows stay far below it."""

MAX_GAPS = 4096
"""The most missing numbers that are timed; later ones follow when these are repaired."""


class Stream:
    """The receive window of one stream.

    Attributes:
        ring: index of the ring that originates it.
        held: every packet up to this number was received.
        known: the highest number that is known to exist.
        packets: received and not yet forgotten, by number.
        early: the numbers of the packets above `held`, rising.
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
        """Accept a packet; return False if it was here already, or lies beyond any window."""
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
        """Return the ranges (first, last) not received up to `upto`, rising; at most MAX_RANGES."""
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
                if not bundle.released:
                    break
            else:
                packet.bundles = []  # each bundle refers to its packet: a cycle of up to 60 KB


class Gaps:
    """The missing numbers of one stream of another ring, each with the time at which to ask for it.

    A foreign stream has no token that shows its last number, so time decides: a number that is
    missing for `delay_s` was not merely reordered, and one that was requested in vain is requested
    again after `retry_s`, as it may have to cross a link, or after `near_s` if who is asked has it.

    Attributes:
        stream: the stream.
        deadline: the time at which `pop_due` has something to return; inf without gaps.
    """

    __slots__ = ("_delay_s", "_due", "_near_s", "_retry_s", "_scanned", "deadline", "stream")

    def __init__(
        self, stream: Stream, *, delay_s: float, retry_s: float, near_s: float = inf
    ) -> None:
        self.stream = stream
        self._delay_s = delay_s
        self._retry_s, self._near_s = retry_s, min(near_s, retry_s)
        self._due: dict[int, float] = {}
        self._scanned = stream.held
        self.deadline = inf

    def update(self, now: float) -> None:
        """Look at the stream again after it has accepted packets or learned of some."""
        stream = self.stream
        due = self._due
        packets = stream.packets
        if due:
            held = stream.held
            for number in [n for n in due if n <= held or n in packets]:
                del due[number]
        start = max(self._scanned, stream.held) + 1
        stop = min(stream.known, start + MAX_GAPS - len(due) - 1)
        for number in range(start, stop + 1):
            if number not in packets:
                due[number] = now + self._delay_s
        self._scanned = max(stop, start - 1)
        self.deadline = min(due.values()) if due else inf

    def pop_due(self, now: float, near: int = 0) -> list[Range]:
        """Return the ranges to request now; they are due again after the retry interval.

        Args:
            now: seconds.
            near: packets up to this one are near: who is asked holds them.
        """
        if now < self.deadline:
            return []
        due = self._due
        numbers = [number for number, time in due.items() if time <= now]
        for number in numbers:
            due[number] = now + (self._near_s if number <= near else self._retry_s)
        self.deadline = min(due.values())
        return ranges_of(numbers)
