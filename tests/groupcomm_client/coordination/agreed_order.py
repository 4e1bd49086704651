"""An agreed order without daemons: parts of a network, views, and programs that read later.

Each part orders what its programs send. A program reads its events one at a time. When parts split
or meet, messages that wait are delivered in the transitional part to whoever comes along, with
holes, or are ordered in the next view.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received


class Program(Protocol):
    """A program that gets events."""

    me: MemberId

    def take(self, event: Received, stage: tuple[int, int]) -> None:
        """An event; all that get the same events before it get the same stage."""


P = TypeVar("P", bound=Program)


@attrs.define
class Sent:
    """A message that has no place yet."""

    sender: MemberId
    group: str
    data: bytes
    type: int = 0


@attrs.define(eq=False)
class Part(Generic[P]):
    """Programs that hear each other.

    Attributes:
        daemons: the number of its daemons.
        members: the programs, in the order in which they joined.
        waiting: messages that have no place yet.
    """

    view: ViewId
    daemons: int
    majority: bool | None
    members: list[P] = attrs.field(factory=list)
    waiting: deque[Sent] = attrs.field(factory=deque)
    time: int = 0

    def next(self) -> Position:
        self.time += 1
        return Position(self.view, self.time, 0, 0, 0)


class Network(Generic[P]):
    """All parts, and what happens to them.

    Args:
        rng: draws what is lost at the end of a view.
        group: the group of the programs; they have joined `jobs`, too.
        daemons: their number.
        known: whether it is known, so that more than half of them are a majority.
    """

    def __init__(self, rng: Random, group: str, jobs: str, daemons: int, *, known: bool) -> None:
        self._rng = rng
        self._group = group
        self._jobs = jobs
        self._daemons = daemons
        self._known = known
        self._counter = 0
        self._stages = 0
        self._numbers = 0
        self.heard: set[bytes] = set()  # what was delivered to anybody
        self.inboxes: dict[MemberId, deque[tuple[Received, tuple[int, int]]]] = {}
        self._stage: dict[MemberId, list[int]] = {}
        self.parts: list[Part[P]] = [self._part([], daemons)]

    # ---- programs ----

    def part_of(self, me: MemberId) -> Part[P]:
        return next(part for part in self.parts if any(each.me == me for each in part.members))

    def send(self, sender: MemberId, group: str, data: bytes, part: Part[P] | None = None) -> None:
        (part or self.part_of(sender)).waiting.append(Sent(sender, group, data))

    def read(self, program: P) -> bool:
        """Give a program its next event, if there is one."""
        inbox = self.inboxes[program.me]
        if inbox:
            program.take(*inbox.popleft())
            return True
        return False

    def _give(self, programs: Sequence[P], event: Received) -> None:
        for program in programs:
            stage = self._stage[program.me]
            stage[1] += 1
            self.inboxes[program.me].append((event, (stage[0], stage[1])))

    def _begin_stage(self, programs: Sequence[P]) -> None:
        """From here on these programs get the same events, and others do not."""
        self._stages += 1
        for program in programs:
            self._stage[program.me] = [self._stages, 0]

    # ---- the order ----

    def order(self, part: Part[P], count: int = 1) -> None:
        """Give the next messages of a part their places."""
        for _ in range(min(count, len(part.waiting))):
            self._deliver(part.members, part.waiting.popleft(), part.next())

    def _deliver(self, to: Sequence[P], sent: Sent, at: Position) -> None:
        self._numbers += 1
        self.heard |= {sent.data} if to else set()
        self._give(
            to,
            Message(
                sender=sent.sender,
                number=self._numbers,
                groups=(sent.group,),
                level=ServiceLevel.AGREED,
                type=sent.type,
                data=sent.data,
                bundle=at,
            ),
        )

    def join(self, part: Part[P], program: P) -> None:
        self.inboxes[program.me] = deque()
        self._stage[program.me] = [0, 0]
        self._give([program], DaemonView(id=part.view, daemons=("d",), majority=part.majority))
        part.members.append(program)
        self._view(part, part.next(), Cause.JOIN, program)

    def crash(self, program: P, cause: Cause = Cause.DISCONNECT) -> None:
        part = self.part_of(program.me)
        part.members.remove(program)
        del self.inboxes[program.me]
        if part.members:
            self._view(part, part.next(), cause, program)

    def _view(self, part: Part[P], at: Position, cause: Cause, changed: P) -> None:
        self._begin_stage(part.members)
        members = tuple(each.me for each in part.members)
        for program in part.members:
            new = program is changed
            together = (program.me,) if new else tuple(me for me in members if me != changed.me)
            view = GroupView(
                group=self._group,
                id=at,
                members=members,
                cause=cause,
                changed=(changed.me,),
                vs_set=together,
                own=new,
            )
            self._give([program], view)

    # ---- views of daemons ----

    def _part(self, members: list[P], daemons: int) -> Part[P]:
        self._counter += 1
        majority = 2 * daemons > self._daemons if self._known else None
        return Part(ViewId(self._counter, "d", 1), daemons, majority, members)

    def split(self, part: Part[P], away: Sequence[P]) -> None:
        """Some programs of a part are cut off from the others."""
        self.parts.remove(part)
        rest = [each for each in part.members if each not in away]
        order = self._last(part)
        gone = [each for each in part.members if each in away]
        theirs = {each.me for each in gone}
        cut = self._rng.randint(0, part.daemons)
        for members, daemons in ((rest, part.daemons - cut), (gone, cut)):
            new = self._part(members, daemons)
            own = [(sent.sender in theirs) == (members is gone) for _, sent in order]
            new.waiting.extend(self._end(part, members, order, own))
            self.parts.append(new)
            self._begin_view(new, [members])

    def meet(self, one: Part[P], other: Part[P]) -> None:
        """Two parts become one."""
        self.parts.remove(one)
        self.parts.remove(other)
        new = self._part([*one.members, *other.members], one.daemons + other.daemons)
        for part in (one, other):
            order = self._last(part)
            new.waiting.extend(self._end(part, part.members, order, [True] * len(order)))
        self.parts.append(new)
        self._begin_view(new, [one.members, other.members])

    def _last(self, part: Part[P]) -> list[tuple[Position | None, Sent]]:
        """Return the last messages of a part: some have left their daemon with a place."""
        return [(part.next() if self._rng.random() < 0.5 else None, each) for each in part.waiting]

    def _end(
        self,
        part: Part[P],
        members: list[P],
        order: list[tuple[Position | None, Sent]],
        own: list[bool],
    ) -> list[Sent]:
        """End a view for some of its programs; return what their daemons send in the next.

        Args:
            part: the part that ends.
            members: the programs that come along.
            order: the last messages of the part.
            own: whether a message is that of a daemon here.
        """
        self._begin_stage(members)
        self._give(members, Transition(part.view))
        again = []
        for (at, sent), is_own in zip(order, own, strict=True):
            if at is None:
                again += [sent] * is_own
            elif is_own or self._rng.random() < 0.5:
                self._deliver(members, sent, at)
        return again

    def _begin_view(self, part: Part[P], origins: list[list[P]]) -> None:
        self._give(part.members, DaemonView(id=part.view, daemons=("d",), majority=part.majority))
        members = tuple(each.me for each in part.members)
        self._begin_stage(part.members)
        for origin in origins:
            view = GroupView(
                group=self._group,
                id=Position(part.view, 0, 0, 0, 0),
                members=members,
                cause=Cause.NETWORK,
                changed=(),
                vs_set=tuple(each.me for each in origin),
                own=False,
            )
            self._give(origin, view)
