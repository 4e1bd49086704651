"""A semaphore: permits of which a limited number is held at a time, by any programs of a group.

::

    async with connect() as connection, open_semaphore(connection, "presses", 3) as presses:
        async with presses.permit() as token:
            ...  # two others at most are here
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groupcomm.errors import GroupCommError, SessionEnded
from groupcomm.events import MemberId
from groupcomm_client.arguments import check_count
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Tenure
from groupcomm_client.coordination.object_machines import (
    Acquire,
    Asker,
    Release,
    SemaphoreMachine,
    encode,
)
from groupcomm_client.coordination.objects import ReadyObject
from groupcomm_client.coordination.replicated import OutcomeUnknown, Replicated, replicating


class PermitLost(GroupCommError):
    """Raised if a block has not had its permit to the end: others may have had it."""


class ReplicatedSemaphore(ReadyObject[SemaphoreMachine]):
    """Permits of which a limited number is held at a time; made by `open_semaphore`."""

    def __init__(self, replicated: Replicated, machine: SemaphoreMachine, permits: int) -> None:
        super().__init__(replicated, machine)
        self._permits = permits
        self._requests = 0
        self._held: dict[Asker, Tenure] = {}
        replicated.on_event = self._look

    @property
    def holders(self) -> list[MemberId]:
        """Return who has a permit, as far as is known here; who has several is named as often."""
        with self.replicated.driver.thread_lock:
            return [MemberId(*one[:2]) for one in self.machine.state.holders.values()]

    @asynccontextmanager
    async def permit(self) -> AsyncIterator[int]:
        """Wait for a permit; hold it for the length of the block; yield its fencing token.

        The token, from 1, rises with each permit that anybody gets. If the permit is lost, as this
        program is cut off or its session ends, the waits of the block are cancelled. A block that
        ends without an error has had its permit to the end.

        Raises:
            PermitLost: the block was cancelled, or others may have had the permit before its end.
            OutcomeUnknown, SessionEnded: nothing was held; see `Replicated.submit`.
        """
        asker, token, tenure = await self._acquire()
        error: BaseException | None = None
        try:
            yield token
        except BaseException as raised:
            error = raised
        with self.replicated.driver.thread_lock:
            del self._held[asker]
            self.replicated.is_busy = bool(self._held)
        if error is not None or tenure.is_lost:
            self._give_back(asker)
        elif not await self._release(asker):
            tenure.lose()
        lost = PermitLost("this program was cut off, or its session has ended, before its block")
        silenced = await tenure.end(error, lost)
        if error is not None and not silenced:
            raise error

    async def _release(self, asker: Asker) -> bool:
        """Give a permit back; return whether it was held until then, as far as can be known."""
        try:
            return bool(await self._submit(Release(asker[2])))
        except (OutcomeUnknown, SessionEnded):
            return False

    async def _acquire(self) -> tuple[Asker, int, Tenure]:
        """Wait for a permit; return the request, the token and what notices its loss."""
        while True:
            await self.until_current()
            session = self.replicated.driver.session
            if session is not None:
                found = await self._ask(session)
                if found is not None:
                    return found

    async def _ask(self, session: BasicConnection) -> tuple[Asker, int, Tenure] | None:
        """Do the same in one session; None if it ends meanwhile."""
        driver = self.replicated.driver
        with driver.thread_lock:
            self._requests += 1
            asker = (session.member.name, session.member.connection, self._requests)
        tenure = Tenure(driver.loop.cancel_scope())
        try:
            await self._submit(Acquire(asker[2], self._permits))
            await driver.until(lambda: self._has(asker) or driver.session is not session)
            await tenure.begin()
        except BaseException:
            self._give_back(asker)
            raise
        with driver.thread_lock:
            token = self.machine.token_of(asker)
            if token is not None and self._has(asker):
                self._held[asker] = tenure
                self.replicated.is_busy = True
                return asker, token, tenure
        self._give_back(asker)
        await tenure.end(None, PermitLost())
        return None

    def _give_back(self, asker: Asker) -> None:
        """Have a permit, or the wait for it, end without waiting for that."""
        with self.replicated.driver.thread_lock:
            session = self.replicated.driver.session
            if session is not None and session.member == MemberId(*asker[:2]):
                _, command = self.replicated.replica.command(encode(Release(asker[2])))
                self.replicated.driver.send(command)

    def _has(self, asker: Asker) -> bool:
        if not self.replicated.has_state:
            return False
        return self.machine.token_of(asker) is not None

    def _look(self) -> None:
        """Notice at once what was lost, also if it is granted anew in the same batch of events."""
        for asker, tenure in self._held.items():
            if not self._has(asker):
                tenure.lose()


@asynccontextmanager
async def open_semaphore(
    connection: Connection, group: str, permits: int, *, replicas: int | None = None
) -> AsyncIterator[ReplicatedSemaphore]:
    """Open a semaphore of so many permits, the same number everywhere; the rest is as for
    `open_dict`."""
    check_count("permits", permits)
    machine = SemaphoreMachine()
    async with replicating(connection, group, machine, replicas, needs_majority=True) as replicated:
        yield ReplicatedSemaphore(replicated, machine, permits)
