"""What a core counts, for status pages and tests."""

from collections import Counter


class Counters:
    """Counts since the start of one core; plain integers, read at leisure.

    Attributes:
        received: datagrams, valid or not.
        rejected: of these, by the reason for which they were dropped.
        sent: datagrams; a multicast counts once.
        duplicates: packets that were here already.
        unreliable_duplicates: the same for datagrams outside the streams.
        foreign: valid datagrams of other views, or of starts of daemons that are over.
        stale: valid datagrams that had waited while this daemon stood still, dropped.
        violations: valid datagrams whose content breaks the protocol, dropped; by kind.
    """

    __slots__ = (
        "duplicates",
        "foreign",
        "received",
        "rejected",
        "sent",
        "stale",
        "unreliable_duplicates",
        "violations",
    )

    def __init__(self) -> None:
        self.received = 0
        self.rejected: Counter[str] = Counter()
        self.sent = 0
        self.duplicates = 0
        self.unreliable_duplicates = 0
        self.foreign = 0
        self.stale = 0
        self.violations: Counter[str] = Counter()

    @property
    def bad(self) -> int:
        """Datagrams that were dropped for what they are, whatever the reason."""
        return self.rejected.total()
