"""What histories with changing views are made of besides: views, tokens, announcements, unions."""

from typing import TYPE_CHECKING

import attrs

from tests.generators.records import AGREED, SAFE, Bundle, Notice, Packet, Session

if TYPE_CHECKING:
    from tests.generators.changing.daemon import ChangingDaemon


@attrs.frozen
class Announcement:
    """With what one daemon comes into a view.

    Attributes:
        completed: the last view whose groups it knew whole; empty before the first.
        together: identities of the daemons that came along with it ever since.
        sessions: its clients.
        groups: per group its own members, in the order in which they joined.
    """

    completed: str
    together: frozenset[str]
    sessions: tuple[Session, ...]
    groups: dict[str, tuple[Session, ...]]


@attrs.define
class Token:
    """The right to number in one ring: who has it, and what it says."""

    holder: "ChangingDaemon"
    last: int  # packet number
    high: int  # stamp or horizon


@attrs.define(eq=False)
class View:
    """One regular view.

    Attributes:
        text: its id.
        rings: the daemons of each ring, sorted.
        start: packets are numbered from ``start + 1`` on.
        tokens: by ring.
        parts: per daemon, by identity, in how many packets it announces what it brings.
        majority: what clients are told of it.
        announcements: per daemon what it brings; set when it installs the view.
    """

    text: str
    rings: tuple[tuple["ChangingDaemon", ...], ...]
    start: int
    tokens: list[Token]
    parts: dict[str, int]
    majority: bool | None
    announcements: dict[str, Announcement] = attrs.field(factory=dict)

    @property
    def daemons(self) -> list["ChangingDaemon"]:
        """Return all of its daemons by name."""
        return sorted((d for ring in self.rings for d in ring), key=lambda d: d.name)

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]:
        """Return the rings as traces write them."""
        return tuple(tuple(daemon.identity for daemon in ring) for ring in self.rings)


class ViewPacket(Packet):
    """A packet of one view.

    Attributes:
        daemon: who numbered it.
        previous: the number of its packet before; None if it is its first in the view.
        announces: it is a part of its daemon's announcement.
        causes: what was released there before: per ring the highest number, and the last place.
    """

    __slots__ = ("announces", "causes", "daemon", "previous")

    def __init__(
        self,
        daemon: "ChangingDaemon",
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
    """What the daemons that come from one view hold together.

    Attributes:
        packets: in the order of their stamps.
        prefix: per ring, nothing up to here is missing.
        notices: all horizons that one of them has heard.
        frontiers: per ring the highest that one of them knows.
        fellows: identities of those with whom one of them is bound, and their own.
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
