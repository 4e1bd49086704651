"""Members of one group with a secret, and a small model of what daemons promise them (EVS).

A component has one log. What a program sends waits in its outbox, as in its daemon, and is numbered
later, perhaps in another view. Views, and messages from CAUSAL up, are delivered behind everything
before them; FIFO messages behind those of their sender; others at any time. A component that falls
apart keeps for each side the deliveries to any member there, and the messages of its own members.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.end_to_end import GroupSecret, KeyChanged, Unreadable, Untrusted
from groupcomm_client.end_to_end.frames import decode_head_untrusted
from groupcomm_client.end_to_end.keys import GroupKey
from groupcomm_client.end_to_end.sealing import Sealing
from groupcomm_client.events import Received
from groupcomm_client.filters.roles import Outgoing

GROUP = "plan"
MARKER = b"in the clear"


@attrs.frozen
class Sent:
    """A message that a program has sent; `readers` had its key, as the program knew."""

    sender: MemberId
    level: ServiceLevel
    view: GroupView
    readers: frozenset[MemberId]


@attrs.define(eq=False)
class Entry:
    """A message in the log, or a view with the members that come from elsewhere than others."""

    message: Message | None = None
    view: GroupView | None = None
    sides: tuple[tuple[MemberId, ...], ...] = ()
    own: MemberId | None = None

    @property
    def is_agreed(self) -> bool:
        return self.message is None or self.message.level >= ServiceLevel.CAUSAL


class Program:
    """A session with its sealing, and all that it was given."""

    def __init__(
        self, model: "GroupModel", member: MemberId, credentials: GroupSecret | None
    ) -> None:
        self.member = member
        self.is_open = True
        self.leaves = False
        self.outbox: deque[Message | None] = deque()  # None: a leave
        self.got: list[Received] = []
        self.taken: list[Message] = []  # messages of programs, sealed
        self.readable: list[Message] = []  # messages whose keys had come
        self.view: GroupView | None = None
        self.delivered: set[int] = set()
        self.secrets: dict[bytes, GroupKey] = {}  # all keys that it ever had
        self.sealing = Sealing(self, lambda: model.now, {}, model.random.randbytes)
        self.sealing.join(GROUP, credentials)
        self._model = model
        self._number = 0

    # ---- what sealing asks for ----

    def send_out(self, message: Outgoing, data: bytes) -> int:
        self._number += 1
        self._model.wire.append(data)
        self.outbox.append(
            Message(
                self.member, self._number, message.groups, message.level, message.type, data, None
            )
        )
        return self._number

    def pass_on(self, message: Message) -> None:
        self.got.append(message)

    def give(self, event: Unreadable | KeyChanged | Untrusted) -> None:
        self.got.append(event)

    # ---- acts ----

    @property
    def may_send(self) -> bool:
        return not self.leaves and self.view is not None and self.sealing.may_send([GROUP], [GROUP])

    def send(self, level: ServiceLevel) -> bytes | None:
        """Send a message if there is a key; return its text."""
        if not self.may_send:
            return None
        assert self.view is not None
        data = b"%b %d" % (MARKER, len(self._model.sent))
        key = self.sealing._agreements[GROUP].keys.latest
        assert key is not None
        readers = frozenset(key.salts)
        if self._model.now == 0.0:
            assert readers == set(self.view.members), "it does not wait for the others"
        sent = Sent(self.member, level, self.view, readers)
        message = Outgoing(groups=(GROUP,), data=data, level=level)
        number = self.sealing.send(message, data)
        sealed = self.outbox[-1]
        assert sealed is not None
        assert sealed.number == number
        self._model.note(data, sent, sealed)
        self.note_keys()
        return data

    def note_keys(self) -> None:
        agreement = self.sealing._agreements.get(GROUP)
        for key in agreement.keys.all() if agreement is not None else ():
            if key.secret is not None:
                self.secrets[key.id] = key

    def take(self, entry: Entry) -> None:
        if entry.view is not None:
            side = next((one for one in entry.sides if self.member in one), (self.member,))
            fields = {name: getattr(entry.view, name) for name in GroupView.__struct_fields__}
            own = entry.own == self.member
            view = GroupView(**{**fields, "vs_set": side, "own": own})
            self.view = view if self.member in view.members else None
            self.got.append(view)
            self.sealing.change_view(view)
            self.sealing.follow()
        elif entry.message is not None and self.is_for_me(entry.message):
            if self._model.text_of(entry.message) is not None:
                self.taken.append(entry.message)
                if decode_head_untrusted(entry.message.data).key in self.secrets:
                    self.readable.append(entry.message)
            self.sealing.receive(entry.message)
        self.note_keys()

    def is_for_me(self, message: Message) -> bool:
        if message.groups == (GROUP,):
            return self.view is not None
        return message.groups == (self.member.name,)

    def texts(self) -> list[bytes]:
        return [event.data for event in self.got if isinstance(event, Message)]


class Component:
    """Programs that hear each other, and what was numbered among them."""

    def __init__(self, counter: int) -> None:
        self.id = ViewId(counter, "d", 1)
        self.log: list[Entry] = []
        self.programs: list[Program] = []
        self.members: tuple[MemberId, ...] = ()  # the members at the end of the log

    def change(
        self,
        members: Iterable[MemberId],
        cause: Cause,
        sides: Iterable[Iterable[MemberId]],
        own: MemberId | None = None,
    ) -> None:
        """Number another view of the group."""
        self.members = tuple(members)
        time = 0 if cause is Cause.NETWORK else len(self.log) + 1
        view = GroupView(
            group=GROUP,
            id=Position(self.id, time, 0, 0, 0),
            members=self.members,
            cause=cause,
            changed=() if own is None else (own,),
            vs_set=(),
            own=False,
        )
        self.log.append(Entry(view=view, sides=tuple(map(tuple, sides)), own=own))

    def deliverable(self, program: Program) -> list[int]:
        """Return the next message that may be delivered to a program, by its place in the log."""
        missing = [at for at in range(len(self.log)) if at not in program.delivered]
        found, behind = [], set[MemberId]()
        for at in missing:
            entry = self.log[at]
            message = entry.message
            if entry.is_agreed:
                if at == missing[0]:
                    found.append(at)
            elif message is not None and (
                message.level < ServiceLevel.FIFO or message.sender not in behind
            ):
                found.append(at)
            if message is not None and message.level >= ServiceLevel.FIFO:
                behind.add(message.sender)
        return found


class GroupModel:
    """Everything, and what happens to it.

    Args:
        seed: the seed of the keys.
        credentials: the credentials of the next program, by its number.
    """

    def __init__(self, seed: int, credentials: Callable[[int], GroupSecret | None]) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.wire: list[bytes] = []
        self.sent: dict[bytes, Sent] = {}
        self.sealed: dict[bytes, Message] = {}  # the sealed messages as they were sent
        self._texts: dict[tuple[MemberId, int], bytes] = {}
        self.everybody: list[Program] = []
        self.credentials = credentials
        self._counter = 1
        self.components = [Component(1)]

    def text_of(self, message: Message) -> bytes | None:
        """Return the text of a sealed message; None if no program sent it."""
        return self._texts.get((message.sender, message.number))

    def note(self, text: bytes, sent: Sent, sealed: Message) -> None:
        self.sent[text], self.sealed[text] = sent, sealed
        self._texts[sealed.sender, sealed.number] = text

    # ---- what happens ----

    def join(self, at: int) -> Program:
        """Another program, in one of the components."""
        component = self.components[at % len(self.components)]
        number = len(self.everybody)
        member = MemberId(f"#p{number}#d", number)
        program = Program(self, member, self.credentials(number))
        program.delivered = set(range(len(component.log)))
        self.everybody.append(program)
        component.programs.append(program)
        old = component.members
        component.change((*old, member), Cause.JOIN, [old, [member]], member)
        return program

    def alive(self) -> list[tuple[Component, Program]]:
        return [(one, program) for one in self.components for program in one.programs]

    def leave(self, program: Program) -> None:
        """It leaves behind all that it has sent."""
        if not program.leaves:
            program.leaves = True
            program.outbox.append(None)

    def crash(self, component: Component, program: Program) -> None:
        """Lose the messages that its daemon has not numbered yet."""
        component.programs.remove(program)
        program.outbox.clear()
        self._drop(component, program.member, Cause.DISCONNECT)

    def _drop(self, component: Component, member: MemberId, cause: Cause) -> None:
        if member in component.members:
            left = tuple(one for one in component.members if one != member)
            component.change(left, cause, [left], member)

    def number(self, component: Component, program: Program) -> None:
        """The next of what a program has sent is in the log."""
        if program.outbox:
            message = program.outbox.popleft()
            if message is None:
                self._drop(component, program.member, Cause.LEAVE)
            else:
                component.log.append(Entry(message=message))

    def deliver(self, component: Component, program: Program, which: int) -> None:
        found = component.deliverable(program)
        if found:
            at = found[which % len(found)]
            program.delivered.add(at)
            program.take(component.log[at])

    def go_on(self, which: int) -> None:
        """Much is numbered and delivered, and not to all alike."""
        for place, (component, program) in enumerate(self.alive()):
            if (which >> place % 7) & 1:
                self.number(component, program)
            for _ in range(which * (place + 1) % 6):
                self.deliver(component, program, which)

    def part(self, component: Component, mask: int) -> None:
        """A component falls into two."""
        sides: tuple[list[Program], list[Program]] = ([], [])
        for place, program in enumerate(component.programs):
            sides[mask >> place & 1].append(program)
        if all(sides):
            self.components.remove(component)
            self.components += [self._side(component, side) for side in sides]

    def _side(self, old: Component, programs: list[Program]) -> Component:
        self._counter += 1
        new = Component(self._counter)
        fellows = {program.member for program in programs}
        given = set[int]().union(*(program.delivered for program in programs))
        last = max((at for at in given if old.log[at].is_agreed), default=-1)
        kept = [
            at
            for at, entry in enumerate(old.log)
            if at <= last
            or at in given
            or (entry.message is not None and entry.message.sender in fellows)
        ]
        new.log = [old.log[at] for at in kept]
        new.programs = programs
        for program in programs:
            program.delivered = {kept.index(at) for at in program.delivered}
        views = [entry.view for entry in new.log if entry.view is not None]
        before = views[-1].members if views else ()
        members = tuple(one for one in before if one in fellows)
        new.change(members, Cause.NETWORK, [members])
        return new

    def merge(self) -> None:
        """Join two components; the rest of each is delivered first."""
        if len(self.components) < 2:
            return
        old = [self.components.pop(0), self.components.pop(0)]
        for component in old:
            self.drain(component)
        self._counter += 1
        new = Component(self._counter)
        new.programs = old[0].programs + old[1].programs
        for program in new.programs:
            program.delivered = set()
        members = old[0].members + old[1].members
        new.change(members, Cause.NETWORK, [one.members for one in old])
        self.components.append(new)

    def drain(self, component: Component) -> None:
        for program in component.programs:
            while component.deliverable(program):
                self.deliver(component, program, 0)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for _, program in self.alive():
            program.sealing.wake()
            program.note_keys()

    def settle(self) -> None:
        """All is one, and nothing is left to do but by time; time passes, too."""
        while len(self.components) > 1:
            self.merge()
        for _ in range(10):
            while any(program.outbox for _, program in self.alive()) or any(
                one.deliverable(program) for one, program in self.alive()
            ):
                for component, program in self.alive():
                    self.number(component, program)
                    self.deliver(component, program, 0)
            self.pass_time(1.0)
