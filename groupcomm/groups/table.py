"""The group table: the connected sessions and their groups, equal at all daemons.

It changes only by events of the agreed order, so at equal positions it is equal everywhere; the
digest lets traces prove it.
"""

import hashlib
from functools import reduce
from operator import attrgetter, xor

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm.groups.lines import Lines


class Member:
    """One connected session, of this daemon or another.

    Attributes:
        daemon: index of its daemon in the view.
        id: its identity as clients see it.
        principal: the owner of the session, as its daemon says; "" if it is unknown.
        groups: the groups that it is in or reads, in the order of its joins, each with its position
            at that time; or the beginning of the view in which this daemon first met it there.
        name_size: the bytes of its name.
        tag: its identity in digests.
    """

    __slots__ = ("daemon", "groups", "id", "name_size", "principal", "tag")

    def __init__(self, daemon: int, member_id: MemberId, principal: str = "") -> None:
        self.daemon = daemon
        self.id = member_id
        self.principal = principal
        self.groups: dict[str, Position] = {}
        self.name_size = len(member_id.name.encode())
        self.tag = f"\0{member_id}".encode()


class GroupTable:
    """Sessions and groups.

    Attributes:
        sessions: every connected session, by (daemon, connection number).
        names: every connected session, by private name.
        groups: the members of each group, in the order in which they joined; no group is empty.
        local: for each group the connection numbers of this daemon's members.
        reading: for each group those of this daemon's readers: they get its messages, and are no
            members.
        pausing: for each group its sessions that need a quorum.
        own_pausing: those of this daemon, by connection number, and whether each leaves without
            a quorum; kept from view to view.
        shown: the id of the latest view of each group that has members here, which all of them got.
        memberships: the number of members of all groups together.
        name_bytes: for each group the bytes of its members' names together.
        digest: 64 bits over the whole table.
        lines: what was delivered of the lines of senders.
        digests: 64 bits over the rows of each daemon: its sessions, and the groups of each.
    """

    __slots__ = (
        "_me",
        "digest",
        "digests",
        "groups",
        "lines",
        "local",
        "memberships",
        "name_bytes",
        "names",
        "own_pausing",
        "pausing",
        "reading",
        "sessions",
        "shown",
    )

    def __init__(self, me: int) -> None:
        self._me = me
        self.sessions: dict[tuple[int, int], Member] = {}
        self.names: dict[str, Member] = {}
        self.groups: dict[str, dict[Member, None]] = {}
        self.local: dict[str, dict[int, None]] = {}
        self.reading: dict[str, dict[int, None]] = {}
        self.pausing: dict[str, dict[Member, None]] = {}
        self.own_pausing: dict[str, dict[int, bool]] = {}
        self.shown: dict[str, Position] = {}
        self.name_bytes: dict[str, int] = {}
        self.memberships = 0
        self.lines = Lines()
        self.digest = 0
        self.digests: dict[int, int] = {}

    @property
    def me(self) -> int:
        """Return the index of this daemon in the view."""
        return self._me

    def renumber(self, me: int, kept: dict[int, int]) -> None:
        """Give daemons other indices, and forget the sessions of all others, which are dropped.

        Args:
            me: the index of this daemon.
            kept: the new index of each daemon that is kept, by its old one.
        """
        if self._me not in kept:
            self.local, self.reading, self.shown = {}, {}, {}
        self._me = me
        members = [member for member in self.sessions.values() if member.daemon in kept]
        for member in members:
            member.daemon = kept[member.daemon]
        self.sessions = {(member.daemon, member.id.connection): member for member in members}
        self.names = {member.id.name: member for member in members}
        self.digests = {new: self.digests.get(old, 0) for old, new in kept.items()}
        self.digest = reduce(xor, self.digests.values(), 0)

    def drop(self, member: Member, group: str) -> bool:
        """Take a session whose daemon is not kept out of a group; return False if it reads it.

        The rest of it goes with `renumber`.
        """
        members = self.groups.get(group, {})
        if member not in members:
            return False
        self._remove(member, group, members)
        return True

    def _remove(self, member: Member, group: str, members: dict[Member, None]) -> None:
        """Remove a session from a group, which ends with its last member."""
        del members[member]
        self.memberships -= 1
        self.name_bytes[group] -= member.name_size
        if not members:
            del self.groups[group], self.name_bytes[group]

    def sort(self, group: str) -> int:
        """Order the members of a group by their daemons, as a view begins; return their number."""
        members = self.groups[group]
        if len(members) > 1:
            daemons = [member.daemon for member in members]
            if daemons != sorted(daemons):
                self.groups[group] = dict.fromkeys(sorted(members, key=_daemon))
        return len(members)

    def own_sessions(self) -> list[tuple[int, str]]:
        """Return connection number and user's name of each session of this daemon, by number."""
        own = (key for key in self.sessions if key[0] == self._me)
        return [(c, self.sessions[d, c].id.user) for d, c in sorted(own)]

    def own_principals(self) -> list[tuple[int, str]]:
        """Return connection number and principal of each session of this daemon that has one."""
        own = [(key[1], m.principal) for key, m in self.sessions.items() if key[0] == self._me]
        return sorted((number, principal) for number, principal in own if principal)

    def connect(self, daemon: int, member_id: MemberId, principal: str = "") -> Member:
        """Enter a session."""
        member = Member(daemon, member_id, principal)
        self.sessions[daemon, member_id.connection] = member
        self.names[member_id.name] = member
        self._mix(member, "")
        return member

    def disconnect(self, member: Member) -> None:
        """Drop a session that is in no group any more."""
        del self.sessions[member.daemon, member.id.connection]
        if self.names.get(member.id.name) is member:
            del self.names[member.id.name]
        self._mix(member, "")

    def join(self, member: Member, group: str, at: Position) -> Position | None:
        """Add a session to a group at a position; a new group begins with its first member.

        Return the id of the view that local members had before; None if there were none.
        """
        self.groups.setdefault(group, {})[member] = None
        self.memberships += 1
        self.name_bytes[group] = self.name_bytes.get(group, 0) + member.name_size
        member.groups[group] = at
        if member.daemon == self._me:
            self.local.setdefault(group, {})[member.id.connection] = None
        self._mix(member, group)
        return self._show(group, at)

    def leave(self, member: Member, group: str, at: Position) -> Position | None:
        """Take a session out of a group at a position; a group ends with its last member.

        Return the id of the view that local members had before; None if there were none.
        """
        self._remove(member, group, self.groups[group])
        del member.groups[group]
        self._end_pause(member, group)
        if member.daemon == self._me:
            local = self.local[group]
            del local[member.id.connection]
            if not local:
                del self.local[group]
        self._mix(member, group)
        return self._show(group, at)

    def reads(self, member: Member, group: str) -> bool:
        """Return whether a session reads a group that it has joined, and is no member of it."""
        return group in member.groups and member not in self.groups.get(group, ())

    def read(self, member: Member, group: str, at: Position) -> None:
        """Let a session read a group from a position on."""
        member.groups[group] = at
        if member.daemon == self._me:
            self.reading.setdefault(group, {})[member.id.connection] = None
        self._mix(member, f"{group}\0reads")

    def stop_reading(self, member: Member, group: str) -> None:
        """Let a session that reads a group read it no more."""
        del member.groups[group]
        self._end_pause(member, group)
        if member.daemon == self._me:
            reading = self.reading[group]
            del reading[member.id.connection]
            if not reading:
                del self.reading[group]
        self._mix(member, f"{group}\0reads")

    def pause(self, member: Member, group: str) -> None:
        """Note that a session which is in a group, or reads it, needs a quorum."""
        self.pausing.setdefault(group, {})[member] = None

    def _end_pause(self, member: Member, group: str) -> None:
        pausing = self.pausing.get(group)
        if pausing is not None and member in pausing:
            del pausing[member]
            if not pausing:
                del self.pausing[group]
        if member.daemon == self._me and group in self.own_pausing:
            own = self.own_pausing[group]
            own.pop(member.id.connection, None)
            if not own:
                del self.own_pausing[group]

    def has_local(self, group: str) -> bool:
        """Return whether a session of this daemon gets a group's messages."""
        return group in self.local or group in self.reading

    def _mix(self, member: Member, group: str) -> None:
        """Enter a session (of no group), or a membership, into the digests, or take it out."""
        hashed = hashlib.blake2b(group.encode() + member.tag, digest_size=8)
        value = int.from_bytes(hashed.digest(), "big")
        self.digest ^= value
        self.digests[member.daemon] = self.digests.get(member.daemon, 0) ^ value

    def _show(self, group: str, at: Position) -> Position | None:
        """Note the view that all local members of a group get; return the one before it."""
        before = self.shown.get(group)
        if group in self.local:
            self.shown[group] = at
        elif before is not None:
            del self.shown[group]
        return before

    def targets(self, groups: tuple[str, ...]) -> tuple[int, ...]:
        """Return the connections that the private names mean now; 0 for a name that nobody has.

        The next owner of a name must not get the message. With 0 it goes to who has the name where
        it is delivered: another daemon welcomes a session as soon as it knows of it itself.
        """
        found = [self.names.get(group) for group in groups if group[0] == "#"]
        return tuple(member.id.connection if member else 0 for member in found)

    def member_ids(self, group: str) -> tuple[MemberId, ...]:
        """Return the members of a group; empty if there is no such group."""
        return tuple(member.id for member in self.groups.get(group, ()))


_daemon = attrgetter("daemon")
