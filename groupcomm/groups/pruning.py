"""Pruning: decides which bundles may stay in their ring, and when other rings get their headers.

Pure. A daemon's subscription counts as soon as it is received, ahead of the agreed order: it
subscribes before its first join, and joins only once all know (docs/pruning.md). Private messages
need no subscription, as the name of the target contains its daemon's.

The header of a local-only packet is sent once every daemon of the ring holds the packet and all
before it, so that a daemon that acts on the header may rely on the packet.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

from groupcomm.config.view import View
from groupcomm.groups.table import Member
from groupcomm.level import ServiceLevel
from groupcomm.stream.stream import Stream
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.data import HEADER_EXTRA_BYTES, HEADERS_FRAME_BYTES, DataPacket, encode_headers

_FRAGMENT = BundleKind.FRAGMENT
_SAFE = ServiceLevel.SAFE


class Reach:
    """The subscriptions of one view, as one daemon knows them.

    Only the subscriptions of daemons of other rings are kept, and only while they hold. Messages to
    a group without one stay in the ring, so nothing else need be remembered.
    """

    __slots__ = ("_elsewhere", "_remote_subscribers", "_ring_daemons")

    def __init__(self, view: View, me: int) -> None:
        """Begin without any subscription."""
        self._ring_daemons = frozenset(view.rings[view.ring_of[me]])
        daemons = enumerate(view.daemons)
        self._elsewhere = frozenset(d.name for at, d in daemons if at not in self._ring_daemons)
        # By group, the daemons of other rings that want its messages.
        self._remote_subscribers: dict[str, set[int]] = {}

    def add(self, member: Member) -> None:
        """Enter the groups with which a session comes into the view."""
        for group in member.groups:
            self.subscribe(member.daemon, group)

    def subscribe(self, daemon: int, group: str) -> None:
        """Note that a daemon wants the messages to a group."""
        if daemon not in self._ring_daemons:
            self._remote_subscribers.setdefault(group, set()).add(daemon)

    def unsubscribe(self, daemon: int, group: str) -> None:
        """Note that a daemon has no members of a group any more, and none that is about to join."""
        daemons = self._remote_subscribers.get(group)
        if daemons is not None:
            daemons.discard(daemon)
            if not daemons:
                del self._remote_subscribers[group]

    def subscribers(self, group: str) -> Iterable[int]:
        """Return the daemons of other rings that want the messages to a group."""
        return self._remote_subscribers.get(group, ())

    def is_local_only(self, bundle: Bundle) -> bool:
        """Return whether a bundle of messages has no recipient outside this ring.

        SAFE messages to private names go to all rings all the same: programs send them to
        themselves to hear that all daemons of the view are still there (docs/locality.md).
        """
        if bundle.kind > _FRAGMENT or any(map(self.leaves, bundle.groups)):
            return False
        return bundle.level < _SAFE or not any(name[0] == "#" for name in bundle.groups)

    def all_local_only(self, bundles: Iterable[Bundle]) -> bool:
        """Return whether all of them are local-only."""
        return all(map(self.is_local_only, bundles))

    def leaves(self, group: str) -> bool:
        """Return whether a group, or a private name, has recipients outside this ring."""
        if group[0] != "#":
            return group in self._remote_subscribers
        return group.rpartition("#")[2] in self._elsewhere


class SharedNames:
    """The names by which rings have to do with each other: groups that several rings want, and what
    another ring may send to.

    While there are none no message waits for another ring. This is known as subscriptions are, and
    decides only how soon rings say something.

    Attributes:
        any: whether there are some.
    """

    __slots__ = ("_daemons", "_ring_of", "_ring_of_name", "_rings", "_shared", "any")

    def __init__(self, view: View) -> None:
        """Begin without any."""
        self._ring_of = view.ring_of
        self._ring_of_name = {d.name: r for d, r in zip(view.daemons, view.ring_of, strict=True)}
        self._daemons: dict[str, set[int]] = {}
        self._rings: dict[str, Counter[int]] = {}
        self._shared: set[str] = set()
        self.any = False

    def add(self, daemon: int, name: str) -> None:
        """Note that a daemon wants the messages to a name, or may send to it."""
        daemons = self._daemons.setdefault(name, set())
        if daemon not in daemons:
            daemons.add(daemon)
            self._count(name, self._ring_of[daemon], 1)

    def remove(self, daemon: int, name: str) -> None:
        """Note that it does not any more."""
        daemons = self._daemons.get(name, set())
        if daemon in daemons:
            daemons.discard(daemon)
            if not daemons:
                del self._daemons[name]
            self._count(name, self._ring_of[daemon], -1)

    def _count(self, name: str, ring: int, change: int) -> None:
        rings = self._rings.setdefault(name, Counter())
        rings[ring] += change
        if not rings[ring]:
            del rings[ring]
            if not rings:
                del self._rings[name]
        owner = self._ring_of_name.get(name.rpartition("#")[2]) if name[0] == "#" else None
        if len(rings.keys() | {owner} - {None}) > 1:
            self._shared.add(name)
        else:
            self._shared.discard(name)
        self.any = bool(self._shared)


class DeferredHeaders:
    """The packets of this ring's stream whose headers are still to be sent.

    Attributes:
        released_upto: all daemons of the ring hold the stream up to this number.
        hurries_safe: whether messages of other rings may wait behind headers of SAFE packets.
    """

    __slots__ = ("_key", "_numbers", "_room", "_stream", "hurries_safe", "released_upto")

    def __init__(self, key: bytes, stream: Stream, packet_limit: int) -> None:
        """Begin; a packet of headers is at most `packet_limit` long, if one header fits."""
        self._key = key
        self._stream = stream
        self._room = packet_limit - HEADERS_FRAME_BYTES
        self._numbers: list[int] = []  # a heap
        self.released_upto = stream.held
        self.hurries_safe = True

    def defer(self, packet: DataPacket) -> None:
        """Note a local-only packet of this ring."""
        heappush(self._numbers, packet.number)

    def pop_ready(self, everywhere: int) -> list[tuple[int, bytes]]:
        """Return the headers to send, now that the ring holds the stream up to `everywhere`.

        Returns:
            Packets of headers, each with the number of its first header.
        """
        self.released_upto = everywhere
        numbers, packets = self._numbers, self._stream.packets
        out: list[tuple[int, bytes]] = []
        headers: list[bytes] = []
        first, size, alone = 0, 0, True
        while numbers and numbers[0] <= everywhere:
            number = heappop(numbers)
            packet = packets.get(number)
            if packet is None:
                continue  # it was forgotten: another daemon of the ring has sent its header
            header = packet.header()
            if headers and size + len(header) + HEADER_EXTRA_BYTES > self._room:
                out.append((first, encode_headers(self._key, headers, alone=alone)))
                headers = []
            if not headers:
                first, size, alone = number, 0, True
            local = packet.wait is not None and not (packet.safe and self.hurries_safe)
            alone &= local or not packet.in_agreed_order
            headers.append(header)
            size += len(header) + HEADER_EXTRA_BYTES
        if headers:
            out.append((first, encode_headers(self._key, headers, alone=alone)))
        return out

    def form_for_other_ring(self, packet: DataPacket) -> bytes | None:
        """Return the bytes of a packet for another ring that asks; None if it is too early."""
        if not packet.local_only:
            return packet.raw
        return packet.header() if packet.number <= self.released_upto else None
