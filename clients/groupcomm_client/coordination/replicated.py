"""A replicated state machine.

::

    class Counter:
        count = 0

        def apply(self, command, sender):
            self.count += int(command)
            return self.count

        def members_changed(self, members): ...
        def snapshot(self):
            return b"%d" % self.count
        def restore(self, state):
            self.count = int(state)

    async with connect() as connection, replicate(connection, "counter", Counter()) as counter:
        print(await counter.submit(b"1"))
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from groupcomm.clocks.stamp import Position
from groupcomm.errors import GroupCommError, LocalProtocolError
from groupcomm.level import AGREED_LEVELS, ServiceLevel
from groupcomm_client.arguments import check_count, check_function
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, driving
from groupcomm_client.coordination.limits import check_data
from groupcomm_client.coordination.replica import Done, Replica, Send, StateMachine, Unknown
from groupcomm_client.events import Received

_CALLS: Final = ("apply", "members_changed", "snapshot", "restore")


class OutcomeUnknown(GroupCommError):
    """Raised if nobody knows whether the command was applied; the caller decides on a retry."""


class _Call:
    """A command whose outcome is awaited."""

    def __init__(self) -> None:
        self.outcome: Done | Unknown | None = None


class Replicated:
    """One replica of a state machine; made by `replicate`.

    Attributes:
        is_busy: see `Participant`.
        on_event: called behind each event, and at the end of a session.
    """

    is_busy = False

    def __init__(
        self,
        connection: Connection,
        group: str,
        machine: StateMachine,
        replicas: int | None,
        *,
        needs_majority: bool = False,
    ) -> None:
        self._group = group
        self._machine = machine
        self._replicas = replicas
        self._needs_majority = needs_majority
        self.on_event: Callable[[], object] = bool
        self._as_of: Position | None = None  # what the machine has applied in earlier sessions
        self._calls: dict[int, _Call] = {}  # by the number of the command
        self.driver = Driver(connection, group, self)

    @property
    def is_current(self) -> bool:
        """Return whether the state here is that of the group, and enough replicas have it."""
        return self.replica.has_quorum and self.driver.is_live

    @property
    def has_state(self) -> bool:
        """Return the same as of the events that were handled so far."""
        return self.replica.has_quorum and self.driver.session is not None

    async def until_current(self) -> None:
        """Wait until the state here is that of the group, and enough replicas have it.

        Raises:
            SessionEnded: the session is over, and no other follows.
        """
        await self.driver.until(lambda: self.has_state)

    async def submit(self, command: bytes, *, level: ServiceLevel = ServiceLevel.SAFE) -> object:
        """Have every replica apply a command; return the result of `apply` here.

        It waits until enough replicas are there. Two calls of one program at the same time are
        applied in the order of the calls.

        Args:
            command: the command for the state machine.
            level: SAFE: once this returns, every daemon with a replica has the command, so that no
                crash or partition takes it back while more than half of the replicas live. AGREED:
                quicker; if this daemon crashes then, the others may not have it.

        Raises:
            LocalProtocolError: the command is no bytes, or larger than MAX_DATA_BYTES, 64 MiB less
                1 KiB; the level is another one.
            OutcomeUnknown: the network was partitioned or the session ended, and nobody here can
                know whether the command was applied. With ``reconnect=True`` the next call waits
                for the next session.
            SessionEnded: the session is over, and the command was not sent.
        """
        check_data("the command", command)
        if level not in AGREED_LEVELS:
            raise LocalProtocolError(f"level is {level!r}; write ServiceLevel.SAFE, or AGREED")
        call = _Call()
        number = await self._send(call, command, level)
        try:
            await self.driver.until(lambda: call.outcome is not None)
        finally:
            with self.driver.thread_lock:
                if self._calls.get(number) is call:
                    del self._calls[number]
        if isinstance(call.outcome, Done):
            return call.outcome.result
        raise OutcomeUnknown(
            "the network was partitioned, or the session ended, before enough replicas had applied"
            " the command: it may be lost or not"
        )

    async def _send(self, call: _Call, command: bytes, level: ServiceLevel) -> int:
        """Send a command once this replica is current; return its number."""
        while True:
            await self.until_current()
            with self.driver.thread_lock:
                if self.has_state:  # otherwise another thread has noticed the end
                    number, data = self.replica.command(command)
                    self._calls[number] = call
                    self.driver.send(data, level=level)
                    return number

    # ---- what the driver tells ----

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self.replica = Replica(
            session.member,
            self._group,
            self._machine,
            replicas=self._replicas,
            as_of=self._as_of,
            needs_majority=self._needs_majority,
        )

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        for action in self.replica.handle(event):
            if isinstance(action, Send):
                self.driver.send(action.data)
            elif action.number in self._calls:  # otherwise its caller has given up
                self._calls.pop(action.number).outcome = action
        self.on_event()

    def lose(self) -> None:
        """See `Participant`."""
        self._as_of = self.replica.as_of
        calls, self._calls = self._calls, {}
        for number, call in calls.items():
            call.outcome = Unknown(number)
        self.on_event()

    def changed(self) -> None:
        """See `Participant`."""


@asynccontextmanager
async def replicate(
    connection: Connection, group: str, machine: StateMachine, *, replicas: int | None = None
) -> AsyncIterator[Replicated]:
    """Be a replica for the length of a block.

    With ``reconnect=True`` it is not current from the end of a session until the next one has got
    the state of the group, or has brought its own along where nobody has a later one.

    Args:
        connection: a connection for this alone; nothing else may receive from it.
        group: a group of all replicas, and of nobody else.
        machine: a new state machine; it has the state of the group once `until_current` returns.
        replicas: the number of replicas, absent ones included. Then only a part of a partitioned
            network with more than half of them continues, and no answered command is lost while
            fewer than half of them have crashed. None: every part continues by itself, and when
            parts meet again the state of one of them wins; the commands of the others meanwhile are
            lost.

    Raises:
        LocalProtocolError: the name of the group is invalid, `replicas` is no number from 1, or the
            machine lacks a method.
        AccessRefused: the daemon's rules do not allow to join it, or no longer.
        StateUnavailable: no replica could give its state.
        SessionEnded: the session is over, and no other follows; also at the end of the block.
    """
    for name in _CALLS:
        check_function(f"machine.{name}", getattr(machine, name, None))
    async with replicating(connection, group, machine, replicas) as found:
        yield found


@asynccontextmanager
async def replicating(
    connection: Connection,
    group: str,
    machine: StateMachine,
    replicas: int | None,
    *,
    needs_majority: bool = False,
) -> AsyncIterator[Replicated]:
    """Replicate a machine that has all methods; see `replicate`, and `Replica` for a majority."""
    if replicas is not None:
        check_count("replicas", replicas)
    found = Replicated(connection, group, machine, replicas, needs_majority=needs_majority)
    async with driving(found.driver):
        yield found
    found.driver.check_ended()
