"""A connection that comes back when its session ends, and says what may have been missed.

Written once for all kinds of programs: `Loop` says how they wait, `Session` what they have while a
session lasts.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self, overload

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.errors import AccessRefused, LocalProtocolError, OrderUnknown, SessionEnded
from groupcomm.events import DaemonView, GroupView, MemberId, Ordered
from groupcomm.session.codes import Code
from groupcomm_client.connecting import ADMISSION_S
from groupcomm_client.connection import GOODBYE_S, Turns
from groupcomm_client.conversation import Received
from groupcomm_client.credentials import Credentials, StrPath
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Loop, TrioLoop
from groupcomm_client.sessions import Reconnected, Session, Sessions


class StayingConnection:
    """Made by `stay_connected`: what a program does in one session, across all of them."""

    def __init__(
        self,
        loop: Loop[Session],
        address: str | None,
        user: str | None,
        trace: Path | None,
        *,
        causes: bool = False,
        principals: bool = False,
        credentials: Credentials | None = None,
        filters: Sequence[Factory] | None = None,
    ) -> None:
        self._sessions = Sessions(
            loop,
            address,
            user,
            trace,
            causes=causes,
            principals=principals,
            credentials=credentials,
            filters=filters,
        )
        self._loop = loop
        self._turns = Turns(loop)
        self._last: Position | None = None

    @property
    def member(self) -> MemberId:
        """The identity of the present session, or of the last one."""
        return self._sessions.current.member

    @property
    def name(self) -> str:
        """The private name; the same in all sessions at one daemon."""
        return self.member.name

    @property
    def view(self) -> DaemonView | None:
        """The daemons' view that the events given last belong to."""
        return self._sessions.current.view

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of its groups, by name; of the last session while there is none."""
        return self._sessions.current.groups

    async def open(self, timeout_s: float) -> None:
        """Connect for the first time."""
        await self._sessions.open(timeout_s)

    async def aclose(self) -> None:
        """End the session, if there is one; no other follows."""
        await self._sessions.aclose()

    # ---- what programs do ----

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use: in this session from its next view on, and in later ones.

        Raises:
            LocalProtocolError: a bad name, or one twice.
        """
        filters = tuple(filters)
        before, self._sessions.filters = self._sessions.filters, filters
        try:
            with suppress(SessionEnded):  # then the next one has them
                self._sessions.current.set_filters(filters)
        except LocalProtocolError:
            self._sessions.filters = before
            raise

    async def join(self, group: str, *, secret: GroupSecret | None = None) -> None:
        """Become a member, in this session and those that follow.

        Args:
            group: its name.
            secret: see `Connection.join`.

        Raises:
            LocalProtocolError: a bad name, or it has joined already.
            AccessRefused: the rules of the daemon do not allow it.
            SessionEnded: no session follows.
        """
        known = group in self._sessions.groups
        session = self._sessions.current  # first: one that comes later joins the group, too
        if not known:
            self._sessions.keep(group, secret)
        while True:
            try:
                await session.join(group, secret=secret)
            except SessionEnded as error:
                session = await self._sessions.renew(session, error)
            except (LocalProtocolError, AccessRefused):
                if not known:
                    self._sessions.groups.pop(group, None)
                raise
            if group in session.groups:
                return

    async def leave(self, group: str) -> None:
        """Be a member no longer.

        Raises:
            LocalProtocolError: it has not joined.
            SessionEnded: no session follows.
        """
        self._sessions.groups.pop(group, None)
        session = self._sessions.current
        while True:
            try:
                return await session.leave(group)
            except SessionEnded as error:
                session = await self._sessions.renew(session, error)
                if group not in session.groups:
                    return None

    @asynccontextmanager
    async def group(self, name: str, *, secret: GroupSecret | None = None) -> AsyncIterator[None]:
        """Be a member for the length of a block."""
        await self.join(name, secret=secret)
        try:
            yield
        finally:
            if not self._sessions.closed:
                with suppress(LocalProtocolError):  # it had to leave already: the rules changed
                    await self._loop.in_spite(GOODBYE_S, lambda: self.leave(name))

    async def rekey(self, group: str) -> None:
        """Have the members of a group with a secret use another key; returns once it is in use.

        A new session gets a new key anyway.

        Raises:
            LocalProtocolError: the group was not joined with a secret.
            SessionEnded: no session follows.
        """
        session = self._sessions.current
        try:
            await session.rekey(group)
        except SessionEnded as error:
            await self._sessions.renew(session, error)

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

    @overload
    async def multicast(
        self, groups: str | Sequence[str], data: bytes, *, ordered: bool, **options: Any
    ) -> Ordered | None: ...

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
        session = self._sessions.current
        while True:
            try:
                return await session.multicast(groups, data, ordered=ordered, **options)
            except OrderUnknown:
                raise
            except SessionEnded as error:  # before the session took the message
                session = await self._sessions.renew(session, error)

    async def receive(self) -> Received | Reconnected:
        """The next event; between two sessions a `Reconnected`.

        Raises:
            SessionEnded: no session follows; its code is 0 after an orderly end.
        """
        while True:
            session = self._sessions.current  # first, for another thread may put a new one here
            if self._sessions.told:
                with suppress(IndexError):  # another thread may have been quicker
                    return self._given(self._sessions.told.popleft())
            try:
                return self._given(await session.receive())
            except SessionEnded as error:
                await self._sessions.renew(session, error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received | Reconnected:
        await self._turns.count()
        try:
            return await self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise

    def _given(self, event: Received | Reconnected) -> Received | Reconnected:
        """Note what a program gets."""
        if isinstance(event, Reconnected):
            return attrs.evolve(event, last=self._last)
        place = event.id if isinstance(event, GroupView) else getattr(event, "position", None)
        if place is not None and (self._last is None or place > self._last):
            self._last = place
        return event


@asynccontextmanager
async def stay_connected(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> AsyncIterator[StayingConnection]:
    """As `connect`, for the length of a block; a session that ends is replaced by a new one.

    The first session must be there in time; later ones are tried for until one is there, after
    0.05 s at first and 5 s at last. The new session is in the same groups, and an event of class
    `Reconnected` stands where something may be missing.

    Args:
        address, user, trace, causes, principals, ca, certificate, key, token, filters: see
            `connect`.
        timeout_s: seconds until the first session must be admitted.

    Raises:
        CannotConnect: there is no first session.
        SessionEnded: the daemon refuses it for good.
    """
    credentials = Credentials.of(ca, certificate, key, token)
    staying = StayingConnection(
        TrioLoop(),
        address,
        user,
        trace,
        causes=causes,
        principals=principals,
        filters=filters,
        credentials=credentials,
    )
    await staying.open(timeout_s)
    try:
        yield staying
    finally:
        await staying.aclose()
