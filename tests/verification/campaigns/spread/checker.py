"""The events of clients of Spread, and the guarantees that must hold whatever happens to daemons.

It checks the guarantees of Spread to its programs, from the events of clients alone:

- views of one id have the same members, in the same order, and the same sets at all their members;
- a client is in each view that it receives, and its own set is one of the sets;
- a transition comes before the view of a change of daemons that takes members away;
- two clients that go from one view to the next one in one set have delivered the same messages in
  between, in one order (extended virtual synchrony), except for messages that go in parts: they are
  for those who are members from the first part to the last;
- a message comes as it was sent, once, and those of one sender in the order in which they were
  sent;
- there is one order of all messages, of whatever groups, in which each client receives its own;
- a message that is owed to a session comes.

Programs of our own may be among them: their views say the same, in an order of their own.
"""

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import Final

import attrs

from tests.groupcommd.spread_client import (
    AGREED,
    BY_LEAVE,
    CAUSAL,
    FIFO,
    SAFE,
    SELF_DISCARD,
    TRANSITION,
    Received,
)

MOST_SHOWN: Final = 20
ORDERED: Final = FIFO | CAUSAL | AGREED | SAFE
"""The services whose messages have a place in the one order; RELIABLE ones follow their senders."""

SERVICES: Final = 0x3F
WHOLE_BYTES: Final = 200
"""The most bytes of data that surely go in one part: packets are small in some seeds."""

NUMBER_BYTES: Final = 12


def numbered(number: int, padding: int = 0) -> bytes:
    """Return the data of a message: its number, which no other message has, and more bytes."""
    return b"%0*d" % (NUMBER_BYTES, number) + bytes(padding)


@attrs.frozen
class View:
    """A view of a group at one of its members.

    Attributes:
        key: its id.
        group: the group.
        members, sets, own: the members, those that came together, and the receiver's own set.
        by_network: whether a change of daemons is its cause.
    """

    key: bytes
    group: str
    members: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    own: tuple[str, ...]
    by_network: bool

    @property
    def in_order(self) -> "View":
        """Return the same with all names sorted."""
        sets = sorted(tuple(sorted(names)) for names in self.sets)
        return attrs.evolve(self, members=tuple(sorted(self.members)), sets=tuple(sets), own=())


@attrs.define
class Stay:
    """The messages of one client in a group from one view to the next, as (sender, number)."""

    view: bytes
    messages: list[tuple[str, int]] = attrs.field(factory=list)


class SpreadChecker:
    """Notes the events of all sessions; each session has a key that is never used again.

    Attributes:
        violations: the first violations.
        messages, views, transitions: the number of each, at all sessions together.
        owed: for each session the numbers of the messages that it must get and has not got.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.messages = self.views = self.transitions = 0
        self.owed: defaultdict[int, set[int]] = defaultdict(set)
        self._sent: dict[int, Received] = {}
        self._view: dict[tuple[bytes, bool], View] = {}
        self._stays: dict[tuple[int, str], Stay] = {}
        self._losing: set[tuple[int, str]] = set()  # groups of which a transition was told
        self._last: dict[tuple[int, str], int] = {}
        self._newest: dict[int, int] = {}  # by session, its last message in the one order
        self._after: defaultdict[int, set[int]] = defaultdict(set)  # those directly before each
        self._steps: dict[tuple[bytes, bytes, tuple[str, ...]], list[tuple[str, int]]] = {}
        self._compared = 0

    @property
    def compared(self) -> int:
        """Return the number of steps from one view to the next that two sessions shared."""
        return self._compared

    def send(self, message: Received) -> None:
        """Note a message, as its receivers are to get it; its data begin as in `numbered`."""
        self._sent[_number(message)] = message

    def see(self, session: int, name: str, message: Received | View) -> None:
        """Note the next message of a session of this name.

        Our own programs have views as a View, and messages without a type.
        """
        if isinstance(message, View):
            self._see_view(session, name, message, is_own=True)
        elif message.type & SERVICES or not message.type:
            self._see_message(session, message)
        elif message.is_view:
            own, by_network = message.own_set, bool(message.type & 0x800)
            sets = tuple(message.sets)
            view = View(message.group_id, message.sender, message.groups, sets, own, by_network)
            self._see_view(session, name, view, is_own=False)
        elif message.type == BY_LEAVE:
            self._stays.pop((session, message.sender), None)
        else:
            self._see_transition(session, message)

    def _see_message(self, session: int, message: Received) -> None:
        self.messages += 1
        number = _number(message)
        sent = self._sent[number]
        if attrs.evolve(message, mismatch=False, type=message.type or sent.type) != sent:
            self._tell(f"a message is another one than was sent: {number} at session {session}")
        last = self._last.get((session, message.sender), 0)
        if number <= last:
            self._tell(f"a message comes out of order: {message.sender} {number} behind {last}")
        self._last[session, message.sender] = number
        self.owed[session].discard(number)
        if not sent.type & ORDERED:
            return
        before, self._newest[session] = self._newest.get(session), number
        if before is not None:
            self._after[number].add(before)
        if sent.type & SELF_DISCARD:
            return  # its sender lacks it
        for group in message.groups:
            stay = self._stays.get((session, group))
            if stay is not None:
                stay.messages.append((message.sender, number))

    def _see_transition(self, session: int, message: Received) -> None:
        self.transitions += 1
        stay = self._stays.get((session, message.sender))
        if message.type != TRANSITION or stay is None or message.data != stay.view:
            self._tell(
                f"a transition ends no view: {message.type:#x} of {message.sender} at {session}"
            )
        else:
            self._losing.add((session, message.sender))

    def _see_view(self, session: int, name: str, view: View, *, is_own: bool) -> None:
        self.views += 1
        key, group = view.key, view.group
        shown = [(True, view.in_order)]
        if not is_own:
            shown.append((False, attrs.evolve(view, own=())))
        for form, told in shown:
            if self._view.setdefault((key, form), told) != told:
                self._tell(f"a view is another one elsewhere: {key.hex()} of {group} at {session}")
        if name not in view.members or view.own not in view.sets:
            self._tell(f"a member is not in its view: {name} of {group}")
        before = self._stays.get((session, group))
        if before is not None:
            self._check_loss(session, before, view)
            self._check_step(session, before, view)
        if view.by_network:
            self._losing.discard((session, group))
        self._stays[session, group] = Stay(key)

    def _check_step(self, session: int, before: Stay, view: View) -> None:
        """Check that those who come together have the same messages, of those that go whole."""
        together = tuple(sorted(view.own)) if view.by_network else ()
        messages = [each for each in before.messages if self._is_whole(each[1])]
        first = self._steps.setdefault((before.view, view.key, together), messages)
        self._compared += first is not messages
        if first != messages:
            self._tell(
                f"two members have other messages: of {view.group} up to {view.key.hex()} session"
                f" {session} has {len(messages)}, another one {len(first)}, or others"
            )

    def _is_whole(self, number: int) -> bool:
        return len(self._sent[number].data) <= WHOLE_BYTES

    def _check_loss(self, session: int, before: Stay, view: View) -> None:
        """Check that a change of daemons that takes members away was announced."""
        lost = set(self._view[before.view, True].members) - set(view.members)
        if view.by_network and lost and (session, view.group) not in self._losing:
            self._tell(f"members are lost without a transition: {sorted(lost)} at {session}")

    def finish(self) -> None:
        """Check what needs the events of all sessions: the one order, and that what is owed came.

        Each session's messages are in its order; so there is one for all if no circle leads from a
        message to itself.
        """
        try:
            TopologicalSorter(self._after).prepare()
        except CycleError as error:
            circle = ", ".join(map(str, error.args[1]))
            self._tell(f"no order is that of all sessions: {circle}")
        self.end_owing()

    def end_owing(self) -> None:
        """Check that everything owed has come; nothing is owed any more."""
        for session, numbers in self.owed.items():
            if numbers:
                self._tell(f"what is owed does not come: {sorted(numbers)[:5]} to {session}")
        self.owed.clear()

    def _tell(self, text: str) -> None:
        if len(self.violations) < MOST_SHOWN:
            self.violations.append(text)

    def members_now(self, sessions: list[int], group: str) -> dict[bytes, list[int]]:
        """Return the sessions that are in each view of a group, by its id."""
        found = defaultdict(list)
        for session in sessions:
            stay = self._stays.get((session, group))
            if stay is not None:
                found[stay.view].append(session)
        return dict(found)


def _number(message: Received) -> int:
    return int(message.data[:NUMBER_BYTES])
