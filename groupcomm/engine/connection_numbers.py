"""The numbers of the connections of one daemon's programs: each is given once."""


class ConnectionNumbers:
    """The numbers that a daemon gives, rising.

    Attributes:
        last: the highest number given, or the one below the first.
    """

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        """Return the number for a client that connects now; it is never given twice."""
        self.last += 1
        return self.last

    def begin_above(self, number: int) -> None:
        """Give no client that connects from now on this number, or a lower one."""
        self.last = max(self.last, number)
