"""Joins that are passed on later: their targets have not had the time to say that they have them.

Pure. ``now`` is in seconds. When daemons meet none of them can know who hears whom. If each passed
every join on at once, N daemons would send N**3 of them for one view, and nearly all in vain. So a
join waits until its targets have had the time to hear its origin and to say so; it goes to those
that have not, and only if no later join has come. Daemons that have heard each other for longer get
it at once.
"""

from math import inf

import attrs

from groupcomm.config.view import Incarnation
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.peer import PeerDaemon
from groupcomm.wire.control import ControlPacket


@attrs.define(kw_only=True)
class _HeldJoin:
    """The latest join of one daemon, in parts, as it came from `sender`.

    Attributes:
        targets: the daemons that may lack it; None for all.
    """

    origin: PeerDaemon
    sender: int
    packets: list[ControlPacket]
    targets: set[int] | None


class HeldJoins:
    """The joins that one daemon still has to pass on: one for each daemon that it knows.

    Attributes:
        due: the time at which `step` is due.
    """

    __slots__ = ("_detector", "_flood", "_held", "due")

    def __init__(self, flood: Flood, detector: FailureDetector) -> None:
        self._flood = flood
        self._detector = detector
        self._held: dict[int, _HeldJoin] = {}
        self.due = inf

    def hold_for_all(
        self, packet: ControlPacket, origin: PeerDaemon, sender: int, now: float
    ) -> bool:
        """Hold a part of a join if none of its targets has had the time to get it from the origin.

        So nobody looks for its targets with each join that comes, when many daemons meet.

        Returns:
            Whether nobody needs it at once.
        """
        at = self._detector.silence_counts_from(origin)
        held = self._held.get(origin.number)
        if at <= now or (held is not None and held.targets is not None):
            return False
        if held is not None and _names(held.packets[0]) == _names(packet):
            held.packets.append(packet)
        elif held is None or not _supersedes(held.packets[0], packet):
            self._held[origin.number] = _HeldJoin(
                origin=origin, sender=sender, packets=[packet], targets=None
            )
        self.due = min(self.due, at)
        return True

    def hold(
        self, packet: ControlPacket, origin: PeerDaemon, sender: int, targets: list[int], now: float
    ) -> list[int]:
        """Hold a part of a join for those of its targets that may get it from the origin itself.

        Returns:
            The other targets, which need it at once.
        """
        held = self._held.get(origin.number)
        latest = None if held is None else held.packets[0]
        is_part = latest is not None and _names(latest) == _names(packet)
        if held is None or latest is None or not is_part:
            if latest is not None and _supersedes(latest, packet):
                return targets
            held = _HeldJoin(origin=origin, sender=sender, packets=[], targets=set())
        waiting = set()
        for target in targets:
            at = self._detector.silence_counts_at(origin, target)
            if at > now:
                waiting.add(target)
                self.due = min(self.due, at)
        if waiting:
            held.packets.append(packet)
            if held.targets is not None:
                held.targets |= waiting
            self._held[origin.number] = held
        elif not is_part:
            self._held.pop(origin.number, None)
        return [target for target in targets if target not in waiting]

    def step(self, now: float) -> None:
        """Pass on what daemons still lack that have had the time to get it."""
        detector, self.due = self._detector, inf
        lasting = [
            held for held in self._held.values() if held.origin.incarnation == _start_of(held)
        ]
        lacking = detector.lacking([held.origin for held in lasting], now)
        self._held = {}
        for held in lasting:
            origin = held.origin
            targets = lacking[origin.number] - {held.sender}
            if held.targets is not None:
                targets &= held.targets
            times = {target: detector.silence_counts_at(origin, target) for target in targets}
            ready = [target for target, at in times.items() if at <= now]
            for packet in held.packets if ready else ():
                self._flood.pass_on(packet, ready)
            held.targets = targets.difference(ready)
            if held.targets:
                self.due = min(self.due, *(times[target] for target in held.targets))
                self._held[origin.number] = held


def _start_of(held: _HeldJoin) -> Incarnation:
    return held.packets[0].incarnation


def _names(packet: ControlPacket) -> tuple[int, int]:
    return packet.incarnation.random_id, packet.sequence


def _supersedes(held: ControlPacket, packet: ControlPacket) -> bool:
    """Return whether a join that is held is a later one of the same start."""
    return held.incarnation == packet.incarnation and held.sequence > packet.sequence
