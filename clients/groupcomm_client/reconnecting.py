"""A connection that opens another session when one ends, and reports possibly missed messages."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.errors import (
    AccessRefused,
    CannotConnect,
    Code,
    LocalProtocolError,
    OrderUnknown,
    SessionEnded,
)
from groupcomm.events import GroupView, Ordered
from groupcomm.session.bundler import in_parts
from groupcomm_client.connection import Connection, Destinations, Session
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Loop

if TYPE_CHECKING:
    from groupcomm_client.end_to_end.credentials import GroupSecret

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0

FOR_GOOD: Final = frozenset(
    (Code.OK, Code.REJECT_NAME, Code.REJECT_VERSION, Code.REJECT_AUTH, Code.ILLEGAL_MESSAGE)
)
"""Codes of ends that were requested, and of refusals that no further attempt changes."""

_Found = TypeVar("_Found")


class Opener(Protocol):
    """The opener of the sessions of one program."""

    async def __call__(
        self, filters: Sequence[Factory] | None, secrets: "dict[str, GroupSecret]"
    ) -> Session:
        """Return a session that was admitted.

        Args:
            filters: factories of its filters; None for the default ones.
            secrets: the secrets of the groups that were joined with one, by name; kept up to date.
        """


class ReconnectingConnection(Connection):
    """A connection across all sessions of its program; made by ``connect(reconnect=True)``.

    The calls are those of `Connection`. Between two sessions they wait for the next one; they raise
    SessionEnded only if no session follows. A message is passed to one session only, and is never
    sent a second time automatically.
    """

    def __init__(
        self,
        session: Session,
        loop: Loop,
        opener: Opener,
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
    ) -> None:
        """Take over the first session, which was admitted.

        Args:
            session: the first session.
            loop: the event loop of the program.
            opener: opens the other sessions.
            filters, secrets: those of the first session; see `Opener`.
        """
        super().__init__(session, loop)
        self._opener = opener
        self._filters = filters
        self._secrets = secrets
        self._groups: dict[str, None] = {}  # each later session joins them, in this order
        self._renewing = loop.lock()
        self._closed = False
        self._last: Position | None = None
        self._random = Random()

    # ---- groups ----

    async def join(self, group: str, *, secret: "GroupSecret | None" = None) -> GroupView:
        """Become a member, in this session and those that follow; see `Connection.join`."""
        known = group in self._groups
        session = self._session  # first, so that a later session also joins the group
        if not known:
            self._keep(group, secret)
        try:
            while True:
                try:
                    return await Connection(session, self.loop).join(group, secret=secret)
                except SessionEnded as error:
                    session = await self._renew(session, error)
                view = session.protocol.groups.get(group)
                if view is not None:
                    return view
        except (LocalProtocolError, AccessRefused):
            if not known:
                self._groups.pop(group, None)
            raise

    def _keep(self, group: str, secret: "GroupSecret | None") -> None:
        """Have later sessions join a group, with a secret or without one."""
        self._groups[group] = None
        if secret is None:
            self._secrets.pop(group, None)
        else:
            self._secrets[group] = secret

    async def leave(self, group: str) -> None:
        """End the membership in a group; see `Connection.leave`."""
        self._groups.pop(group, None)
        session = self._session
        while True:
            try:
                return await Connection(session, self.loop).leave(group)
            except SessionEnded as error:
                session = await self._renew(session, error)
                if group not in session.protocol.groups:
                    return None

    async def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave without waiting; see `Connection.request_membership`."""
        known = group in self._groups
        if join and not known:
            self._keep(group, None)
        elif not join:
            self._groups.pop(group, None)
        request = super().request_membership
        try:
            await self._retry(lambda: request(group, join=join))
        except LocalProtocolError:
            if not known:
                self._groups.pop(group, None)
            raise

    async def rekey(self, group: str) -> None:
        """Have the members of a group change its key; see `Connection.rekey`.

        A new session gets a new key anyway.
        """
        session = self._session
        try:
            await super().rekey(group)
        except SessionEnded as error:
            await self._renew(session, error)

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Use other filters: in this session from its next view on, and in later ones.

        Raises:
            LocalProtocolError: a name is invalid, or occurs twice.
        """
        filters = tuple(filters)
        before, self._filters = self._filters, filters
        try:
            with suppress(SessionEnded):  # the next session has the filters then
                super().set_filters(filters)
        except LocalProtocolError:
            self._filters = before
            raise

    # ---- messages ----

    async def multicast(self, groups: Destinations, data: bytes, **options: Any) -> None:
        """Send a message, once there is a session; see `Connection.multicast`.

        It is passed to one session only: if that one ends, `Reconnected.in_doubt` counts it.
        """
        while True:
            session = self._session
            try:
                return await super().multicast(groups, data, **options)
            except SessionEnded as error:  # before the session has accepted the message
                await self._renew(session, error)

    async def multicast_ordered(self, groups: Destinations, data: bytes, **options: Any) -> Ordered:
        """Send a message and return its place; see `Connection.multicast_ordered`.

        Raises:
            OrderUnknown: its session ended before its place was known.
        """
        while True:
            session = self._session
            try:
                return await super().multicast_ordered(groups, data, **options)
            except OrderUnknown:
                raise
            except SessionEnded as error:  # before the session has accepted the message
                await self._renew(session, error)

    async def multicast_many(
        self,
        groups: Destinations,
        messages: Iterable[bytes],
        **options: Any,
    ) -> int:
        """Send many messages, each in one session only; see `Connection.multicast_many`."""
        count = 0
        for part in in_parts(messages):
            count += await self._multicast_part(groups, part, **options)
        return count

    async def _multicast_part(
        self, groups: Destinations, part: Sequence[bytes], **options: Any
    ) -> int:
        while True:
            session = self._session
            try:
                return await super().multicast_many(groups, part, **options)
            except SessionEnded as error:  # before the session has accepted any message
                await self._renew(session, error)

    # ---- events ----

    async def receive(self, timeout_s: float | None = None) -> Received:
        """Return the next event; between two sessions a `Reconnected`. See `Connection.receive`."""
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive)
        while True:
            session = self._session
            try:
                return self._noted(await super().receive())
            except SessionEnded as error:
                await self._renew(session, error)

    async def receive_batch(self, timeout_s: float | None = None) -> list[Received]:
        """Return all events that have come; see `Connection.receive_batch`."""
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive_batch)
        while True:
            session = self._session
            try:
                return [self._noted(event) for event in await super().receive_batch()]
            except SessionEnded as error:
                await self._renew(session, error)

    def pop_waiting(self) -> list[Received]:
        """Return the events that were read and not received yet, without waiting."""
        return [self._noted(event) for event in super().pop_waiting()]

    def _noted(self, event: Received) -> Received:
        """Note the position of an event; return a `Reconnected` with the last position."""
        if isinstance(event, Reconnected):
            return attrs.evolve(event, last=self._last)
        place = event.id if isinstance(event, GroupView) else getattr(event, "position", None)
        if place is not None and (self._last is None or place > self._last):
            self._last = place
        return event

    async def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon about its status, once there is a session; see `Connection.ask`."""
        ask = super().ask
        return await self._retry(lambda: ask(question))

    async def _retry(self, call: Callable[[], Awaitable[_Found]]) -> _Found:
        """Repeat a call, in several sessions if necessary, until one of them has answered."""
        while True:
            session = self._session
            try:
                return await call()
            except SessionEnded as error:
                await self._renew(session, error)

    # ---- the end ----

    async def aclose(self) -> None:
        """End the session, if there is one; no other follows."""
        self._closed = True
        await super().aclose()

    def close_socket(self) -> None:
        """Break the connection off; no other session follows."""
        self._closed = True
        super().close_socket()

    def _check_open(self) -> None:
        """Raise SessionEnded if another task or thread of the program has closed the connection."""
        if self._closed:
            raise SessionEnded(Code.OK, "this program has closed the connection")

    # ---- the next session ----

    async def _renew(self, old: Session, why: SessionEnded) -> Session:
        """Replace the session `old`, unless that was done already; return the new one.

        Raises:
            SessionEnded: no further attempt can succeed.
        """
        async with self._renewing:
            if self._session is not old:
                return self._session
            if why.code in FOR_GOOD:
                raise why
            received = old.protocol.pop_events()
            await Connection(old, self.loop).aclose()
            filters = self._filters
            new = await self._open_until_admitted()
            received.append(
                Reconnected(
                    member=new.protocol.member,
                    why=str(why),
                    last=None,
                    in_doubt=old.protocol.in_doubt,
                )
            )
            new.protocol.put_before(received)
            self._session = new  # last, as other threads check this first
            if self._filters is not None and self._filters is not filters:
                with suppress(SessionEnded):  # the next session has the filters then
                    new.protocol.set_filters(self._filters)  # set on the old session meanwhile
            return new

    async def _open_until_admitted(self) -> Session:
        pause_s = FIRST_PAUSE_S
        while True:
            self._check_open()
            try:
                return await self._open_and_join()
            except (CannotConnect, SessionEnded) as error:
                if error.code in FOR_GOOD:
                    raise
            # A random share, so that the programs of a daemon do not all reconnect at once.
            await self.loop.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _open_and_join(self) -> Session:
        new = await self._opener(self._filters, self._secrets)
        try:
            for group in list(self._groups):
                try:
                    joining = Connection(new, self.loop)
                    await joining.join(group, secret=self._secrets.get(group))
                except AccessRefused:  # it may no longer join, as its events show
                    self._groups.pop(group, None)  # the program may have left it meanwhile
            self._check_open()
        except BaseException:
            new.stream.close()
            raise
        return new
