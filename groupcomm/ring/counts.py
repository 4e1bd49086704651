"""Counts of a daemon's part in its rings, over all views."""

import attrs

from groupcomm.metrics import metric


@attrs.define
class RingCounts:
    """Counts since the start of one core.

    Attributes:
        rotations: the number of times that the token came back without having rested anywhere.
        rotations_s: the time of these rotations, all together, in seconds.
    """

    visits: int = metric(
        "token_visits_total", "Number of times that the token has come to this daemon.", default=0
    )
    rotations: int = 0
    rotations_s: float = 0.0
    repeated_packets: int = metric(
        "packets_repeated_total",
        "Packets that this daemon sent again to its ring, as another daemon lacked them.",
        default=0,
    )
    repeated_bytes: int = metric(
        "packet_repeated_bytes_total", "Bytes of these packets.", default=0
    )
    repeated_tokens: int = metric(
        "tokens_repeated_total",
        "Copies sent of tokens that nothing showed to have arrived.",
        default=0,
    )
