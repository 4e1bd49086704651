"""The ring table: which packets a ring orders alone, and what these wait for (docs/locality.md).

Pure. It follows the stream of one ring, packet by packet in the order of numbers, ahead of the
agreed order: so all daemons of the ring have the same table at the same number. A packet is *local*
if other rings may send to none of its receivers. It waits for earlier packets that concern one of
them, or are of its session; *marks* say up to where, for a group, a private name or a session: a
stamp that the global order has to reach, and a number up to which the whole ring has to be able to
deliver.

A mark may say too much and never too little. A packet costs O(groups that share members with its
own), a join or leave O(groups of its session).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from groupcomm.clocks.stamp import Stamp
from groupcomm.groups.table import Member
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.data import DataPacket

_AGREED = ServiceLevel.AGREED
_CAUSAL = ServiceLevel.CAUSAL
_SAFE = ServiceLevel.SAFE
_FRAGMENT = BundleKind.FRAGMENT
_CONNECT = BundleKind.CONNECT
_JOIN = BundleKind.JOIN
_LEAVE = BundleKind.LEAVE
_DISCONNECT = BundleKind.DISCONNECT
_WIDE = BundleKind.WIDE
_NARROW = BundleKind.NARROW

Key = tuple[int, int]
"""A session: the index of its daemon, and its connection number."""


class Wait(NamedTuple):
    """What a local packet waits for.

    Attributes:
        stamp: the global order has delivered the packet with this stamp, and so all below.
        number: all daemons of the ring can deliver its stream up to here; only for SAFE.
    """

    stamp: Stamp = Stamp(0, 0)
    number: int = 0

    def with_other(self, other: "Wait") -> "Wait":
        """Return the wait for both."""
        return Wait(max(self.stamp, other.stamp), max(self.number, other.number))


NOTHING: Final = Wait()


class _Session:
    """A session of the ring: its private name, its groups, and how many of all these are wide."""

    __slots__ = ("groups", "name", "wide")

    def __init__(self, name: str) -> None:
        self.name = name
        self.groups: set[str] = set()
        self.wide = 0


class RingTable:
    """The sessions of one ring, the names that are wide, and the marks.

    Names are groups and private names. A name is *wide* while daemons of other rings may send to
    it; a session is *touched* by that if it is the name, or in the group.
    """

    __slots__ = (
        "_daemons",
        "_highest",
        "_last_safe",
        "_marks",
        "_members",
        "_names",
        "_open",
        "_sent",
        "_sessions",
        "_shared",
        "_touched",
        "_wide",
    )

    def __init__(self, daemons: Iterable[int], names: list[str], *, safe: bool = True) -> None:
        """Begin without sessions.

        Args:
            daemons: the indices of the ring's daemons.
            names: the name of each daemon of the view.
            safe: whether SAFE packets may be local, too.
        """
        self._highest = _SAFE if safe else _AGREED
        self._last_safe = 0  # the number of the last local SAFE packet
        self._daemons = frozenset(daemons)
        self._names = names
        self._sessions: dict[Key, _Session] = {}
        self._open: dict[str, Key] = {}  # by private name
        self._members: dict[str, set[Key]] = {}
        self._wide: set[str] = set()
        self._touched: dict[str, int] = {}  # by group, its members that something wide touches
        # By group and other group, the sessions that are in both.
        self._shared: dict[str, dict[str, int]] = {}
        self._marks: dict[str, Wait] = {}
        self._sent: dict[Key, Wait] = {}

    # ---- the table ----

    def add(self, member: Member) -> None:
        """Enter a session with which the view begins; one of another ring makes its groups wide."""
        if member.daemon not in self._daemons:
            for group in member.groups:
                self.widen(group)
            return
        key = (member.daemon, member.id.connection)
        self._connect(key, member.id.name)
        for group in member.groups:
            self._join(key, group)

    def is_wide(self, name: str) -> bool:
        """Return whether daemons of other rings may send to a name."""
        return name in self._wide

    def widen(self, name: str) -> None:
        """Note that daemons of other rings may send to a name, from here on."""
        if name not in self._wide:
            self._wide.add(name)
            for key in self._keys(name):
                self._touch(key, 1)

    def narrow(self, name: str, at: Wait = NOTHING) -> None:
        """Note that they may not any more; what follows waits for the mark."""
        if name in self._wide:
            self._wide.discard(name)
            for key in self._keys(name):
                self._touch(key, -1)
        self._mark_all((name,), at)

    def _keys(self, name: str) -> Iterable[Key]:
        """Return the sessions of this ring that get what is sent to a name."""
        if name[0] != "#":
            return self._members.get(name, ())
        return (self._open[name],) if name in self._open else ()

    def _touch(self, key: Key, change: int) -> None:
        """Count one wide name more, or less, of a session."""
        session = self._sessions[key]
        before, session.wide = session.wide, session.wide + change
        if (before > 0) != (session.wide > 0):
            for group in session.groups:
                self._touched[group] = self._touched.get(group, 0) + change

    def _connect(self, key: Key, name: str) -> None:
        self._sessions[key] = session = _Session(name)
        self._open[name] = key
        session.wide = int(name in self._wide)

    def _disconnect(self, key: Key) -> None:
        session = self._sessions.pop(key)
        if self._open.get(session.name) == key:
            del self._open[session.name]
        self._marks.pop(session.name, None)
        self._sent.pop(key, None)

    def _join(self, key: Key, group: str) -> None:
        session = self._sessions[key]
        if group in session.groups:
            return
        self._members.setdefault(group, set()).add(key)
        self._share(group, session.groups, 1)
        session.groups.add(group)
        if session.wide:
            self._touched[group] = self._touched.get(group, 0) + 1
        if group in self._wide:
            self._touch(key, 1)

    def _leave(self, key: Key, group: str) -> None:
        session = self._sessions[key]
        if group not in session.groups:
            return
        if group in self._wide:
            self._touch(key, -1)
        if session.wide:
            self._touched[group] -= 1
        session.groups.discard(group)
        self._share(group, session.groups, -1)
        members = self._members[group]
        members.discard(key)
        if not members:
            del self._members[group]
            self._touched.pop(group, None)
            self._marks.pop(group, None)

    def _share(self, group: str, others: Iterable[str], change: int) -> None:
        """Count one session more, or less, that is in a group and in others."""
        for other in others:
            for one, two in ((group, other), (other, group)):
                shared = self._shared.setdefault(one, {})
                shared[two] = shared.get(two, 0) + change
                if not shared[two]:
                    del shared[two]
                    if not shared:
                        del self._shared[one]

    # ---- packets ----

    def classify(self, packet: DataPacket) -> Wait | None:
        """Enter the next packet of the stream.

        Returns:
            What it waits for if it is local; None if it is global, or not of the agreed order.
        """
        agreed = [bundle for bundle in packet.bundles if bundle.level >= _AGREED]
        for bundle in packet.bundles:
            if bundle.kind == _WIDE:
                self.widen(bundle.groups[0])
        self._note_causes(packet)
        if agreed and all(map(self._is_local, agreed)) and (packet.local_only or not packet.safe):
            return self._enter_local(packet, agreed)
        at = Wait(Stamp(packet.time, packet.ring))
        for bundle in agreed:
            self._enter_global(packet.daemon, bundle, at)
        return None

    def _note_causes(self, packet: DataPacket) -> None:
        """Let what a session sends after a CAUSAL message wait for what that waits for: A, and the
        local SAFE packets up to V."""
        if packet.agreed is None or packet.vector is None:
            return
        number = min(self._last_safe, packet.vector[packet.ring])
        for bundle in packet.bundles:
            if bundle.level == _CAUSAL:
                self._note_sent((packet.daemon, bundle.session), Wait(packet.agreed, number))

    def _is_local(self, bundle: Bundle) -> bool:
        """Return whether each name of a bundle has receivers, to none of whom other rings may send.

        What nobody receives is global: members who have left may not be gone yet where it arrives.
        """
        if bundle.kind > _FRAGMENT or bundle.level > self._highest:
            return False
        return all(map(self._is_inside, bundle.groups))

    def _is_inside(self, name: str) -> bool:
        if name in self._wide:
            return False
        if name[0] != "#":
            return name in self._members and not self._touched.get(name)
        key = self._open.get(name)
        return key is not None and not self._sessions[key].wide

    def _enter_local(self, packet: DataPacket, bundles: list[Bundle]) -> Wait:
        wait = NOTHING
        for bundle in bundles:
            wait = wait.with_other(self._sent.get((packet.daemon, bundle.session), NOTHING))
            for name in self._concerned(bundle.groups):
                wait = wait.with_other(self._marks.get(name, NOTHING))
            if bundle.level == _SAFE:
                wait = wait.with_other(Wait(number=packet.number))
                self._last_safe = packet.number
        if wait != NOTHING:
            for bundle in bundles:
                self._note_sent((packet.daemon, bundle.session), wait)
                self._mark_all(bundle.groups, wait)
        return wait

    def _concerned(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names by which receivers of a message may get other ones, maybe repeatedly."""
        for name in names:
            yield name
            if name[0] != "#":
                yield from self._shared.get(name, ())
            elif name in self._open:
                yield from self._sessions[self._open[name]].groups

    def _enter_global(self, daemon: int, bundle: Bundle, at: Wait) -> None:
        key, kind = (daemon, bundle.session), bundle.kind
        if kind == _NARROW:
            self.narrow(bundle.groups[0], at)
        if kind == _CONNECT and key not in self._sessions:
            self._connect(key, private_name(bundle.user, self._names[daemon]))
        session = self._sessions.get(key)
        if session is None:
            return
        self._note_sent(key, at)
        if kind <= _FRAGMENT:
            self._mark_all(bundle.groups, at)
            return
        if kind == _JOIN:
            self._join(key, bundle.groups[0])
        self._mark_all((session.name, *session.groups), at)
        if kind == _LEAVE:
            self._leave(key, bundle.groups[0])
        elif kind == _DISCONNECT:
            for group in list(session.groups):
                self._leave(key, group)
            self._disconnect(key)

    def _mark_all(self, names: Iterable[str], at: Wait) -> None:
        """Let what follows to the receivers of these names wait."""
        for name in names:
            self._mark(name, at)
            if name[0] == "#" and name in self._open:
                for group in self._sessions[self._open[name]].groups:
                    self._mark(group, at)

    def _mark(self, name: str, at: Wait) -> None:
        if name in self._members or name in self._open:
            self._marks[name] = self._marks.get(name, NOTHING).with_other(at)

    def _note_sent(self, key: Key, at: Wait) -> None:
        if key in self._sessions:
            self._sent[key] = self._sent.get(key, NOTHING).with_other(at)
