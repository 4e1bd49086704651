"""Counters of a core, for status pages and tests: of datagrams, and of its sessions' messages.

All counts only rise. Counts of messages are raised once for each bundle.
"""

from collections import Counter
from copy import copy
from functools import partial
from typing import Final

import attrs

from groupcomm.errors import BadDatagram, ProtocolViolation, RemoteProtocolError
from groupcomm.level import ServiceLevel
from groupcomm.metrics import metric
from groupcomm.ring.counts import RingCounts
from groupcomm.wire.bundle import Bundle, BundleKind

MAX_LATEST: Final = 8
"""The most dropped datagrams of one step that are kept with their reasons; further ones are
similar."""


_datagrams = partial(
    metric,
    "datagrams_total",
    "Datagrams of daemons; a multicast counts once.",
    "direction",
    default=0,
)
_ignored = partial(
    metric,
    "datagrams_ignored_total",
    "Valid datagrams of no use: of other views, too old, or a second time.",
    "reason",
    default=0,
)


@attrs.define(kw_only=True, eq=False)
class DatagramStatus:
    """Datagrams of the core since its start.

    Attributes:
        foreign: valid datagrams of other views, or of starts of daemons that are over.
        stale: valid datagrams that waited while this daemon stood still, and were dropped.
        duplicates: packets that were here already.
    """

    sent: int = _datagrams("sent")
    received: int = _datagrams("received")
    rejected: Counter[str] = metric(
        "datagrams_rejected_total",
        "Datagrams that were dropped unread, by reason (docs/operating.md).",
        "reason",
        factory=Counter,
    )
    foreign: int = _ignored("foreign")
    stale: int = _ignored("stale")
    duplicates: int = _ignored("duplicate")
    violations: Counter[str] = metric(
        "protocol_violations_total",
        "Valid datagrams whose contents break the protocol.",
        "kind",
        factory=Counter,
    )


@attrs.define(eq=False)
class Counters(DatagramStatus):
    """Counts since the start of one core; plain integers, read at leisure.

    Attributes:
        bad: the number of all dropped datagrams.
        latest: the first dropped datagrams of the present step, each with its reason.
        ring: the counts of this daemon's part in its rings.
    """

    bad: int = 0
    latest: list[tuple[bytes, str]] = attrs.field(factory=list)
    ring: RingCounts = attrs.field(factory=RingCounts)

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

    def pop_latest(self) -> list[tuple[bytes, str]]:
        """Return the first dropped datagrams of the present step."""
        latest, self.latest = self.latest, []
        return latest

    def status(self) -> DatagramStatus:
        """Return the facts about datagrams for operators."""
        names = (field.name for field in attrs.fields(DatagramStatus))
        return DatagramStatus(**{name: copy(getattr(self, name)) for name in names})


_FRAGMENT = int(BundleKind.FRAGMENT)  # kinds above it hold no messages


@attrs.frozen(kw_only=True)
class TrafficStatus:
    """Messages from and for local sessions, and bytes of their bodies.

    Counts by level begin with the weakest one.
    """

    taken: int
    taken_bytes: int
    delivered: int
    delivered_bytes: int
    taken_by_level: tuple[int, ...]
    taken_bytes_by_level: tuple[int, ...]
    delivered_by_level: tuple[int, ...]
    delivered_bytes_by_level: tuple[int, ...]


class Traffic:
    """Counts since the start of one core, each by level, weakest first.

    A message in fragments counts with its last one; joins and leaves do not count. Bytes are the
    bytes of bodies: data with the heads of messages and the names of their groups.

    Attributes:
        taken: messages that local sessions have sent.
        taken_bytes: the bytes of their bodies.
        delivered: deliveries of messages to local sessions, each counted once.
        delivered_bytes: the bytes of the bodies in these deliveries.
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

    def status(self) -> TrafficStatus:
        """Return the facts for operators."""
        return TrafficStatus(
            taken=sum(self.taken),
            taken_bytes=sum(self.taken_bytes),
            delivered=sum(self.delivered),
            delivered_bytes=sum(self.delivered_bytes),
            taken_by_level=tuple(self.taken),
            taken_bytes_by_level=tuple(self.taken_bytes),
            delivered_by_level=tuple(self.delivered),
            delivered_bytes_by_level=tuple(self.delivered_bytes),
        )
