"""A peer's algorithm and its fellow members: packets, joins, leaves.

Pure. ``now`` is in seconds.

Members that come and go (`VectorSession`):

- The first member by name, the sponsor, alone helps a latecomer, and tells all others of it. Each
  member tells each other one which members it knows, so all come to know all. A sponsor that has
  heard from every member that the latecomer is known has all messages that were sent without it,
  and has passed them on; it does not leave before that.
- A member that leaves announces the number of its messages. It counts as gone once these are
  delivered, so an orderly leave loses none of them. Its count is dropped only once all members have
  delivered them: a member that dropped it earlier would send stamps that do not name those
  messages, though they are causes.
- Messages of a silent member may be missing at some members and not at others. To settle that takes
  a membership service like the daemons' (docs/membership.md).
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from groupcomm.trace.steps import AlgorithmStep
from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.direct.datagrams import (
    Bye,
    Carried,
    Contact,
    Done,
    Joined,
    Payload,
    Welcoming,
)
from groupcomm_lessons.algorithms.direct.events import (
    Cause,
    Delivered,
    MemberJoined,
    MemberLeft,
    News,
    NotDelivered,
    Started,
)
from groupcomm_lessons.algorithms.direct.others import Other, Others
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step
from groupcomm_lessons.algorithms.real_time import RealTime
from groupcomm_lessons.algorithms.traced import Said, Traced
from groupcomm_lessons.algorithms.vector_session import VectorSession, Welcome

SECOND_US: Final = 1_000_000

Record: TypeAlias = Callable[[AlgorithmStep], object]
"""Records the steps of an algorithm."""


class Group:
    """The members, and the algorithm that runs among them.

    Args:
        process: the process of this peer.
        others: the other members, as they are met and dropped.
        record: records the steps of the algorithm.

    Attributes:
        now: microseconds.
        started: whether all members are here, or this process was welcomed.
        news: the news for the user that was not collected yet.
    """

    def __init__(self, process: Process, others: Others, record: Record | None = None) -> None:
        self.now = 0
        self._process = process
        self._record = record
        self._traced: Traced | None = None
        self._others = others
        self._early: list[tuple[Name, Payload]] = []
        self._sponsored: set[Name] = set()
        self._done: set[Name] = set()  # gone members whose messages are all delivered
        self._counted: set[Name] = set()  # gone members that the algorithm still counts
        self._sent = 0
        self.started = False
        self.news: list[News] = []

    @property
    def me(self) -> Name:
        """Return the name of this process."""
        return self._process.me

    @property
    def members(self) -> tuple[Name, ...]:
        """Return all present members, sorted."""
        return tuple(sorted({self.me, *self._others.names}))

    @property
    def audience(self) -> tuple[Name, ...]:
        """Return the receivers of a message to all."""
        return self._process.members

    @property
    def sponsor(self) -> Name:
        """Return the member that welcomes latecomers."""
        staying = (other.contact.name for other in self._others if other.bye is None)
        return min(self.me, *staying)

    @property
    def takes_latecomers(self) -> bool:
        """Return whether the algorithm accepts latecomers."""
        return isinstance(self._process, VectorSession)

    # ---- messages ----

    def send(self, data: bytes, to: Iterable[Name] | None) -> None:
        """Send a message; see `Process.send`."""
        step = (self._traced or self._process).send(data, to)
        self._sent += 1
        self._act(step)

    def begin(self, now: float) -> None:
        """Set the time of the first step."""
        self.now = int(now * SECOND_US)
        if self._record is not None:
            self._traced = Traced(self._process, self, self._record, Said())

    def set_clock(self, now: float) -> None:
        """Set the time, which an algorithm may need."""
        self.now = max(self.now, int(now * SECOND_US))
        if isinstance(self._process, RealTime):
            self._accept(self._process.set_clock(self.now))

    @property
    def deadline(self) -> float | None:
        """Return the time that the algorithm has to know; None if there is none."""
        due = self._process.deadline if isinstance(self._process, RealTime) else None
        return None if due is None else due / SECOND_US

    def _accept(self, step: Step) -> None:
        """Process the results of any other call to the process."""
        self._act(step if self._traced is None else self._traced.accept(step))

    def _act(self, step: Step) -> None:
        steps = deque([step])
        while steps:
            step = steps.popleft()
            self.news += map(Delivered, step.deliveries)
            for packet in step.packets:
                if packet.destination == self.me:
                    steps.append(self._receive(packet))
                elif other := self._others.named(packet.destination):
                    carried = Carried(packet.message, packet.stamp)
                    other.put(carried, in_order=self._process.needs_fifo)

    def _receive(self, packet: Packet) -> Step:
        try:
            return (self._traced or self._process).receive(packet)
        except ConcurrentMessage as error:
            self.news.append(NotDelivered(error))
            return Step()

    # ---- items from channels ----

    def receive(self, other: Other, payload: Payload, now: float) -> None:
        """Process an item of another member's channel; until the start it waits."""
        if isinstance(payload, Welcoming):
            if not self.started:
                self._be_welcomed(payload, now)
            return
        if not self.started:
            self._early.append((other.contact.name, payload))
            return
        match payload:
            case Carried(message, stamp):
                if message is None or not self._has_had(message):
                    packet = Packet(other.contact.name, self.me, message, stamp)
                    self._act(self._receive(packet))
            case Joined(contact):
                other.knows.add(contact.name)
                self._add(payload, now)
            case Bye(name):
                other.said_bye = other.said_bye or name == other.contact.name
                self._on_bye(payload)
            case Done(name):
                other.done.add(name)

    def _has_had(self, message: Message) -> bool:
        """Return whether two members have passed their messages on to this latecomer."""
        if not isinstance(self._process, VectorSession):
            return False
        before = message.number <= self._process.delivered_from(message.sender)
        return before or message in self._process.waiting

    def start(self, now: float) -> None:
        """Start, as all members are here."""
        self.started = True
        self.news.append(Started(self.members))
        early, self._early = self._early, []
        for name, payload in early:
            other = self._others.named(name)
            if other is not None:
                self.receive(other, payload, now)

    # ---- members ----

    def welcome(self, contact: Contact, now: float) -> None:
        """Welcome a latecomer, as its sponsor."""
        assert isinstance(self._process, VectorSession)
        step, welcome = self._process.sponsor(contact.name)
        members = tuple(other.joined for other in self._others)
        newcomer = self._others.add(contact, now, self.me)
        newcomer.put(Welcoming(welcome.clock, welcome.buffer, tuple(welcome.left), members))
        self._sponsored.add(contact.name)
        self._tell_of(newcomer)
        self._say_all_to(newcomer)
        self._accept(step)

    def _be_welcomed(self, welcoming: Welcoming, now: float) -> None:
        """Start late; tell all members which members the sponsor knew."""
        assert isinstance(self._process, VectorSession)
        clock, buffer, left, members = welcoming
        self._others.had_gone(left)
        for joined in members:
            self._others.add(joined.contact, now, joined.sponsor).bye = joined.bye
        counted = {name for name, _ in clock.items()} - {self.me, *self._others.names}
        self._others.had_gone(counted)
        self._done, self._counted = {*left, *counted}, counted
        for other in self._others:
            if other.contact.name not in {joined.contact.name for joined in members}:
                other.knows |= {joined.contact.name for joined in members}  # it is the sponsor
            self._say_all_to(other)
        step = self._process.start(Welcome(clock, buffer, frozenset(left)))
        self.start(now)
        self._accept(step)

    def _add(self, joined: Joined, now: float) -> None:
        """Add a member, as another member reports."""
        name = joined.contact.name
        if name == self.me or name in self._others or self._others.has_gone(name):
            return
        assert isinstance(self._process, VectorSession)
        other = self._others.add(joined.contact, now, joined.sponsor)
        self._tell_of(other)
        self._say_all_to(other)
        self._accept(self._process.join(name))
        if joined.bye is not None:
            self._on_bye(joined.bye)

    def _tell_of(self, new: Other) -> None:
        """Tell all others of a new member."""
        for other in self._others:
            if other is not new:
                other.put(new.joined)
        self.news.append(MemberJoined(new.contact.name))

    def _say_all_to(self, new: Other) -> None:
        """Tell a new member which members this one knows, and which of their messages it need not
        get."""
        for other in self._others:
            if other is not new:
                new.put(other.joined)
        for name in sorted(self._done):
            new.put(Done(name))

    def _on_bye(self, bye: Bye) -> None:
        """Process a leave; tell all others, which may not have heard of it."""
        leaver = self._others.named(bye.name)
        if leaver is None or leaver.bye is not None:
            return
        leaver.bye = bye
        for other in self._others:
            if other is not leaver:
                other.put(bye)

    def drop(self, name: Name, cause: Cause) -> None:
        """Drop a member."""
        self._others.drop(name)
        self._sponsored.discard(name)
        self.news.append(MemberLeft(name, cause))
        if isinstance(self._process, VectorSession):
            self._done.add(name)
            self._counted.add(name)
            for other in self._others:
                other.put(Done(name))

    def departed(self) -> list[Other]:
        """Return the leaving members from which nothing more can come."""
        return [other for other in self._others if other.bye and self._has_all(other, other.bye)]

    def settle(self) -> None:
        """Stop counting members of which no member needs anything more."""
        for name in sorted(self._counted):
            if all(name in other.done for other in self._others):
                self._counted.remove(name)
                assert isinstance(self._process, VectorSession)
                self._accept(self._process.leave(name))

    def _has_all(self, other: Other, bye: Bye) -> bool:
        if self.me in bye.told and not other.said_bye:
            return False
        if not isinstance(self._process, VectorSession):
            return True
        return self._process.delivered_from(bye.name) >= bye.messages

    # ---- this member's leave ----

    @property
    def may_leave(self) -> bool:
        """Return whether no latecomer needs this member any more."""
        return all(other.knows >= self._sponsored - {other.contact.name} for other in self._others)

    def say_goodbye(self) -> None:
        """Say goodbye to all others, after all other items for them."""
        bye = Bye(self.me, self._sent, tuple(sorted(self._others.names)))
        for other in self._others:
            other.put(bye)
