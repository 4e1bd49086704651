"""Counts of a daemon's part in its rings, over all views."""


class RingCounts:
    """Counts since the start of one core.

    Attributes:
        visits: the number of times that the token came here.
        rotations: the number of times that it came back without having rested anywhere.
        rotations_s: the time of these rotations, all together, in seconds.
        repeated_packets, repeated_bytes: packets that were sent again, as another daemon lacked
            them.
        repeated_tokens: copies sent of tokens that nothing showed to have arrived.
    """

    __slots__ = (
        "repeated_bytes",
        "repeated_packets",
        "repeated_tokens",
        "rotations",
        "rotations_s",
        "visits",
    )

    def __init__(self) -> None:
        self.visits = 0
        self.rotations = 0
        self.rotations_s = 0.0
        self.repeated_packets = 0
        self.repeated_bytes = 0
        self.repeated_tokens = 0
