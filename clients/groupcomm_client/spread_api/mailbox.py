"""One mailbox: a blocking connection, and its events as Spread's messages."""

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Refused, Transition
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.events import Received, Unfiltered, Unreadable
from groupcomm_client.spread_api.constants import (
    CAUSED_BY_DISCONNECT,
    CAUSED_BY_JOIN,
    CAUSED_BY_LEAVE,
    CAUSED_BY_NETWORK,
    REG_MEMB_MESS,
    REJECT_MESS,
    SERVICE_OF,
    TRANSITION_MESS,
)

_CAUSES: Final = {
    Cause.JOIN: CAUSED_BY_JOIN,
    Cause.LEAVE: CAUSED_BY_LEAVE,
    Cause.DISCONNECT: CAUSED_BY_DISCONNECT,
    Cause.NETWORK: CAUSED_BY_NETWORK,
}


@attrs.frozen
class group_id:
    """The identity of a view of a group; equal at all its members."""

    position: Position


@attrs.frozen
class membership_info:
    """The content of a membership message.

    Attributes:
        gid: the view's identity.
        changed_member: the member that joined, left or disconnected; empty for other causes.
        vs_sets: members that come along together, the receiver's own first.
        my_vs_set_index: the index of the receiver's own set.
    """

    gid: group_id
    changed_member: str
    vs_sets: tuple[tuple[str, ...], ...]
    my_vs_set_index: int

    @property
    def num_vs_sets(self) -> int:
        """Return the number of sets."""
        return len(self.vs_sets)


@attrs.frozen
class Received_message:
    """The result of SP_receive, in the order of C's arguments.

    Attributes:
        service_type: level, or membership bits.
        sender: a private name; for a membership message the group.
        groups: the destinations; for a membership message the members.
        mess_type: the sender's tag; for a membership message the receiver's place among the
            members.
        endian_mismatch: always False: tags are numbers here, data are bytes.
        message: the data; empty for a membership message.
        info: the content of a membership message.
    """

    service_type: int
    sender: str
    groups: tuple[str, ...]
    mess_type: int
    endian_mismatch: bool
    message: bytes
    info: membership_info | None = None

    def pieces(self, sizes: Sequence[int]) -> tuple[bytes, ...]:
        """Return the data in pieces of these sizes, and the rest."""
        ends = list(itertools.accumulate(sizes))
        cuts = [0, *ends[:-1], max(len(self.message), ends[-1] if ends else 0)]
        return tuple(self.message[a:b] for a, b in itertools.pairwise(cuts))


class Mailbox:
    """One session.

    Args:
        connection: an open connection.
        membership: whether the program wants membership messages.
    """

    def __init__(self, connection: BlockingConnection, membership: bool) -> None:
        self.connection = connection
        self._membership = membership
        self._waiting: deque[Received_message] = deque()
        self._views: dict[str, GroupView] = {}  # the last view of each group that was told
        self._losing: set[str] = set()  # groups of which a transition was told
        self._staying: frozenset[str] | None = None  # daemons that go on, while a view ends
        self._kept_back = False
        self._lock = threading.Lock()

    def receive(self, timeout_s: float | None) -> Received_message | None:
        """Return the next message; None if none arrives in time.

        Raises:
            SessionEnded: nothing follows.
        """
        with self._lock:
            while not self._waiting:
                try:
                    event = self.connection.receive(timeout_s)
                except TimeoutError:
                    return None
                self._accept(event)
            found = self._waiting.popleft()
            self.connection.keep_back(bool(self._waiting) or self._kept_back)
            return found

    def keep_back(self, more: bool) -> None:
        """Set whether a layer above has messages that it has not returned yet; then stay
        readable."""
        with self._lock:
            self._kept_back = more
            self.connection.keep_back(bool(self._waiting) or more)

    def poll(self) -> int:
        """Return the size of the next message in bytes, 1 if it is empty; 0 if none has come."""
        with self._lock:
            while not self._waiting:
                try:
                    event = self.connection.receive(0.0)
                except TimeoutError:
                    return 0
                self._accept(event)
            self.connection.keep_back(True)
            return max(1, len(self._waiting[0].message))

    def _accept(self, event: Received) -> None:
        if isinstance(event, Unfiltered | Unreadable):
            event = event.message  # unchanged: Spread has no way to express its fault
        if isinstance(event, Message):
            service = SERVICE_OF[event.level]
            self._waiting.append(
                Received_message(
                    service, event.sender.name, event.groups, event.type, False, event.data
                )
            )
        elif isinstance(event, Refused):
            self._waiting.append(self._refused(event))
        elif self._membership and isinstance(event, GroupView):
            if not event.unchanged or event.group in self._losing:
                self._note_parting(event)
                self._waiting.append(self._view(event))
            if event.cause is Cause.JOIN:  # a member of a lost daemon may have come last
                self._end_view(event)
        elif self._membership and isinstance(event, Transition):
            self._staying = frozenset(event.together or ())
            for view in self._views.values():
                self._end_view(view)
        elif isinstance(event, DaemonView):
            self._staying = None

    def _end_view(self, view: GroupView) -> None:
        """Tell of a group that is about to lose members, once; in others nobody can lack what this
        one gets.
        """
        if self._staying is None or view.group in self._losing:
            return
        if self._staying.issuperset(member.daemon for member in view.members):
            return
        self._tell_loss(view)

    def _note_parting(self, view: GroupView) -> None:
        """Tell of a loss that was not known as the view ended: daemons have parted since."""
        before = self._views.get(view.group)
        if view.cause is not Cause.NETWORK or before is None or view.group in self._losing:
            return
        if len(view.vs_set) < len(before.members):
            self._tell_loss(before)

    def _tell_loss(self, view: GroupView) -> None:
        self._losing.add(view.group)
        info = membership_info(group_id(view.id), "", (), 0)
        self._waiting.append(Received_message(TRANSITION_MESS, view.group, (), 0, False, b"", info))

    def _refused(self, event: Refused) -> Received_message:
        """Return a refusal in the form of Spread's access control; the text says why."""
        asked = CAUSED_BY_JOIN if event.verb == "join" else SERVICE_OF[event.level]
        text, me = str(event).encode(), self.connection.member.name
        return Received_message(asked | REJECT_MESS, me, (event.group,), 0, False, text)

    def _view(self, view: GroupView) -> Received_message:
        me = self.connection.member
        gid = group_id(view.id)
        changed = view.changed[0].name if view.changed else ""
        if view.cause is Cause.NETWORK:
            self._losing.discard(view.group)
        if me not in view.members:
            self._views.pop(view.group, None)
            self._losing.discard(view.group)
            info = membership_info(gid, changed, (), 0)
            return Received_message(CAUSED_BY_LEAVE, view.group, (), 0, False, b"", info)
        self._views[view.group] = view
        is_network = view.cause is Cause.NETWORK
        sets = tuple(map(_names, view.vs_sets if is_network else (view.changed,)))
        return Received_message(
            REG_MEMB_MESS | _CAUSES[view.cause],
            view.group,
            tuple(member.name for member in view.members),
            view.members.index(me),
            False,
            b"",
            membership_info(gid, changed, sets, 0),
        )


def _names(members: tuple[MemberId, ...]) -> tuple[str, ...]:
    return tuple(member.name for member in members)
