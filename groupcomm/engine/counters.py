"""Counters of a core, for status pages and tests: of datagrams, and of its sessions' messages.

All only rise. Those of messages are touched once for each bundle.
"""

from collections import Counter
from typing import Final

from groupcomm.errors import BadDatagram, ProtocolViolation, RemoteProtocolError
from groupcomm.level import ServiceLevel
from groupcomm.ring.counts import RingCounts
from groupcomm.wire.bundle import Bundle, BundleKind

MAX_LATEST: Final = 8
"""The most dropped datagrams of one step that are kept with their reasons; more are alike."""


class Counters:
    """Counts since the start of one core; plain integers, read at leisure.

    Attributes:
        received: datagrams, valid or not.
        rejected: of these, by the reason for which they were dropped.
        bad: of these, for any reason.
        latest: the first that were dropped in the present step, each with the reason.
        sent: datagrams; a multicast counts once.
        duplicates: packets that were here already.
        foreign: valid datagrams of other views, or of starts of daemons that are over.
        stale: valid datagrams that had waited while this daemon stood still, dropped.
        violations: valid datagrams whose content breaks the protocol, dropped; by kind.
        ring: counts of this daemon's part in its rings.
    """

    __slots__ = (
        "bad",
        "duplicates",
        "foreign",
        "latest",
        "received",
        "rejected",
        "ring",
        "sent",
        "stale",
        "violations",
    )

    def __init__(self) -> None:
        self.received = 0
        self.bad = 0
        self.rejected: Counter[str] = Counter()
        self.latest: list[tuple[bytes, str]] = []
        self.sent = 0
        self.duplicates = 0
        self.foreign = 0
        self.stale = 0
        self.violations: Counter[str] = Counter()
        self.ring = RingCounts()

    def note_violation(self, error: RemoteProtocolError) -> None:
        """Count a breach of the protocol by its kind."""
        if isinstance(error, BadDatagram | ProtocolViolation):
            self.violations[error.reason] += 1
        else:
            self.violations["passed on"] += 1

    def reject(self, datagram: bytes, reason: str) -> None:
        """Count a datagram that is dropped."""
        self.rejected[reason] += 1
        self.bad += 1
        if len(self.latest) < MAX_LATEST:
            self.latest.append((datagram, reason))


_FRAGMENT = int(BundleKind.FRAGMENT)  # kinds above it hold no messages


class Traffic:
    """Counts since the start of one core, each by level, weakest first.

    A message in fragments counts with its last one, joins and leaves do not count. Bytes are those
    of bodies: data with the heads of messages and the names of their groups.

    Attributes:
        taken: messages that local sessions have sent.
        taken_bytes: bytes of their bodies.
        delivered: messages for local sessions, once for each of them.
        delivered_bytes: bytes of their bodies, once for each of them.
    """

    __slots__ = ("delivered", "delivered_bytes", "taken", "taken_bytes")

    def __init__(self) -> None:
        self.taken = [0] * len(ServiceLevel)
        self.taken_bytes = [0] * len(ServiceLevel)
        self.delivered = [0] * len(ServiceLevel)
        self.delivered_bytes = [0] * len(ServiceLevel)

    def count_sent(self, bundle: Bundle) -> None:
        """Count a bundle that a local session has sent."""
        kind, level = bundle.kind, bundle.level
        if kind < _FRAGMENT:
            self.taken[level] += bundle.count
        elif kind > _FRAGMENT:
            return
        elif bundle.index == bundle.count - 1:
            self.taken[level] += 1
        self.taken_bytes[level] += len(bundle.body)

    def count_delivered(self, bundle: Bundle, receivers: int) -> None:
        """Count a bundle of messages, or a fragment of one, for this many local sessions."""
        level = bundle.level
        if bundle.kind < _FRAGMENT:
            self.delivered[level] += bundle.count * receivers
        elif bundle.index == bundle.count - 1:
            self.delivered[level] += receivers
        self.delivered_bytes[level] += len(bundle.body) * receivers
