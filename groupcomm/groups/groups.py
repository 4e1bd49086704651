"""Groups: ordered events become group views, bundles find their local recipients.

Pure. One object for each view of the daemons; it begins with the table of the
last one and the announcements of all (beginning.py).
`deliver` accepts bundles in the order in which the order releases them. AGREED and SAFE bundles
meet the same table at every daemon; lower ones go to the members of the moment.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from groupcomm.clocks.stamp import Position
from groupcomm.config.versions import READERS
from groupcomm.config.view import DaemonId, View
from groupcomm.events import Cause, MemberId
from groupcomm.groups.announcement import Announcements
from groupcomm.groups.audience import Audience
from groupcomm.groups.beginning import PIECE, Beginning
from groupcomm.groups.changes import GroupChange
from groupcomm.groups.lines import NO_LINES, LineRules
from groupcomm.groups.table import GroupTable, Member
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.wire.bundle import (
    GIVES_UP,
    LEAVES_WITHOUT_QUORUM,
    NEEDS_QUORUM,
    SELF_DISCARD,
    WITHOUT_VIEWS,
    Bundle,
    BundleKind,
    body_payload,
    principal_of,
)

_AGREED = ServiceLevel.AGREED
_FRAGMENT = BundleKind.FRAGMENT

CONTROL_UNITS = 3
"""The work of an event of a session, besides what programs are told of it."""

Place = tuple[int, int, int]
"""(time, ring, bundle): a position within the view."""


Key = tuple[int, int, int]
"""(daemon, connection number, message number): the message that a fragment belongs to."""


class OpenMessages:
    """The messages of which some fragments were delivered here and some were not.

    Their recipients are the sessions that are members from the first fragment to the last.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Key, tuple[list[int], int]] = {}  # recipients, delivered fragments

    def recipients(
        self, key: Key, current: Iterable[int], count: int
    ) -> tuple[list[int], list[int]]:
        """Add one more fragment of a message of `count`.

        Args:
            key: the message.
            current: connections that would get a message delivered now.
            count: fragments of the message.

        Returns:
            The recipients of the fragment, and those of earlier ones that may not get the rest.
        """
        known = self._open.get(key)
        if known is None:
            staying, gone, seen = list(current), list[int](), 1
        else:
            now = set(current)
            staying = [connection for connection in known[0] if connection in now]
            gone = [connection for connection in known[0] if connection not in now]
            seen = known[1] + 1
        if seen < count:
            self._open[key] = (staying, seen)
        else:
            self._open.pop(key, None)
        return staying, gone

    def end_session(self, daemon: int, connection: int) -> list[tuple[int, list[int]]]:
        """Drop the open messages of a sender; return number and earlier recipients of each."""
        keys = [key for key in self._open if key[:2] == (daemon, connection)]
        return [(key[2], self._open.pop(key)[0]) for key in keys]

    def end_older(self, key: Key) -> list[tuple[int, list[int]]]:
        """Drop a sender's open messages below this one, for levels that may lose fragments.

        Return number and earlier recipients of each.
        """
        keys = [old for old in self._open if old[:2] == key[:2] and old[2] < key[2]]
        return [(old[2], self._open.pop(old)[0]) for old in keys]

    def end_all(self) -> list[tuple[Key, list[int]]]:
        """Drop all open messages; return key and earlier recipients of each."""
        ended = [(key, recipients) for key, (recipients, _) in self._open.items()]
        self._open.clear()
        return ended


class Departure(NamedTuple):
    """The end of a session that was in many groups, which takes several steps.

    Attributes:
        member: the session.
        bundle: its DISCONNECT.
        groups: those that it is still in.
    """

    member: Member
    bundle: Bundle
    groups: list[str]


class Groups:
    """The groups as one daemon keeps them in one view.

    Attributes:
        table: the connected sessions and their groups.
        highest: for each daemon the highest connection number seen in the view.
        checks: own private messages below AGREED that are to be settled, a heap.
        departing: the session whose end is delivered, while it is in groups still.
    """

    __slots__ = (
        "_audience",
        "_ids",
        "_me",
        "_missing",
        "_names",
        "_open",
        "_open_unreliable",
        "_view",
        "checks",
        "departing",
        "highest",
        "table",
    )

    def __init__(self, view: View, me: int, audience: Audience) -> None:
        self.table = GroupTable(me)
        self._view = view
        self._me = me
        self._audience = audience
        self._names = [daemon.name for daemon in view.daemons]
        self._ids: dict[tuple[int, int, str], MemberId] = {}
        self._open = OpenMessages()
        self._open_unreliable = OpenMessages()  # kept apart, as a newer one ends the older ones
        self.highest = [0] * len(view.daemons)
        # By sender and message in fragments, the private names that had nobody at the first one.
        self._missing: dict[tuple[int, int], list[str]] = {}
        self.checks: list[tuple[Place, Bundle]] = []
        self.departing: Departure | None = None

    # ---- the view begins and ends ----

    def begin(
        self,
        carried: tuple[GroupTable, Sequence[DaemonId]],
        announcements: Announcements,
        *,
        lines: LineRules = NO_LINES,
        on_session: Callable[[Member], None] | None = None,
        on_table: Callable[[], None],
    ) -> Beginning:
        """Return what makes the group table and shows each group to its local members.

        Nothing may be delivered before it is done. For the arguments see Beginning.
        """
        found = Beginning(
            self._view,
            self._me,
            carried,
            announcements,
            self._audience,
            lines=lines,
            on_session=on_session,
            on_table=on_table,
        )
        self.table, self.highest = found.table, found.highest
        return found

    def end(self) -> None:
        """End the view: settle private messages, and abort messages that came only in part."""
        self.settle(2**64)
        for open_messages in (self._open, self._open_unreliable):
            for (daemon, connection, message), recipients in open_messages.end_all():
                member = self.table.sessions.get((daemon, connection))
                if member is not None:
                    self._abort(member.id, [(message, recipients)])

    # ---- messages ----

    def deliver(self, bundle: Bundle) -> None:
        """Deliver a bundle that the order has released."""
        if bundle.kind > _FRAGMENT:
            self._control(bundle)
            return
        daemon = bundle.packet.daemon
        self._send_out(bundle, daemon, self._open)
        if self.table.lines.held:
            self.table.lines.note((daemon, bundle.session), bundle)
        if bundle.privates and daemon == self._me and bundle.index in (0, bundle.count - 1):
            self._watch_private(bundle)

    def deliver_unreliable(self, bundle: Bundle) -> None:
        """Deliver a bundle without a place in the order, unless its session has gone."""
        daemon = bundle.packet.daemon
        known = (daemon, bundle.session) in self.table.sessions
        if not known and bundle.session <= self.highest[daemon]:
            return
        if bundle.kind == _FRAGMENT:
            key = (daemon, bundle.session, bundle.message)
            self._abort(self.sender(bundle), self._open_unreliable.end_older(key))
        self._send_out(bundle, daemon, self._open_unreliable)

    def _send_out(self, bundle: Bundle, daemon: int, open_messages: OpenMessages) -> None:
        recipients = self._recipients(bundle, daemon)
        if bundle.kind == _FRAGMENT:
            key = (daemon, bundle.session, bundle.message)
            recipients, gone = open_messages.recipients(key, recipients, bundle.count)
            self._abort(self.sender(bundle), [(bundle.message, gone)])
        if recipients:
            self._audience.deliver(recipients, bundle, self.sender(bundle))

    def _recipients(self, bundle: Bundle, daemon: int) -> Iterable[int]:
        local = self.table.local
        groups = bundle.groups
        if len(groups) == 1 and not bundle.privates:
            found = local.get(groups[0])
            if groups[0] in self.table.reading:
                found = {**(found or {}), **self.table.reading[groups[0]]}
            if found is None:
                return ()
            if not (bundle.flags & SELF_DISCARD and daemon == self._me):
                return found
            united = dict(found)
        else:
            united = self._unite(bundle)
        if bundle.flags & SELF_DISCARD and daemon == self._me:
            united.pop(bundle.session, None)
        return united

    def _unite(self, bundle: Bundle) -> dict[int, None]:
        """Return each local recipient of a bundle with several or private destinations once."""
        united: dict[int, None] = {}
        targets = iter(bundle.targets)
        suffix = "#" + self._names[self._me]
        for group in bundle.groups:
            if group[0] != "#":
                united.update(self.table.local.get(group, {}))
                united.update(self.table.reading.get(group, {}))
                continue
            connection = next(targets)
            if group.endswith(suffix) and (connection := connection or self._owner(group)):
                united[connection] = None
        return united

    def _owner(self, name: str) -> int:
        """Return the connection of the session that has a private name now; 0 if nobody has it."""
        member = self.table.names.get(name)
        return 0 if member is None else member.id.connection

    def sender(self, bundle: Bundle) -> MemberId:
        """Return the identity of the session that sent a bundle."""
        key = (bundle.packet.daemon, bundle.session, bundle.user)
        known = self._ids.get(key)
        if known is None:
            name = private_name(bundle.user, self._names[key[0]])
            known = self._ids[key] = MemberId(name, bundle.session)
        return known

    def _abort(self, sender: MemberId, messages: list[tuple[int, list[int]]]) -> None:
        for message, connections in messages:
            if connections:
                self._audience.abort(connections, sender, message)

    # ---- private messages that come too late ----

    def _watch_private(self, bundle: Bundle) -> None:
        """Check, at its position, whether the targets of an own message are still there."""
        if bundle.level >= _AGREED and bundle.packet.wait is not None:
            self._bounce(bundle)  # ahead of the global line: others are not settled up to its place
            return
        place = _place(bundle)
        heappush(self.checks, (place, bundle))
        if bundle.level >= _AGREED:
            self._settle_to(place)

    def settle(self, progress: int) -> None:
        """Settle private messages up to `progress`, up to which the agreed order is delivered."""
        self._settle_to((progress + 1, -1, -1))

    def _settle_to(self, place: Place) -> None:
        """Settle private messages up to a place, with the table as it is there."""
        while self.checks and self.checks[0][0] <= place:
            self._bounce(heappop(self.checks)[1])

    def _bounce(self, bundle: Bundle) -> None:
        """Tell the sender which private names of a message have nobody at its position.

        A message in fragments has its recipients from its first fragment to its last.
        """
        privates = [group for group in bundle.groups if group[0] == "#"]
        targets = zip(privates, bundle.targets, strict=True)
        missing = [name for name, target in targets if not self._is_there(name, target)]
        key = (bundle.session, bundle.message)
        if bundle.index < bundle.count - 1 and bundle.kind == _FRAGMENT:
            self._missing[key] = missing
            return
        before = self._missing.pop(key, []) if bundle.index else []
        for name in dict.fromkeys((*before, *missing)):
            whole = 1 if bundle.kind == _FRAGMENT else bundle.count
            for index in range(whole):
                position = self._position(bundle)._replace(message=index)
                self._audience.bounce(bundle.session, bundle.message + index, name, position)

    def _is_there(self, name: str, target: int) -> bool:
        owner = self._owner(name)
        return owner > 0 and target in (0, owner)

    # ---- control ----

    def _control(self, bundle: Bundle) -> None:
        self._audience.charge(CONTROL_UNITS)
        daemon = bundle.packet.daemon
        self._settle_to(_place(bundle))
        if bundle.kind == BundleKind.CONNECT:
            self._connect(daemon, bundle)
        else:
            member = self.table.sessions.get((daemon, bundle.session))
            if member is None:
                return
            if bundle.kind == BundleKind.DISCONNECT:
                self._disconnect(member, bundle)
                return
            if bundle.kind == BundleKind.LINE:
                self._go_on_with_line(member, bundle)
                return
            self._join_or_leave(member, bundle)
        self._audience.table_changed(self._position(bundle), self.table.digest)

    def _connect(self, daemon: int, bundle: Bundle) -> None:
        member_id = self.sender(bundle)
        self.table.connect(daemon, member_id, principal_of(bundle))
        self.highest[daemon] = max(self.highest[daemon], bundle.session)
        if daemon == self._me:
            self._audience.connected(bundle.session, member_id)

    def _go_on_with_line(self, member: Member, bundle: Bundle) -> None:
        """Let a session go on with a line, or give it up."""
        lines, line_id = self.table.lines, bytes(body_payload(bundle.body))
        key = (member.daemon, member.id.connection)
        if bundle.flags & GIVES_UP:
            lines.give_up(line_id, key)
            return
        if lines.why_not:
            return  # its daemon has ended it
        if member.daemon == self._me:
            self._audience.line_claimed(member.id.connection)
        ends = lines.claim(line_id, key, member.id)
        if ends is None:
            self._grant_line(key, bundle)
        elif (found := self.table.names.get(ends.name)) and found.daemon == self._me:
            self._audience.line_taken(ends.connection)

    def _grant_line(self, key: tuple[int, int], bundle: Bundle) -> None:
        if key[0] == self._me:
            self._audience.line_granted(key[1], bundle.packet.time)

    def _join_or_leave(self, member: Member, bundle: Bundle) -> None:
        group = bundle.groups[0]
        joins = bundle.kind == BundleKind.JOIN
        own = member.daemon == self._me
        if own and joins:
            self._audience.joined(group)
        if (group in member.groups) == joins:
            return
        if joins and bundle.flags & NEEDS_QUORUM:
            self.table.pause(member, group)
            if own:
                leaves = bool(bundle.flags & LEAVES_WITHOUT_QUORUM)
                self.table.own_pausing.setdefault(group, {})[member.id.connection] = leaves
        at = self._position(bundle)
        if self.table.reads(member, group) or (joins and self._is_reader(bundle)):
            self._join_or_leave_reading(member, group, at, joins=joins)
        elif joins:
            before = self.table.join(member, group, at)
            self._show(group, at, before, Cause.JOIN, member)
            self._audience.entered(member, group)
        else:
            before = self.table.leave(member, group, at)
            self._show(group, at, before, Cause.LEAVE, member)
            if own:
                self._audience.left(group)

    def _is_reader(self, bundle: Bundle) -> bool:
        """Return whether a join makes its session a reader: all daemons must know what that is."""
        return bool(bundle.flags & WITHOUT_VIEWS and self._view.versions.features & READERS)

    def _join_or_leave_reading(
        self, member: Member, group: str, at: Position, *, joins: bool
    ) -> None:
        """Let a session read a group, or no more; only the session itself is told."""
        if joins:
            self.table.read(member, group, at)
            self._audience.entered(member, group)
        else:
            self.table.stop_reading(member, group)
        if member.daemon == self._me:
            change = GroupChange(
                group=group,
                id=at,
                before=None,
                cause=Cause.JOIN if joins else Cause.LEAVE,
                members=(member,) if joins else (),
                came=(member.id,) if joins else (),
                left=() if joins else (member.id,),
            )
            self._audience.show_change((), change, member.id.connection)
            if not joins:
                self._audience.left(group)

    def _disconnect(self, member: Member, bundle: Bundle) -> None:
        connection = member.id.connection
        for open_messages in (self._open, self._open_unreliable):
            self._abort(member.id, open_messages.end_session(member.daemon, connection))
        self.departing = Departure(member, bundle, list(member.groups))
        if self._audience.may_deliver():  # what ends with the session may have gone to many
            self.go_on_departing()

    def go_on_departing(self) -> bool:
        """Take the session that departs out of some more groups; return whether that is all.

        Nothing may be delivered before that.
        """
        if self.departing is None:
            return True
        member, bundle, groups = self.departing
        at = self._position(bundle)
        done = 0
        while done < len(groups) and done < PIECE:
            self._leave_at_end(member, groups[done], at)
            done += 1
        self._audience.charge(done)
        if done < len(groups):
            self.departing = Departure(member, bundle, groups[done:])
            return False
        self.departing = None
        self.table.disconnect(member)
        connection = member.id.connection
        self._ids.pop((member.daemon, connection, bundle.user), None)
        if (following := self.table.lines.end((member.daemon, connection))) is not None:
            self._grant_line(following[0], bundle)
        if member.daemon == self._me:
            self._audience.disconnected(connection, member.id)
        self._audience.table_changed(at, self.table.digest)
        return True

    def _leave_at_end(self, member: Member, group: str, at: Position) -> None:
        """Take a session that has ended out of a group."""
        if self.table.reads(member, group):
            self.table.stop_reading(member, group)
        else:
            before = self.table.leave(member, group, at)
            self._show(group, at, before, Cause.DISCONNECT, member)
        if member.daemon == self._me:
            self._audience.left(group)

    def _show(
        self, group: str, at: Position, before: Position | None, cause: Cause, changed: Member
    ) -> None:
        """Tell the local members, and the one that changed, if it is local and still there."""
        connection = changed.id.connection
        own = changed.daemon == self._me and cause is not Cause.DISCONNECT
        others = [c for c in self.table.local.get(group, ()) if not (own and c == connection)]
        if not others and not own:
            return
        change = GroupChange(
            group=group,
            id=at,
            before=before,
            cause=cause,
            members=self.table.groups.get(group, ()),
            came=(changed.id,) if cause is Cause.JOIN else (),
            left=() if cause is Cause.JOIN else (changed.id,),
        )
        self._audience.show_change(others, change, connection if own else None)

    def _position(self, bundle: Bundle) -> Position:
        time, ring, place = _place(bundle)
        return Position(self._view.id, time, ring, place, 0)


def _place(bundle: Bundle) -> Place:
    packet = bundle.packet
    return (packet.time, packet.ring, bundle.place)
