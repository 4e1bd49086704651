"""The programs of an explored cluster: real client sessions that act at once.

A program is on the host of its daemon, and its connection costs no time: what it receives and what
it sends belong to the same step. So exploration permutes the acts of programs with all else, and
not the bytes of connections, whose order is constants.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from groupcomm.engine import ClientBytes, ClientGone, ClientOpened, DaemonCore, Input, Output
from groupcomm.events import Event, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.session.client_session import ClientSession, ClientSessionState
from groupcomm.trace.events import TraceEvent
from groupcomm.trace.recorders import SessionTrace
from groupcomm.trace.steps import TraceClock

_ROOM: Final = 2**20


@attrs.frozen
class Connect:
    """The program connects."""


@attrs.frozen
class Join:
    """The program joins a group."""

    group: str


@attrs.frozen
class Leave:
    """The program leaves a group."""

    group: str


@attrs.frozen
class Multicast:
    """The program sends one message.

    Attributes:
        groups: its groups and private names.
        level: its level.
        size_bytes: the least size; above some 1,200 bytes it is sent in fragments.
        self_discard: whether the program does not want it itself.
        is_ordered: whether the program waits for its position.
    """

    groups: tuple[str, ...]
    level: ServiceLevel = ServiceLevel.AGREED
    size_bytes: int = 0
    self_discard: bool = False
    is_ordered: bool = False


@attrs.frozen
class Await:
    """The program waits until it has received some messages since exploration began.

    Attributes:
        messages: their number.
    """

    messages: int


@attrs.frozen
class Disconnect:
    """The program ends its session in order; after that it may connect again."""


Act: TypeAlias = Connect | Join | Leave | Multicast | Await | Disconnect


class Program:
    """One program and its connection.

    Args:
        user: the name of its user.
        daemon: its daemon.
        acts: what it does first.
        again: what it does each time that its daemon was killed and has started again.
        clock, record: see `SessionTrace`.

    Attributes:
        user: the name of its user.
        acts: what it has still to do, in order.
        is_read: whether its daemon reads what it sends: not while too much of it has no number.
    """

    def __init__(
        self,
        user: str,
        daemon: str,
        acts: Sequence[Act],
        again: Sequence[Act],
        clock: TraceClock,
        record: Callable[[TraceEvent], None],
    ) -> None:
        self.acts = list(acts)
        self.is_read = True
        self.user = user
        self._session = ClientSession(user, daemon_timeout_s=None, accepted=False)
        self._daemon = daemon
        self._again = tuple(again)
        self._clock = clock
        self._record = record
        self._trace = SessionTrace(clock, record)
        self._connection = 0
        self._member = MemberId("", 0)
        self._sent = 0
        self._received = 0

    @property
    def may_act(self) -> bool:
        """Return whether the next act is possible now."""
        if not self.acts or not self.is_read:
            return False
        if isinstance(self.acts[0], Connect):
            return not self._connection or self._session.closed
        if isinstance(self.acts[0], Await) and self._received < self.acts[0].messages:
            return False
        return self._session.state is ClientSessionState.OPEN

    def act(self, core: DaemonCore) -> list[Input]:
        """Do the next act; return the inputs of the daemon."""
        act = self.acts.pop(0)
        inputs: list[Input] = []
        session, trace = self._session, self._trace
        match act:
            case Connect():
                if session.closed:
                    self._session = ClientSession(
                        session.user, daemon_timeout_s=None, accepted=False
                    )
                    self._trace = trace = SessionTrace(self._clock, self._record)
                self._connection = core.next_connection()
                self._member = MemberId(private_name(session.user, self._daemon), self._connection)
                trace.identity = str(self._member)
                trace.requested("connect")
                inputs.append(ClientOpened(self._connection))
            case Join(group):
                trace.requested("join", group, session.join(group))
            case Leave(group):
                trace.requested("leave", group, session.leave(group))
            case Multicast(groups, level, size, discard, is_ordered):
                self._sent += 1
                data = (b"%d" % self._sent).ljust(size)
                number = session.multicast(
                    groups, data, level=level, self_discard=discard, ordered=is_ordered
                )
                trace.sent(number, level, groups, 0, data, discard=discard, ordered=is_ordered)
            case Await():
                """Nothing is left to wait for."""
            case Disconnect():
                session.close()
                trace.requested("disconnect")
        return inputs + self.pop_inputs()

    def pop_inputs(self) -> list[Input]:
        """Return what the session has to send, as inputs of the daemon."""
        data = self._session.pop_output(_ROOM)
        if not data:
            return []
        self.is_read = False
        return [ClientBytes(self._connection, data)]

    def serve(self, core: DaemonCore, output: Output) -> list[Input]:
        """Read all output of the daemon, and close the connection if the daemon has ended it.

        Returns:
            The inputs of the daemon: what the session answers, and that the connection is closed.
        """
        inputs: list[Input] = []
        self.is_read = self.is_read or self._connection in output.readable
        if self._connection in output.ready:
            data = b"".join(core.pop_output(self._connection, _ROOM))
            if data:
                self._note(self._session.receive(data))
            inputs += self.pop_inputs()
        if self._connection in output.ended:
            self.is_read = True
            inputs.append(ClientGone(self._connection))
        return inputs

    def end(self) -> None:
        """Note that the daemon is gone."""
        if self._connection and not self._session.closed:
            self._note(self._session.connection_lost())
        self.acts = list(self._again)
        self.is_read = True

    def _note(self, events: list[Event]) -> None:
        for event in events:
            self._trace.received(event)
            self._received += isinstance(event, Message)
            if isinstance(event, GroupView):
                self._session.memberships.update(event, self._member)
