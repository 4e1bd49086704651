"""The shell of every coordination machine: passes events to it, and sends its messages.

It works for trio, asyncio and threads. A machine lasts for one session: to the others the next
session is another member, which has nothing of what the earlier one held. So on a connection that
reconnects the shell ends the machine as soon as the session is over, sends nothing more for it, and
begins a new one with the next session. Every part of coordination learns of this in one way, as a
`Participant`.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from groupcomm.errors import AccessRefused, Code, LocalProtocolError, SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client.basic_connection import BasicConnection, Destinations
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.loops import CancelScope
from groupcomm_client.without_views import check_views


class Participant(Protocol):
    """A part of coordination, with a machine for each session. Nothing of it waits."""

    def begin(self, session: BasicConnection) -> None:
        """Make the machine of a session, which is a member of the groups by now."""

    def accept(self, event: Received) -> None:
        """Handle an event of the session."""

    def lose(self) -> None:
        """Give up everything that the session held: it is over."""

    def changed(self) -> None:
        """Look again, after some events, and when a session has begun or ended."""

    @property
    def is_busy(self) -> bool:
        """Return whether the session should last, even if its daemon is about to stop."""


class Driver:
    """The driver of one participant, active inside `driving`.

    Attributes:
        connection: the connection, for the participant alone.
        loop: the event loop of the program.
        group: the group that the participant has joined.
        thread_lock: held by the thread that uses the machine.
        session: the connection of the present session alone; None between two, and at the end.
        ended: the error that ended the last session; None while another one may follow.
    """

    def __init__(
        self,
        connection: BasicConnection,
        group: str,
        participant: Participant,
        *,
        others: tuple[str, ...] = (),
    ) -> None:
        """Prepare the driver, and begin with the present session.

        Args:
            connection: a connection for the participant alone.
            group: the group to join; "" for none.
            participant: gets the events.
            others: further groups that each session must be a member of.

        Raises:
            LocalProtocolError: the connection is not for coordination.
            ForkedSession: this process was forked from the one of the session.
        """
        connection.protocol.check_own()
        if group:
            check_views(connection.protocol, "coordination")
        self.connection = connection
        self.loop = connection.loop
        self.group = group
        self.thread_lock = self.loop.thread_lock()
        self.ended: SessionEnded | None = None
        self.session: BasicConnection | None = connection.present_session()
        self._groups = frozenset((group, *others)) - {""}
        self._participant = participant
        self._outgoing: deque[tuple[Destinations, bytes, ServiceLevel]] = deque()
        self._has_outgoing = self.loop.event()
        self._wake = self.loop.event()
        participant.begin(self.session)

    @property
    def is_live(self) -> bool:
        """Return whether the session lasts, as far as the host knows, and no view of daemons waits
        to be handled."""
        session = self.session
        if session is None:
            return False
        session.read_ready()
        return session.protocol.is_open and not session.protocol.has_view_waiting

    def send(
        self,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        to: Destinations | None = None,
    ) -> None:
        """Queue a message of this session, by default to the group, behind those that already wait.

        Between two sessions it is dropped: its machine is no more.
        """
        with self.thread_lock:
            self.check_own()
            if self.session is not None:
                self._outgoing.append((to or self.group, data, level))
                self._has_outgoing.set()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked only after events.

        Raises:
            SessionEnded: the last session is over, and the condition does not hold.
            ForkedSession: this process was forked from the one of the session.
        """
        self.check_own()
        await self.loop.checkpoint()
        while True:
            wake = self._wake  # first, as a thread may notify as soon as `ready` has looked
            with self.thread_lock:
                if ready():
                    return
            if self.ended is not None:
                raise SessionEnded(self.ended.code, str(self.ended))
            await wake.wait()

    def check_own(self) -> None:
        """Raise ForkedSession in a process that was forked: nothing would ever end a wait there."""
        self.connection.protocol.check_own()

    async def until_session(self) -> None:
        """Wait until there is a session; raise SessionEnded if none follows."""
        await self.until(lambda: self.session is not None)

    def check_ended(self) -> None:
        """Raise SessionEnded if the last session has ended, other than by the program.

        At the end of the block of a part that may have made no call that waits.
        """
        if self.ended is not None and self.ended.code != Code.OK:
            raise SessionEnded(self.ended.code, str(self.ended))

    # ---- sessions ----

    async def run_receiver(self) -> None:
        """Pass events to the participant, session by session, until none follows."""
        session = self.connection.present_session()
        if self.session is None or session.protocol is not self.session.protocol:
            self._lose()  # it has ended before this began
        while True:
            self._begin(session)
            why = await self._receive_all(session)
            self._lose()
            try:
                session = await self.connection.next_session(session, why)
            except SessionEnded as error:
                self.ended = error
                self.notify()
                return

    def _begin(self, session: BasicConnection) -> None:
        missing = self._groups.difference(session.groups)
        if missing and session.protocol.is_open:
            name = min(missing)
            text = f"this program may no longer join the group {name!r}, says its daemon"
            raise AccessRefused("join", name, "", text)
        with self.thread_lock:
            if self.session is None:
                self.session = session
                self._participant.begin(session)
        self.notify()

    async def _receive_all(self, session: BasicConnection) -> SessionEnded:
        """Pass all events of a session; return the reason of its end."""
        try:
            while True:
                events = await self.connection.receive_of(session, self._may_move)
                with self.thread_lock:
                    for event in _of_this_session(events):
                        self._participant.accept(event)
                self.notify()
        except SessionEnded as error:
            return error

    def _may_move(self) -> bool:
        return not self._participant.is_busy

    def _lose(self) -> None:
        with self.thread_lock:
            self.session = None
            self._outgoing.clear()
            self._participant.lose()
        self.notify()

    async def run_sender(self) -> None:
        """Send waiting messages, in a task of its own: receiving continues while the daemon is
        full."""
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = self.loop.event()
            while (found := self._pop_outgoing()) is not None:
                session, (to, data, level) = found
                try:
                    await session.multicast(to, data, level=level)
                except SessionEnded:
                    continue  # the receiver reports the end
                except LocalProtocolError:
                    if session.protocol.is_open:
                        raise
                    # The program has closed the connection meanwhile, or has moved.

    def _pop_outgoing(
        self,
    ) -> tuple[BasicConnection, tuple[Destinations, bytes, ServiceLevel]] | None:
        with self.thread_lock:
            if self.session is None or not self._outgoing:
                return None
            return self.session, self._outgoing.popleft()

    def notify(self) -> None:
        """Have waiting tasks check their conditions again."""
        with self.thread_lock:
            self._participant.changed()
            wake, self._wake = self._wake, self.loop.event()
        wake.set()


def _of_this_session(events: list[Received]) -> list[Received]:
    """Return the events behind those of an earlier session, which another task has not received."""
    for place in range(len(events) - 1, -1, -1):
        if isinstance(events[place], Reconnected):
            return events[place + 1 :]
    return events


@asynccontextmanager
async def running(driver: Driver) -> AsyncIterator[None]:
    """Run the participant for the length of a block."""
    async with driver.loop.tasks() as tasks:
        tasks.start(driver.run_receiver)
        tasks.start(driver.run_sender)
        yield


@asynccontextmanager
async def driving(driver: Driver) -> AsyncIterator[None]:
    """Be a member of the group, and run the participant, for the length of a block.

    Raises:
        LocalProtocolError: the name of the group is invalid.
        AccessRefused: the daemon's rules do not allow to join it, or no longer.
        SessionEnded: the session is over before it has joined.
    """
    async with driver.connection.group(driver.group), running(driver):
        yield


class Tenure:
    """A block that lasts only while something is held: `lose` cancels the block's waits.

    The same task begins and ends it, with blocks in between properly nested. In a thread, `lose`
    ends the calls to this library only.

    Attributes:
        is_lost: whether it is lost.
    """

    def __init__(self, scope: CancelScope) -> None:
        self._scope = scope
        self.is_lost = False

    async def begin(self) -> None:
        """Begin the tenure in the running task."""
        await self._scope.open()

    def lose(self) -> None:
        """Note that the tenure is lost, and cancel the waits of its block."""
        self.is_lost = True
        self._scope.cancel()

    async def end(self, error: BaseException | None, lost: Exception) -> bool:
        """End the tenure; return whether the exception that ended the block is its cancellation.

        Args:
            error: the exception that ended the block, if any.
            lost: the exception to raise if the tenure was lost before its end.
        """
        silenced = await self._scope.close(error)
        if self.is_lost and (error is None or silenced):
            raise lost from None
        return silenced
