"""The rings that wait for the horizons of all others because of a packet: those with receivers.

Pure. What has to wait for the agreed order, at its receivers, are bundles from FIFO on: agreed ones
until their stamp, others until agreed packets that precede them are delivered. Besides, a sender
may wait until its own message is ordered. Rings without receivers deliver the packet as well, and
nobody sees when.
"""

from typing import Final

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import ADDRESSED
from groupcomm.config.view import View
from groupcomm.groups.pruning import Reach
from groupcomm.level import ServiceLevel
from groupcomm.ring.addressed_notices import AddressedNotices
from groupcomm.ring.context import RingContext
from groupcomm.ring.horizon_notices import HorizonNotices, NoticeSchedule
from groupcomm.wire.bundle import BundleKind
from groupcomm.wire.data import DataPacket

_OF_GROUPS: Final = frozenset(
    (BundleKind.MESSAGES, BundleKind.FRAGMENT, BundleKind.JOIN, BundleKind.LEAVE)
)
"""Only members of their groups learn of these. CONNECT has no groups, and so concerns its ring."""


class WaitingRings:
    """Tells the schedule of notices which rings wait, as one daemon of a large cluster knows it."""

    __slots__ = ("_agreed", "_all", "_by_daemon", "_by_name", "_notices", "_own", "_reach")

    def __init__(self, view: View, me: int, reach: Reach, notices: AddressedNotices) -> None:
        self._by_daemon = [1 << ring for ring in view.ring_of]
        self._by_name = {
            daemon.name: bit for daemon, bit in zip(view.daemons, self._by_daemon, strict=True)
        }
        self._all = (1 << len(view.rings)) - 1
        self._own, self._reach, self._notices = view.ring_of[me], reach, notices
        self._agreed = 0  # the highest stamp of an agreed packet

    def note(self, packet: DataPacket, now: float, *, by_all: bool, early: bool) -> None:
        """Note a new packet.

        Args:
            packet: the packet.
            now: seconds.
            by_all: whether all rings are waited for until they hold everything up to its stamp, or
                the groups are not known yet.
            early: whether packets before it are missing.
        """
        agreed = packet.in_agreed_order or by_all
        if agreed:
            self._agreed = max(self._agreed, packet.time)
            time = packet.time
        else:
            causes = packet.agreed.time if packet.agreed else 0
            time = packet.time if early else min(packet.time, max(self._agreed, causes))
            if time <= self._notices.known_to_all:
                return
        rings = self._all if by_all or packet.safe else self._rings_of(packet)
        foreign = packet.ring != self._own
        self._notices.note_use(rings, time, now, agreed=agreed, foreign=foreign)

    def _rings_of(self, packet: DataPacket) -> int:
        rings = 0
        for bundle in packet.bundles:
            if bundle.level < ServiceLevel.FIFO:
                continue
            rings |= 1 << packet.ring
            if packet.pruned or bundle.kind == BundleKind.CONNECT:
                continue
            if bundle.kind not in _OF_GROUPS:
                return self._all
            for group in bundle.groups:
                rings |= self._rings_of_group(group)
        return rings

    def _rings_of_group(self, group: str) -> int:
        if group[0] == "#":
            return self._by_name.get(group.rpartition("#")[2], 0)
        rings = 0
        for daemon in self._reach.subscribers(group):
            rings |= self._by_daemon[daemon]
        return rings


def make_notices(
    view: View,
    me: int,
    config: CoreConfig,
    reach: Reach,
    *,
    clock: RingClock,
    context: RingContext,
    now: float,
) -> tuple[HorizonNotices, WaitingRings | None]:
    """Return the notices of a ring, and what tells them which rings wait; None: all always do."""
    timing, rings = config.timing, len(view.rings)
    schedule, waiting = NoticeSchedule(timing, view.longest_delay_s, now), None
    if config.is_large and rings > 2 and view.versions.features & ADDRESSED:
        delay_s, own = view.longest_delay_s, view.ring_of[me]
        schedule = addressed = AddressedNotices(timing, delay_s, now, rings=rings, own=own)
        waiting = WaitingRings(view, me, reach, addressed)
    notices = HorizonNotices(view, me, timing, clock=clock, context=context, notices=schedule)
    return notices, waiting
