"""What a peer does with its algorithm and its fellow members: packets, joins, leaves.

Pure. ``now`` is in seconds.

Of members that come and go (`VectorSession`):

- A latecomer is helped by the first member by name, its sponsor, alone: who tells all others. Each
  member tells each other one of whom it knows, so all come to know all. Whoever has heard from
  everybody that the latecomer is known has all that was sent without it, and has passed it on; no
  sponsor leaves before that.
- Who leaves says how many messages it has sent. It counts as gone once these are delivered, so a
  leave in order loses none of them, wherever they are under way. Its count is dropped only once all
  have got so far: who drops it earlier would send stamps that do not name its messages, though they
  are causes.
- Of who is silent, messages may be missing at some members and not at others. To settle that takes
  a membership service, as the daemons' (docs/membership.md).
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from groupcomm.algorithms.concurrency import ConcurrentMessage
from groupcomm.algorithms.direct.datagrams import (
    Bye,
    Carried,
    Contact,
    Done,
    Joined,
    Payload,
    Welcoming,
)
from groupcomm.algorithms.direct.events import (
    Cause,
    Delivered,
    MemberJoined,
    MemberLeft,
    News,
    NotDelivered,
    Started,
)
from groupcomm.algorithms.direct.others import Other, Others
from groupcomm.algorithms.process import Message, Name, Packet, Process, Step
from groupcomm.algorithms.real_time import RealTime
from groupcomm.algorithms.traced import Said, Traced
from groupcomm.algorithms.vector_session import VectorSession, Welcome
from groupcomm.trace.steps import AlgorithmStep

SECOND_US: Final = 1_000_000

Record: TypeAlias = Callable[[AlgorithmStep], object]
"""Takes what an algorithm does, step by step."""


class Group:
    """The members, and the algorithm that runs among them.

    Args:
        process: this one's.
        others: the other members, as they are met and dropped.
        record: takes the steps of the algorithm.

    Attributes:
        now: microseconds.
        started: all members are here, or this process was welcomed.
        news: for the user, not yet taken.
    """

    def __init__(self, process: Process, others: Others, record: Record | None = None) -> None:
        self.now = 0
        self._process = process
        self._record = record
        self._traced: Traced | None = None
        self._others = others
        self._early: list[tuple[Name, Payload]] = []
        self._sponsored: set[Name] = set()
        self._done: set[Name] = set()  # members that are gone, and of which all is delivered
        self._counted: set[Name] = set()  # those of them that the algorithm still counts
        self._sent = 0
        self.started = False
        self.news: list[News] = []

    @property
    def me(self) -> Name:
        """This process."""
        return self._process.me

    @property
    def members(self) -> tuple[Name, ...]:
        """All that are here, sorted."""
        return tuple(sorted({self.me, *self._others.names}))

    @property
    def audience(self) -> tuple[Name, ...]:
        """Whom a message to all is for."""
        return self._process.members

    @property
    def sponsor(self) -> Name:
        """Who welcomes latecomers."""
        staying = (other.contact.name for other in self._others if other.bye is None)
        return min(self.me, *staying)

    @property
    def takes_latecomers(self) -> bool:
        """Whether the algorithm does."""
        return isinstance(self._process, VectorSession)

    # ---- messages ----

    def send(self, data: bytes, to: Iterable[Name] | None) -> None:
        """Send a message; see `Process.send`."""
        step = (self._traced or self._process).send(data, to)
        self._sent += 1
        self._act(step)

    def begin(self, now: float) -> None:
        """The time of the first step."""
        self.now = int(now * SECOND_US)
        if self._record is not None:
            self._traced = Traced(self._process, self, self._record, Said())

    def set_clock(self, now: float) -> None:
        """The time is `now`, which an algorithm may want to know."""
        self.now = max(self.now, int(now * SECOND_US))
        if isinstance(self._process, RealTime):
            self._accept(self._process.set_clock(self.now))

    @property
    def deadline(self) -> float | None:
        """When the algorithm must know the time again; None if it need not."""
        due = self._process.deadline if isinstance(self._process, RealTime) else None
        return None if due is None else due / SECOND_US

    def _accept(self, step: Step) -> None:
        """Do what comes of any other call to the process."""
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

    # ---- what comes on channels ----

    def receive(self, other: Other, payload: Payload, now: float) -> None:
        """Take what another member has put on its channel; until the start it waits."""
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
        """Whether two have passed it on to this latecomer."""
        if not isinstance(self._process, VectorSession):
            return False
        before = message.number <= self._process.delivered_from(message.sender)
        return before or message in self._process.waiting

    def start(self, now: float) -> None:
        """All members are here."""
        self.started = True
        self.news.append(Started(self.members))
        early, self._early = self._early, []
        for name, payload in early:
            other = self._others.named(name)
            if other is not None:
                self.receive(other, payload, now)

    # ---- members ----

    def welcome(self, contact: Contact, now: float) -> None:
        """Somebody has come late, and this is its sponsor."""
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
        """Start late; all whom the sponsor knew are told whom this one knows."""
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
        """Somebody is a member, as another member says."""
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
        """Tell all others of somebody new."""
        for other in self._others:
            if other is not new:
                other.put(new.joined)
        self.news.append(MemberJoined(new.contact.name))

    def _say_all_to(self, new: Other) -> None:
        """Tell somebody new whom this one knows, and of whom it needs nothing more."""
        for other in self._others:
            if other is not new:
                new.put(other.joined)
        for name in sorted(self._done):
            new.put(Done(name))

    def _on_bye(self, bye: Bye) -> None:
        """Somebody leaves; all others are told, of whom it may not have known."""
        leaver = self._others.named(bye.name)
        if leaver is None or leaver.bye is not None:
            return
        leaver.bye = bye
        for other in self._others:
            if other is not leaver:
                other.put(bye)

    def drop(self, name: Name, cause: Cause) -> None:
        """Somebody is a member no longer."""
        self._others.drop(name)
        self._sponsored.discard(name)
        self.news.append(MemberLeft(name, cause))
        if isinstance(self._process, VectorSession):
            self._done.add(name)
            self._counted.add(name)
            for other in self._others:
                other.put(Done(name))

    def departed(self) -> list[Other]:
        """Those that leave, and from which nothing more can come."""
        return [other for other in self._others if other.bye and self._has_all(other, other.bye)]

    def settle(self) -> None:
        """Count nobody any more of whom nobody needs anything more."""
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

    # ---- the own leave ----

    @property
    def may_leave(self) -> bool:
        """Whether no latecomer needs this one any more."""
        return all(other.knows >= self._sponsored - {other.contact.name} for other in self._others)

    def say_goodbye(self) -> None:
        """Tell all others, behind all else that goes to them."""
        bye = Bye(self.me, self._sent, tuple(sorted(self._others.names)))
        for other in self._others:
            other.put(bye)
