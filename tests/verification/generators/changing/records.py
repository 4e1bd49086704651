"""Further records of histories with changing views: views, tokens, announcements, unions."""

import attrs

from tests.verification.generators.daemon import Daemon
from tests.verification.generators.records import AGREED, SAFE, Bundle, Notice, Packet, Session


@attrs.frozen
class Announcement:
    """The state that one daemon brings into a view.

    Attributes:
        completed: the last view whose groups it knew completely; empty before the first.
        together: the identities of the daemons that came along with it since.
        sessions: its clients.
        groups: per group its own members, in the order in which they joined.
    """

    completed: str
    together: frozenset[str]
    sessions: tuple[Session, ...]
    groups: dict[str, tuple[Session, ...]]


@attrs.define
class Token:
    """The right to number in one ring: its holder, and its contents."""

    holder: Daemon
    last: int  # packet number
    high: int  # stamp or horizon


@attrs.define(eq=False)
class View:
    """One regular view.

    Attributes:
        text: its id.
        rings: the daemons of each ring, sorted.
        start: packets are numbered from ``start + 1`` on.
        tokens: the tokens, by ring.
        parts: for each daemon, by identity, the number of packets of its announcement.
        majority: the majority that clients are told.
        announcements: for each daemon its announcement; set when it installs the view.
    """

    text: str
    rings: tuple[tuple[Daemon, ...], ...]
    start: int
    tokens: list[Token]
    parts: dict[str, int]
    majority: bool | None
    announcements: dict[str, Announcement] = attrs.field(factory=dict)

    @property
    def daemons(self) -> list[Daemon]:
        """Return all of its daemons by name."""
        return sorted((d for ring in self.rings for d in ring), key=lambda d: d.name)

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]:
        """Return the rings as traces write them."""
        return tuple(tuple(daemon.identity for daemon in ring) for ring in self.rings)


class ViewPacket(Packet):
    """A packet of one view.

    Attributes:
        daemon: the daemon that numbered it.
        previous: the number of its previous packet; None if it is its first in the view.
        announces: whether it is a part of its daemon's announcement.
        causes: its daemon's releases before it: for each ring the highest number, and the last
            place.
    """

    __slots__ = ("announces", "causes", "daemon", "previous")

    def __init__(
        self,
        daemon: Daemon,
        previous: int | None,
        number: int,
        time: int,
        bundles: list[Bundle],
    ) -> None:
        super().__init__(daemon.ring, number, time, bundles)
        self.daemon = daemon
        self.previous = previous
        self.announces = not bundles
        self.causes: tuple[tuple[int, ...], tuple[int, int, int]] = ((), (0, 0, 0))

    @property
    def is_agreed(self) -> bool:
        """Return whether something in it is of the agreed order."""
        return any(bundle.level >= AGREED for bundle in self.bundles)

    @property
    def is_safe(self) -> bool:
        """Return whether something in it is SAFE: all of it in the agreed order waits for that."""
        return any(bundle.level == SAFE for bundle in self.bundles)


@attrs.frozen
class GeneratedRecovery:
    """The recovered set of the daemons that come from one view.

    Attributes:
        packets: the packets in the order of their stamps.
        prefix: for each ring the number up to which none is missing.
        notices: all horizons that one of them has heard.
        frontiers: for each ring the highest frontier that one of them knows.
        fellows: the identities of the daemons, and of those to which one of them has an obligation.
    """

    packets: tuple[ViewPacket, ...]
    prefix: tuple[int, ...]
    notices: tuple[Notice, ...]
    frontiers: tuple[int, ...]
    fellows: frozenset[str]

    @property
    def numbers(self) -> set[tuple[int, int]]:
        """Ring and number of all packets."""
        return {(packet.ring, packet.number) for packet in self.packets}
