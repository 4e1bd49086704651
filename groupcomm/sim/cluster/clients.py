"""Simulated programs: the real client session over a simulated connection.

All requests and events of a program are recorded, so that the checkers can check them.
"""

from collections.abc import Callable, Collection, Sequence
from math import ceil, inf
from typing import Final

from groupcomm.events import Closed, Connected, Event, GroupView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.session.client_session import ClientSession, Minority
from groupcomm.sim.cluster.connections import Pipe
from groupcomm.sim.virtual_time import SECOND, Loop
from groupcomm.trace.recorders import RecordEvent, SessionTrace

OLD_USER: Final = "0"
"""Programs whose user names end like this are of an older release, and get whole lists."""


class SimulatedClient:
    """One program, connected to one daemon; made by `Cluster.connect`.

    Args:
        loop: virtual time.
        record: records the trace.
        user: its user name.
        daemon: the index of its daemon among those of the cluster.
        daemon_name: the name of that daemon.
        start_message: the start of its count of messages.
        causes: whether it asks for the causes of messages.
        origins: whether it asks which daemons go on together at the end of a view.
        daemon_timeout_s: the silence after which it leaves its daemon; None: neither side watches
            the other, and the daemon does not tell what it has accepted.

    Attributes:
        daemon: index of its daemon.
        name: its private name.
        principal: the program's principal; "" if its daemon did not ask for it.
        identity: its identity in traces.
        connected: the daemon has admitted it.
        alive: whether it has neither left nor crashed nor been closed.
        notified: the number of events that it has received.
        last_sent: the number of its last message.
        events: all events that it has received, unless `on_event` was replaced.
        on_event: called with every event that it receives.
        on_end: called once when its session is over, for whatever reason.
    """

    def __init__(
        self,
        loop: Loop,
        record: RecordEvent,
        user: str,
        daemon: int,
        daemon_name: str,
        start_message: int = 0,
        *,
        causes: bool = False,
        origins: bool = False,
        daemon_timeout_s: float | None = None,
    ) -> None:
        self._trace = SessionTrace(loop, record)
        self._loop = loop
        self._looks = False  # whether the times of looks are kept
        self._session = ClientSession(
            user,
            start_message=start_message,
            causes=causes,
            origins=origins,
            daemon_timeout_s=daemon_timeout_s,
            accepted=daemon_timeout_s is not None,
            differences=not user.endswith(OLD_USER),
        )
        self._up: Pipe | None = None
        self._down: Pipe | None = None
        self.user = user
        self.daemon = daemon
        self.name = private_name(user, daemon_name)
        self.principal = ""
        self.identity = ""
        self._member = MemberId("", 0)
        self.connected = False
        self.alive = False
        self.notified = 0
        self.last_sent = 0
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] = self.events.append
        self.on_end: Callable[[], None] = lambda: None

    @property
    def accepted(self) -> int:
        """Return the number up to which a crash of its daemon loses no message; 0 if unknown."""
        return self._session.accepted or 0

    @property
    def was_silent(self) -> bool:
        """Return whether its session has ended because its daemon was silent."""
        return self._session.was_silent

    @property
    def groups(self) -> Collection[str]:
        """Return the groups that it is a member of, as its last views say."""
        return self._session.memberships.views.keys() if self.alive else ()

    @property
    def asked(self) -> Collection[str]:
        """Return the groups that it is a member of once all its requests are answered."""
        return self._session.memberships.asked

    # ---- acts of a program ----

    def multicast(
        self,
        groups: Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
        more: bool = False,
    ) -> int:
        """Send to groups and private names; returns the message's number.

        Args:
            groups, data, level, type, self_discard, ordered: see ClientSession.multicast.
            more: whether another call follows at once; its message may share a bundle with this.

        Raises:
            LocalProtocolError: see ClientSession.multicast.
        """
        number = self._session.multicast(
            groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
        )
        self.last_sent = number
        self._trace.sent(number, level, groups, type, data, discard=self_discard, ordered=ordered)
        if not more:
            self.flush()
        return number

    @property
    def knows_pauses(self) -> bool:
        """Return whether its joins may need a quorum."""
        return self._session.knows_pauses

    def join(self, group: str, *, views: bool = True, minority: Minority = "deliver") -> int:
        """Ask to become a member, or to read; the view that confirms it comes as an event."""
        number = self._session.join(group, views=views, minority=minority)
        what, needs = "join" if views else "read", minority != "deliver"
        self._trace.requested(what, group, number, needs_quorum=needs)
        self.flush()
        return number

    def leave(self, group: str) -> int:
        """Ask to end the membership."""
        number = self._session.leave(group)
        self._trace.requested("leave", group, number)
        self.flush()
        return number

    def go_on_with(self, line: bytes) -> None:
        """Ask to go on with a line; a LineGranted comes as an event, and no message before it."""
        self._session.go_on_with(line)
        self._note_line()

    def give_up(self, line: bytes) -> None:
        """Say that the line is needed no more."""
        self._session.give_up(line)
        self._note_line()

    def _note_line(self) -> None:
        self._trace.requested("line", number=self._session.last_number)
        self.flush()

    def count_from(self, number: int) -> None:
        """Give the next message of the line the number behind this one."""
        self._session.count_from(number)

    def disconnect(self) -> None:
        """End the session in order: messages that were sent before are still delivered."""
        self._session.close()
        self._trace.requested("disconnect")
        self.connected = False
        self.flush()

    def crash(self) -> None:
        """Crash: data that the program has not read is lost; data in the kernel is still sent."""
        self._trace.requested("crash")
        assert self._up is not None
        assert self._down is not None
        self._up.close()
        self._end()

    def set_reading(self, reading: bool) -> None:
        """Stop reading, or continue: a program may be busy with other work."""
        assert self._down is not None
        self._down.set_reading(reading)

    def set_cut(self, cut: bool) -> None:
        """Cut the connection, or mend it: nothing gets through meanwhile, and nobody is told."""
        assert self._up is not None
        assert self._down is not None
        self._up.set_cut(cut)
        self._down.set_cut(cut)

    @property
    def writable(self) -> bool:
        """Return whether a well-behaved program would send more now."""
        return self.connected and self._session.writable

    # ---- calls of its daemon and connection ----

    def attach(self, up: Pipe, down: Pipe, connection: int) -> None:
        """Accept the connection and send HELLO."""
        self._up, self._down = up, down
        self._member = MemberId(self.name, connection)
        self.identity = self._trace.identity = str(self._member)
        self.alive = True
        self._trace.requested("connect")
        self.flush()

    @property
    def closed(self) -> bool:
        """Return whether the session has ended, also if events of it are still being noted."""
        return self._session.closed

    def flush(self) -> None:
        """Write waiting output, as far as the connection accepts it."""
        session, up = self._session, self._up
        while session.pending_bytes and up is not None and (room := up.room()):
            up.write(session.pop_output(room))
            session.note_sent(self._loop.now / SECOND)

    def receive(self, data: bytes) -> None:
        """Accept bytes from the daemon."""
        self._notify(self._session.receive(data))
        self._session.note_heard(self._loop.now / SECOND)
        if not self._looks and self._session.look_at < inf:
            self._looks = True
            self._look(None)
        self.flush()

    def _look(self, _: None) -> None:
        """Send heartbeats, and leave a silent daemon."""
        assert self._down is not None
        if not self.alive:
            return
        self._notify(self._session.look(self._loop.now / SECOND, reads=self._down.is_read))
        self.flush()
        if self.was_silent:
            assert self._up is not None
            self._up.close()
            self._end()
        elif self._session.look_at < inf:
            at = max(self._loop.now + 1, ceil(self._session.look_at * SECOND))
            self._loop.at(at, self._look)

    def ended(self) -> None:
        """Note that the connection has ended: closed by the daemon, or with it."""
        self._notify(self._session.connection_lost())
        self._end()

    def _notify(self, events: list[Event]) -> None:
        self.notified += len(events)
        for event in events:
            self._trace.received(event)
            self._note(event)
            self.on_event(event)

    def _end(self) -> None:
        self.connected = self.alive = False
        assert self._down is not None
        self._down.break_off()
        self.on_end()

    def _note(self, event: Event) -> None:
        """Remember the parts of an event that the program needs later."""
        match event:
            case Connected(member=member):
                assert member == self._member, f"the daemon calls {self.identity} {member}"
                self.connected = True
            case Closed():
                self.connected = False
            case GroupView():
                self._session.memberships.update(event, self._member)
            case _:
                pass
