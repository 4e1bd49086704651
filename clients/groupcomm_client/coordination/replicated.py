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

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groupcomm.errors import GroupCommError, SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, driving
from groupcomm_client.coordination.limits import check_data
from groupcomm_client.coordination.replica import Done, Replica, Send, StateMachine, Unknown
from groupcomm_client.events import Received


class OutcomeUnknown(GroupCommError):
    """Raised if nobody knows whether the command was applied; the caller decides on a retry."""


class Replicated:
    """One replica of a state machine; made by `replicate`."""

    def __init__(
        self, connection: Connection, group: str, machine: StateMachine, replicas: int | None
    ) -> None:
        self.replica = Replica(connection.member, group, machine, replicas=replicas)
        self.driver = Driver(connection, group, self._accept)
        self._outcomes: dict[int, Done | Unknown | None] = {}  # the outcomes of waiting calls

    @property
    def is_current(self) -> bool:
        """Return whether the state here is that of the group, and enough replicas have it."""
        return self.replica.has_quorum and self.driver.ended is None

    async def until_current(self) -> None:
        """Wait until the state here is that of the group, and enough replicas have it.

        Raises:
            SessionEnded: the session is over.
        """
        await self.driver.until(lambda: self.is_current)

    async def submit(self, command: bytes, *, level: ServiceLevel = ServiceLevel.SAFE) -> object:
        """Have every replica apply a command; return the result of `apply` here.

        It waits until enough replicas are there. Two calls of one program at the same time are
        applied in the order of the calls.

        Args:
            command: the command for the state machine.
            level: SAFE: once this returns, every daemon of the view has the command, so that no
                crash or partition takes it back while more than half of the replicas live. AGREED:
                quicker; if this daemon crashes then, the others may not have it.

        Raises:
            LocalProtocolError: the command is no bytes, or larger than MAX_DATA_BYTES, 64 MiB less
                1 KiB.
            OutcomeUnknown: the network was partitioned or the session ended, and nobody here can
                know whether the command was applied.
            SessionEnded: the session is over, and the command was not sent.
        """
        check_data("the command", command)
        await self.until_current()
        with self.driver.thread_lock:
            number, data = self.replica.command(command)
            self._outcomes[number] = None
        try:
            self.driver.send(data, level=level)
            try:
                await self.driver.until(lambda: self._outcomes[number] is not None)
            except SessionEnded as error:
                raise OutcomeUnknown(
                    "the session ended before the result of the command came, so it may have "
                    f"been applied or not: {error}"
                ) from None
            outcome = self._outcomes[number]
        finally:
            del self._outcomes[number]
        if isinstance(outcome, Done):
            return outcome.result
        raise OutcomeUnknown(
            "the network was partitioned before enough replicas had applied the command, so "
            "it may be lost or not"
        )

    def _accept(self, event: Received) -> None:
        for action in self.replica.handle(event):
            if isinstance(action, Send):
                self.driver.send(action.data)
            elif action.number in self._outcomes:  # otherwise its caller has given up
                self._outcomes[action.number] = action


@asynccontextmanager
async def replicate(
    connection: Connection, group: str, machine: StateMachine, *, replicas: int | None = None
) -> AsyncIterator[Replicated]:
    """Be a replica for the length of a block.

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
        LocalProtocolError: the name of the group is invalid.
        StateUnavailable: no replica could give its state.
        SessionEnded: the session is over.
    """
    found = Replicated(connection, group, machine, replicas)
    async with driving(found.driver):
        yield found
