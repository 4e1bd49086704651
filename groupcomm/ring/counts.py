"""Counts of a daemon's part in its rings, over all views."""


class RingCounts:
    """Counts since the start of one core.

    Attributes:
        visits: how often the token has come here.
        rotations: how often it has come back without having rested anywhere.
        rotations_s: how long that took, all of them together, in seconds.
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
