"""Packets sent in vain: notice that a packet never arrives over a link whose other end is heard.

Pure; times are in seconds. A network card may lose datagrams of some sizes only. Then beacons and
small packets pass, every attempt to send the packet is lost, and its stream would wait for ever.
While the link is down, its other end is silent, and that is noticed much earlier
(membership/operational.py). Packets may also arrive late: the acknowledgement of an attempt that
was given up counts, too.

Source: Amir et al., "The Totem Single-Ring Ordering and Membership Protocol", ACM TOCS 13(4), 1995:
failure to receive (fail_to_rcv_const), as in ring/reception.py. There the daemon that lacks packets
notices it. On a link that is the one that sends, as only it knows of packets and attempts.
"""

from bisect import bisect_right
from math import inf
from operator import itemgetter
from typing import Final, TypeAlias

from groupcomm.link.queue import Queued
from groupcomm.stream.ranges import Range

ATTEMPTS: Final = 16
"""The attempts in a row that must have been given up. If 30 % of all packets are lost at random,
that befalls one packet of 200 million."""

FOLLOWED: Final = 3
"""From this attempt on a small packet follows each one, so that its loss shows without traffic; and
it is remembered after it was given up."""

MOST_REMEMBERED: Final = 64
"""The most attempts whose acknowledgement counts after they were given up."""

_first_of: Final = itemgetter(0)

_Key: TypeAlias = tuple[int, int, int, int]
"""The origin, the number in its stream, and of a fragment the packet that was cut and the part."""


class _Attempts:
    """The attempts to send one packet that were given up.

    Attributes:
        since: the time of the first one.
        count: their number.
    """

    __slots__ = ("count", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = 0


class PacketsInVain:
    """The stream packets of one direction of a link that were sent in vain so far."""

    __slots__ = ("_given_up", "_packets")

    def __init__(self) -> None:
        self._packets: dict[_Key, _Attempts] = {}
        self._given_up: dict[int, _Key] = {}  # attempts, by their numbers

    @property
    def since(self) -> float:
        """Return the time of the first attempt of a packet that never arrives; inf if all do."""
        return min(
            (each.since for each in self._packets.values() if each.count >= ATTEMPTS), default=inf
        )

    def note_given_up(self, number: int, queued: Queued, sent_at: float) -> None:
        """Note that an attempt of this number, which was sent at that time, was given up."""
        if not queued.number:
            return
        key = _key_of(queued)
        attempts = self._packets.get(key)
        if attempts is None:
            attempts = self._packets[key] = _Attempts(sent_at)
        attempts.count += 1
        if attempts.count >= FOLLOWED:
            self._given_up[number] = key
            while len(self._given_up) > MOST_REMEMBERED:
                del self._given_up[next(iter(self._given_up))]

    def note_arrived(self, queued: Queued) -> None:
        """Note that a packet has arrived."""
        if self._packets:
            self._packets.pop(_key_of(queued), None)

    def note_acknowledged(self, ranges: list[Range]) -> None:
        """Note the attempts that have arrived after all, from an acknowledgement."""
        for number, key in list(self._given_up.items()):
            place = bisect_right(ranges, number, key=_first_of) - 1
            if key not in self._packets or (place >= 0 and number <= ranges[place][1]):
                self._packets.pop(key, None)
                del self._given_up[number]

    def clear(self) -> None:
        """Forget all attempts."""
        self._packets.clear()
        self._given_up.clear()

    def needs_follower(self, queued: Queued) -> bool:
        """Return whether a small packet has to follow the next attempt."""
        attempts = self._packets.get(_key_of(queued))
        return attempts is not None and attempts.count + 1 >= FOLLOWED


def _key_of(queued: Queued) -> _Key:
    fragment = queued.fragment
    if fragment is None:
        return queued.origin, queued.number, 0, 0
    return queued.origin, queued.number, fragment.whole, fragment.part
