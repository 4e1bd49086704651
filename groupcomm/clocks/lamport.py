"""Lamport's scalar clock: a count that never contradicts happens-before.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978. For events a and b, if a happens before b then C(a) < C(b). The converse does not hold:
concurrent events have some order of clocks too, and a smaller clock proves nothing.
"""


class LamportClock:
    """The clock of one process.

    Every call is one event of the process and returns its clock. So two events of a process never
    have the same clock, and (clock, process) orders the events of all processes totally.

    Attributes:
        value: clock of the latest event, 0 to 2**64 - 1; it never wraps.
    """

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def tick(self) -> int:
        """Return the clock of an event within the process (Lamport 1978, IR1)."""
        self.value += 1
        return self.value

    def send(self) -> int:
        """Return the clock of the sending of a message, which carries it (IR2(a))."""
        return self.tick()

    def receive(self, stamp: int) -> int:
        """Return the clock of the receipt of a message: above `stamp` and all before (IR2(b))."""
        if stamp > self.value:
            self.value = stamp
        return self.tick()
