"""A connection that comes back when its session ends, and says what may have been missed."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, Self, overload

import attrs
import trio

from groupcomm.clocks.stamp import Position
from groupcomm.errors import CannotConnect, OrderUnknown, SessionEnded
from groupcomm.events import GroupView, MemberId, Ordered
from groupcomm.session.codes import Code
from groupcomm_client.connecting import ADMISSION_S, connect
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Received, random_user

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0

_FOR_GOOD: Final = frozenset((Code.REJECT_NAME, Code.REJECT_VERSION, Code.ILLEGAL_MESSAGE))
"""Refusals that no further attempt changes."""


@attrs.frozen(kw_only=True)
class Reconnected:
    """The session had ended, and there is a new one; views of its groups follow.

    Attributes:
        member: the identity of the new session; to others it is somebody else.
        why: the session ended.
        last: the highest position of all that was received before; what was ordered after it, and
            before the views that follow, may have been missed. None: nothing was received.
        in_doubt: of at most so many messages, those that were sent last, the daemon has not shown
            that it had taken them: they may have been delivered, or not.
    """

    member: MemberId
    why: str
    last: Position | None
    in_doubt: int


class StayingConnection:
    """Made by `stay_connected`; it has what `Connection` has, and outlasts sessions."""

    def __init__(self, address: str | None, user: str | None, trace: Path | None) -> None:
        self._address = address
        self._user = user or random_user()
        self._trace = trace
        self._groups: dict[str, None] = {}  # in the order of joining
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None
        self._connecting = trio.Lock()
        self._told: deque[Received | Reconnected] = deque()
        self._last: Position | None = None
        self._random = Random()

    @property
    def member(self) -> MemberId:
        """The identity of the present session, or of the last one."""
        assert self._connection is not None
        return self._connection.member

    @property
    def name(self) -> str:
        """The private name; the same in all sessions at one daemon."""
        return self.member.name

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of its groups, by name; empty while there is no session."""
        return {} if self._connection is None else self._connection.groups

    async def open(self, timeout_s: float) -> None:
        """Connect for the first time."""
        self._connection = await self._stack.enter_async_context(
            connect(self._address, user=self._user, timeout_s=timeout_s, trace=self._trace)
        )

    async def aclose(self) -> None:
        """End the session, if there is one."""
        await self._stack.aclose()

    # ---- what programs do ----

    async def join(self, group: str) -> None:
        """Become a member, in this session and those that follow."""
        while True:
            connection = await self._current()
            self._groups[group] = None
            try:
                await connection.join(group)
            except SessionEnded as error:
                await self._renew(connection, error)  # joins, too
            except BaseException:
                del self._groups[group]
                raise
            if group in (await self._current()).groups:
                return

    async def leave(self, group: str) -> None:
        """Be a member no longer."""
        self._groups.pop(group, None)
        connection = await self._current()
        try:
            await connection.leave(group)
        except SessionEnded as error:
            await self._renew(connection, error)

    @asynccontextmanager
    async def group(self, name: str) -> AsyncIterator[None]:
        """Be a member for the length of a block."""
        await self.join(name)
        try:
            yield
        finally:
            with trio.move_on_after(1.0, shield=True):
                await self.leave(name)

    @overload
    async def multicast(
        self, groups: str | Sequence[str], data: bytes, *, ordered: Literal[True], **options: Any
    ) -> Ordered: ...

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        ordered: Literal[False] = ...,
        **options: Any,
    ) -> None: ...

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        ordered: bool = False,
        **options: Any,
    ) -> Ordered | None:
        """Send one message, once there is a session; see `Connection.multicast`.

        It is given to one session only, and never sent a second time by itself: if that session
        ends, `Reconnected.in_doubt` counts it, and with `ordered` OrderUnknown is raised.
        """
        while True:
            connection = await self._current()
            try:
                place: Ordered | None = await connection.multicast(
                    groups, data, ordered=ordered, **options
                )
                return place
            except OrderUnknown:
                raise
            except SessionEnded as error:  # before the session took the message
                await self._renew(connection, error)

    async def receive(self) -> Received | Reconnected:
        """The next event; between two sessions a `Reconnected`."""
        while not self._told:
            connection = await self._current()
            try:
                event = await connection.receive()
            except SessionEnded as error:
                await self._renew(connection, error)
            else:
                self._note(event)
                return event
        return self._told.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received | Reconnected:
        return await self.receive()

    # ---- from session to session ----

    async def _current(self) -> Connection:
        await trio.lowlevel.checkpoint_if_cancelled()
        assert self._connection is not None
        return self._connection

    def _note(self, event: Received) -> None:
        place = event.id if isinstance(event, GroupView) else getattr(event, "position", None)
        if place is not None and (self._last is None or place > self._last):
            self._last = place

    async def _renew(self, old: Connection, why: SessionEnded) -> None:
        """Have a new session in place of `old`; whoever comes second finds it there.

        Raises:
            SessionEnded: no further attempt can succeed.
        """
        async with self._connecting:
            if self._connection is not old:
                return
            if why.code == Code.OK or why.code in _FOR_GOOD:
                raise why
            for event in old.take_waiting():
                self._note(event)
                self._told.append(event)
            new = await self._try_until_there_is_one()
            self._told.append(
                Reconnected(member=new.member, why=str(why), last=self._last, in_doubt=old.in_doubt)
            )
            self._connection = new

    async def _try_until_there_is_one(self) -> Connection:
        pause_s = FIRST_PAUSE_S
        while True:
            await self._stack.aclose()
            try:
                new = await self._stack.enter_async_context(
                    connect(self._address, user=self._user, trace=self._trace)
                )
                for group in self._groups:
                    await new.join(group)
            except (CannotConnect, SessionEnded) as error:
                if error.code in _FOR_GOOD:
                    raise
            else:
                return new
            # A random share, so that the programs of a daemon do not come all at once.
            await trio.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


@asynccontextmanager
async def stay_connected(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
) -> AsyncIterator[StayingConnection]:
    """As `connect`, for the length of a block; a session that ends is replaced by a new one.

    The first session must be there in time; later ones are tried for until one is there, after
    0.05 s at first and 5 s at last. The new session is in the same groups, and an event of class
    `Reconnected` stands where something may be missing.

    Args:
        address, user, trace: see `connect`.
        timeout_s: seconds until the first session must be admitted.

    Raises:
        CannotConnect: there is no first session.
        SessionEnded: the daemon refuses it for good.
    """
    staying = StayingConnection(address, user, trace)
    await staying.open(timeout_s)
    try:
        yield staying
    finally:
        await staying.aclose()
