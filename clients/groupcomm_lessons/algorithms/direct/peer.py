"""A peer: an ordering algorithm, channels to the other members, and their meeting.

Pure: datagrams and the time go in, datagrams and news come out. ``now`` is in seconds on one
monotonic clock; for `RealTime` that is the clock of its stamps, too.

The promise: as long as no member counts as gone, every packet of the algorithm arrives once,
however many datagrams are lost, doubled or overtaken; packets arrive in the order of their sending
if the algorithm `needs_fifo`, else in any order. So each algorithm keeps its claims. A member that
is silent for `Timing.silence_s` counts as gone, and is notified of that when it is heard again.

A `VectorSession` accepts latecomers, see `group`. All other algorithms have fixed members; when one
of them is gone, the others continue as far as the algorithm can.
"""

import enum
from collections.abc import Callable, Iterable

from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm_lessons.algorithms.direct.channel import Piece
from groupcomm_lessons.algorithms.direct.datagrams import (
    Ack,
    Address,
    Ask,
    Datagram,
    Gone,
    Hello,
    Known,
    Part,
    Refused,
    decode_datagram_untrusted,
    decode_payload_untrusted,
    encode_datagram,
)
from groupcomm_lessons.algorithms.direct.events import Action, Cause, Ended, Send
from groupcomm_lessons.algorithms.direct.greeting import Greeting, check_names
from groupcomm_lessons.algorithms.direct.group import Group, Record
from groupcomm_lessons.algorithms.direct.meeting import Meeting, Own
from groupcomm_lessons.algorithms.direct.others import Other, Others
from groupcomm_lessons.algorithms.direct.settings import MAX_DATA_BYTES, Timing
from groupcomm_lessons.algorithms.process import Name, Process
from groupcomm_lessons.algorithms.vector_session import VectorSession

Make = Callable[[Name, Iterable[Name]], Process]
"""Makes a process from its name and the founders' names: one of the algorithms."""


class State(enum.Enum):
    """The state of a peer."""

    GREETING = enum.auto()  # not all founders have met, or the sponsor has not welcomed
    RUNNING = enum.auto()
    LEAVING = enum.auto()  # it says goodbye once no latecomer needs it, and waits until all know
    ENDED = enum.auto()


class Peer:
    """Call `begin`, then `receive` for datagrams and `pass_time` once `deadline` is reached.

    Each call returns the actions to perform, in order.

    Attributes:
        state: see `State`.
        timing: timeouts.
        refused: the number of datagrams that did not decode, or came from unknown peers.
    """

    def __init__(
        self,
        me: Name,
        algorithm: Make,
        *,
        incarnation: int,
        founders: Iterable[Name] = (),
        greet: Iterable[Address] = (),
        timing: Timing | None = None,
        record: Record | None = None,
    ) -> None:
        """Make a peer that has met no other.

        Args:
            me: the name of the peer.
            algorithm: the algorithm that all members run.
            incarnation: random, 0 to 2**64 - 1; no other start of a peer has the same.
            founders: all members, if it is a founder. None: it comes late, or is the first member,
                if it greets no address.
            greet: the addresses of members.
            timing: timeouts.
            record: records the steps of the algorithm; their times are microseconds.

        Raises:
            LocalProtocolError: a name is too long, there are too many names, or the algorithm
                accepts no latecomers.
        """
        self.me = me
        self._incarnation = incarnation
        self.timing = timing or Timing()
        addresses, named = tuple(greet), tuple(founders)
        all_founders = tuple(sorted({me, *named} if named or not addresses else ()))
        check_names(me, all_founders)
        process = algorithm(me, all_founders)
        name = type(process).__name__
        if not isinstance(process, VectorSession) and len(all_founders) < 2:
            raise LocalProtocolError(
                f"{name} has a fixed set of members: name all of them, or use VectorSession"
            )
        self._others = Others(self.timing)
        self._group = Group(process, self._others, record)
        own = Own(me, incarnation, name, all_founders)
        greeting = Greeting(self.timing, addresses)
        self._meeting = Meeting(own, self._others, self._group, greeting, self._send)
        self._sends: list[Send] = []
        self._end: Ended | None = None
        self._said_goodbye = False
        self.state = State.GREETING
        self.refused = 0

    # ---- calls of the user ----

    def begin(self, now: float) -> list[Action]:
        """Look for the others."""
        self._group.begin(now)
        self._start_if_complete(now)
        return self._finish(now)

    def multicast(
        self, data: bytes, to: Iterable[Name] | None = None, *, now: float
    ) -> list[Action]:
        """Send a message to all members, itself among them, or to some.

        Raises:
            LocalProtocolError: not all members are here yet, or this one has left; the data are
                too large; the algorithm does not send to some.
        """
        if self.state is State.GREETING:
            waits = ", ".join(self.missing) or "a welcome"
            raise LocalProtocolError(
                f"{self.me} still waits for {waits}: send after the event Started"
            )
        if self.state is not State.RUNNING:
            raise LocalProtocolError(f"{self.me} has left, and cannot send any more")
        if len(data) > MAX_DATA_BYTES:
            raise LocalProtocolError(
                f"a message of {len(data)} bytes is too large; {MAX_DATA_BYTES} are the most"
            )
        self._group.set_clock(now)
        self._group.send(data, to)
        return self._finish(now)

    def leave(self, now: float) -> list[Action]:
        """Leave once all messages have arrived; `Ended` reports it."""
        self._group.set_clock(now)
        if self._meeting.came_late and not self._group.started:
            self._enter_ended(None)
        elif self.state in (State.GREETING, State.RUNNING):
            self._enter_leaving()
        return self._finish(now)

    @property
    def members(self) -> tuple[Name, ...]:
        """Return all present members, itself among them, sorted."""
        return self._group.members

    @property
    def audience(self) -> tuple[Name, ...]:
        """Return the receivers of a message to all: members that the algorithm knows, sorted."""
        return self._group.audience

    @property
    def missing(self) -> tuple[Name, ...]:
        """Return the founders that have not come yet."""
        return self._meeting.missing

    @property
    def waiting_parts(self) -> int:
        """Return the unsent parts of the fullest channel; a sender waits until there are few."""
        return max((other.channel.waiting_parts for other in self._others), default=0)

    @property
    def repeated(self) -> int:
        """Return the number of parts that were sent again to the present members."""
        return sum(other.channel.repeated for other in self._others)

    # ---- input ----

    def receive(
        self, datagram: bytes, address: Address, *, now: float, room: bool = True
    ) -> list[Action]:
        """Process a datagram that has come from an address.

        Args:
            datagram: any bytes.
            address: the address for an answer.
            now: seconds.
            room: whether the user has room for news; without room, datagrams that bring news must
                be repeated.
        """
        if self.state is State.ENDED:
            return []
        try:
            found = decode_datagram_untrusted(datagram)
        except BadDatagram:
            self.refused += 1
            return []
        self._group.set_clock(now)
        if isinstance(found, Part | Ack):
            self._on_channel(found, address, now, room=room)
        else:
            self._on_greeting(found, address, now)
        return self._finish(now)

    def pass_time(self, now: float) -> list[Action]:
        """Let time pass up to `now`."""
        if self.state is State.ENDED:
            return []
        self._group.set_clock(now)
        for other in self._others:
            if now - other.heard_at >= self.timing.silence_s:
                self._on_silence(other.contact.name)
        return self._finish(now)

    @property
    def deadline(self) -> float | None:
        """Return the time for `pass_time`; None if only a datagram can change anything."""
        if self.state is State.ENDED:
            return None
        found = (self._meeting.deadline, self._group.deadline, self._others.deadline)
        return min((each for each in found if each is not None), default=None)

    # ---- meeting ----

    def _on_greeting(
        self, found: Hello | Known | Ask | Refused | Gone, address: Address, now: float
    ) -> None:
        if isinstance(found, Hello):
            self._meeting.on_hello(found, address, now, running=self.state is State.RUNNING)
        elif found.target != self._incarnation:
            self.refused += 1
        elif isinstance(found, Gone):
            self._on_gone(found.sender)
        elif self.state is State.GREETING:
            match found:
                case Known():
                    self._meeting.on_known(found, address, now)
                case Ask():
                    self._meeting.on_ask(found, now)
                case Refused():
                    self._enter_ended(f"{found.sender} refuses {self.me}: {found.reason}")
        self._start_if_complete(now)

    def _start_if_complete(self, now: float) -> None:
        if self.state is State.GREETING and self._meeting.is_complete:
            self.state = State.RUNNING
            self._meeting.end()
            self._group.start(now)

    # ---- channels ----

    def _on_channel(self, found: Part | Ack, address: Address, now: float, *, room: bool) -> None:
        other = self._others.get(found.sender, found.incarnation)
        if other is None or found.target != self._incarnation:
            self.refused += 1
            if self._others.has_gone(found.sender, found.incarnation):
                self._send(address, Gone(self.me, found.incarnation), found.sender)
            return
        other.heard_at = now
        other.has_answered = True
        if isinstance(found, Ack):
            other.channel.acknowledged(found.upto, found.beyond)
        elif room:
            for data in other.channel.receive(Piece(*found[3:])):
                self._on_payload(other, data, now)

    def _on_payload(self, other: Other, data: bytes, now: float) -> None:
        try:
            payload = decode_payload_untrusted(data)
        except BadDatagram:
            self.refused += 1
            return
        self._group.receive(other, payload, now)
        if self._group.started and self.state is State.GREETING:
            self.state = State.RUNNING

    def _on_silence(self, name: Name) -> None:
        if self._meeting.came_late and not self._group.started:
            self._enter_ended(f"{name} was about to welcome {self.me}, and fell silent; try again")
        else:
            self._group.drop(name, Cause.SILENT)

    def _on_gone(self, name: Name) -> None:
        if self.state is State.LEAVING:
            if name in self._others:
                self._others.drop(name)
        else:
            self._enter_ended(
                f"{name} has heard nothing of {self.me} for too long, and counts it as gone;"
                " come again by another name"
            )

    # ---- the end ----

    def _enter_leaving(self) -> None:
        self.state = State.LEAVING
        self._meeting.end()

    def _enter_ended(self, reason: str | None) -> None:
        self.state = State.ENDED
        self._end = Ended(reason)

    def _go_on_leaving(self) -> None:
        if not self._said_goodbye and self._group.may_leave:
            self._said_goodbye = True
            self._group.say_goodbye()
        if self._said_goodbye and all(other.channel.is_idle for other in self._others):
            self._enter_ended(None)

    # ---- out ----

    def _finish(self, now: float) -> list[Action]:
        """Return the results of a call."""
        self._group.settle()
        while departed := self._group.departed():
            for other in departed:
                self._send_ack(other, now)
                self._group.drop(other.contact.name, Cause.LEFT)
            self._group.settle()
        if self.state is State.LEAVING:
            self._go_on_leaving()
        self._meeting.greet(now)
        for other in self._others:
            self._flush(other, now)
        found: list[Action] = [*self._sends, *self._group.news]
        self._sends.clear()
        self._group.news.clear()
        if self._end is not None:
            found.append(self._end)
            self._end = None
        return found

    def _flush(self, other: Other, now: float) -> None:
        contact = other.contact
        pieces = other.channel.due(now)
        if pieces:
            self._meeting.remind(other)
        for piece in pieces:
            part = Part(self.me, self._incarnation, contact.incarnation, *piece)
            self._send(contact.address, part, contact.name)
            other.sent_at = now
        if other.channel.must_ack or now - other.sent_at >= self.timing.alive_s:
            self._send_ack(other, now)

    def _send_ack(self, other: Other, now: float) -> None:
        contact = other.contact
        ack = Ack(self.me, self._incarnation, contact.incarnation, *other.channel.ack())
        self._send(contact.address, ack, contact.name)
        other.sent_at = now

    def _send(self, address: Address, datagram: Datagram, to: Name | None = None) -> None:
        self._sends.append(Send(to, address, encode_datagram(datagram)))
