"""Counts of a daemon's part in its rings, over all views."""

import attrs


@attrs.define
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

    visits: int = 0
    rotations: int = 0
    rotations_s: float = 0.0
    repeated_packets: int = 0
    repeated_bytes: int = 0
    repeated_tokens: int = 0
