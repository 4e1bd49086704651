"""A connection that opens another session when one ends, and reports possibly missed messages.

If a daemon is about to stop, the connection moves: it opens a session at another daemon, sends no
more in the old one, waits for the answers to its requests, says goodbye, and receives everything up
to the end of the old session. Only then it joins its groups in the new one. Each step can be
cancelled; the next call continues with the step after it. docs/client.md has what this promises.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
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
from groupcomm.events import DaemonStopping, GroupView, Ordered
from groupcomm.session.bundler import in_parts
from groupcomm.session.client_session import Minority
from groupcomm_client.basic_connection import BasicConnection, Destinations, Session
from groupcomm_client.connection import Connection
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

LOOK_S: Final = 0.25
"""A program that only sends looks this often whether its daemon is about to stop."""

MOVE_S: Final = 3.0
"""The time that an attempt to open a session at another daemon may take while the old one lasts."""

PART_S: Final = 10.0
"""The time in which an old session must end in order; then it is broken off."""

_PARTED: Final = SessionEnded(Code.CONNECTION_CLOSED, "this program moves to another daemon")

_Found = TypeVar("_Found")


class Opener(Protocol):
    """The opener of the sessions of one program.

    Filters are factories of filters, None for the default ones; secrets are those of the groups
    that were joined with one, by name, and are kept up to date.
    """

    async def open(
        self, filters: Sequence[Factory] | None, secrets: "dict[str, GroupSecret]"
    ) -> Session:
        """Return a session that was admitted.

        Raises:
            CannotConnect, SessionEnded: no daemon admits it.
        """

    def leave_present(self) -> None:
        """Try the address of the last session after all others, as its daemon was silent."""

    async def has_new_credentials(self) -> bool:
        """Return whether token or certificate are not those of the latest attempt any more."""

    def has_others(self, notice: DaemonStopping) -> bool:
        """Return whether there are addresses besides that of the present session."""

    async def open_elsewhere(
        self,
        notice: DaemonStopping,
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
    ) -> Session:
        """Return a session that was admitted at another address than the present one.

        Raises:
            CannotConnect, SessionEnded: no daemon admits it.
        """


def _needs_quorum(joined: tuple[str, tuple[bool, Minority]]) -> bool:
    return joined[1][1] != "deliver"


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
        # Each later session joins these groups, in this order, with views or without.
        self._groups: dict[str, tuple[bool, Minority]] = {}
        self._renewing = loop.lock()
        self._next: Session | None = None  # at another daemon, admitted while the old one parts
        self._opened_with = filters  # the filters of the session that was opened last
        self._look_at = self._try_at = 0.0  # by time.monotonic
        self._pause_s = FIRST_PAUSE_S
        self._closed = False
        self._last: Position | None = None
        self._random = Random()

    # ---- sessions, for coordination ----

    def present_session(self) -> BasicConnection:
        """Return a connection that is over when the present session is."""
        return BasicConnection(self._session, self.loop)

    async def next_session(self, ended: BasicConnection, why: SessionEnded) -> BasicConnection:
        """Return the connection of the session after one that has ended.

        Its first events may be some of earlier sessions, up to a `Reconnected`.

        Raises:
            SessionEnded: no further session can follow.
        """
        self._check_open()
        session = self._session
        if session.protocol is ended.protocol:
            session = await self._renew(session, why)
        return BasicConnection(session, self.loop)

    async def receive_of(
        self, session: BasicConnection, may_move: Callable[[], bool]
    ) -> list[Received]:
        """Return the events of one session, or leave it; see `Connection.receive_of`."""
        while True:
            present = self._session
            if present.protocol is not session.protocol:
                raise SessionEnded(_PARTED.code, str(_PARTED))
            wait_s = None
            if present.protocol.stopping is not None and not present.protocol.has_events():
                wait_s = self._retry_in_s(present)
            if wait_s is None:
                return await session.receive_batch()
            if wait_s == 0.0 and may_move():
                await self._follow(present)
                continue
            with suppress(TimeoutError):
                return await session.receive_batch(timeout_s=LOOK_S)

    # ---- groups ----

    async def join(
        self,
        group: str,
        *,
        secret: "GroupSecret | None" = None,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> GroupView:
        """Become a member, in this session and those that follow; see `Connection.join`."""
        await self._attend()
        known = group in self._groups
        session = self._session  # first, so that a later session also joins the group
        if not known:
            self._keep(group, secret, views=views, minority=minority)
        try:
            while True:
                try:
                    present = BasicConnection(session, self.loop)
                    return await present.join(group, secret=secret, views=views, minority=minority)
                except SessionEnded as error:
                    session = await self._renew(session, error)
                view = session.protocol.groups.get(group)
                if view is not None:
                    return view
        except (LocalProtocolError, AccessRefused):
            if not known:
                self._groups.pop(group, None)
            raise

    def _keep(
        self,
        group: str,
        secret: "GroupSecret | None" = None,
        *,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> None:
        """Have later sessions join a group, with a secret or without one."""
        self._groups[group] = (views, minority)
        if secret is None:
            self._secrets.pop(group, None)
        else:
            self._secrets[group] = secret

    async def leave(self, group: str) -> None:
        """End the membership in a group; see `Connection.leave`."""
        await self._attend()
        self._groups.pop(group, None)
        session = self._session
        while True:
            try:
                return await BasicConnection(session, self.loop).leave(group)
            except SessionEnded as error:
                session = await self._renew(session, error)
                if group not in session.protocol.groups:
                    return None

    async def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave without waiting; see `Connection.request_membership`."""
        known = group in self._groups
        if join and not known:
            self._keep(group)
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
            session = await self._attend()
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
            session = await self._attend()
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
            session = await self._attend()
            try:
                return await super().multicast_many(groups, part, **options)
            except SessionEnded as error:  # before the session has accepted any message
                await self._renew(session, error)

    async def flush(self) -> None:
        """Wait until all that was sent is accepted, in several sessions if necessary."""
        await self._retry(super().flush)

    # ---- events ----

    async def receive(self, timeout_s: float | None = None) -> Received:
        """Return the next event; between two sessions a `Reconnected`. See `Connection.receive`."""
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive)
        return self._noted(await self._receive(super().receive))

    async def receive_batch(self, timeout_s: float | None = None) -> list[Received]:
        """Return all events that have come; see `Connection.receive_batch`."""
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive_batch)
        return [self._noted(event) for event in await self._receive(super().receive_batch)]

    async def _receive(self, call: Callable[[], Coroutine[Any, Any, _Found]]) -> _Found:
        """Receive by a call, in several sessions if necessary."""
        while True:
            session = self._session
            protocol = session.protocol
            retry_s = None
            if protocol.stopping is not None and not (
                protocol.is_parting and protocol.has_events()
            ):
                session = await self._follow(session)
                retry_s = self._retry_in_s(session)
            try:
                if retry_s is None:
                    return await call()
                with suppress(TimeoutError):
                    return await self.in_time(retry_s, call)
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
            session = await self._attend()
            try:
                return await call()
            except SessionEnded as error:
                await self._renew(session, error)

    # ---- the end ----

    async def aclose(self) -> None:
        """End the session, if there is one; no other follows."""
        self._closed = True
        self._close_next()
        await super().aclose()

    def close_socket(self) -> None:
        """Break the connection off; no other session follows."""
        self._closed = True
        self._close_next()
        super().close_socket()

    def _close_next(self) -> None:
        opened, self._next = self._next, None
        if opened is not None:
            opened.stream.close()

    def _check_open(self) -> None:
        """Raise SessionEnded if another task or thread of the program has closed the connection."""
        if self._closed:
            raise SessionEnded(Code.OK, "this program has closed the connection")

    # ---- the move to another daemon ----

    async def _attend(self) -> Session:
        """Move if the daemon is about to stop; return the session for the next request."""
        session = self._session
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self.read_ready()
        if session.protocol.stopping is None:
            return session
        return await self._follow(session)

    async def _follow(self, session: Session) -> Session:
        """Move away from a session whose daemon is about to stop, if another daemon admits one.

        Returns:
            The session to use: the same one if there is no other daemon yet.
        """
        if not session.protocol.is_parting and not await self._open_elsewhere(session):
            return self._session
        return await self._renew(session, _PARTED)

    def _retry_in_s(self, session: Session) -> float | None:
        """Return the seconds until the next attempt to move; None if there is none."""
        notice = session.protocol.stopping
        if notice is None or not self._opener.has_others(notice):
            return None
        return max(0.0, self._try_at - time.monotonic())

    async def _open_elsewhere(self, old: Session) -> bool:
        """Open a session at another daemon; return whether the program may leave the old one."""
        notice = old.protocol.stopping
        assert notice is not None, "its daemon is about to stop"
        if time.monotonic() < self._try_at or not self._opener.has_others(notice):
            return False
        opened: list[Session] = []

        async def open_one() -> None:
            self._opened_with = self._filters
            opened.append(await self._opener.open_elsewhere(notice, self._filters, self._secrets))

        async with self._renewing:
            if self._session is not old or old.protocol.is_parting:
                return True
            self._check_open()
            self._try_at = time.monotonic() + self._next_pause_s()
            with suppress(CannotConnect, SessionEnded):
                await self.loop.timeout(MOVE_S, open_one)
            if not opened:
                return False
            self._next = opened[0]
            old.protocol.stop_sending()
            return True

    def _next_pause_s(self) -> float:
        """Return the pause after an attempt; it doubles up to LONGEST_PAUSE_S."""
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        # A random share, so that the programs of a daemon do not all reconnect at once.
        return pause_s * self._random.uniform(0.5, 1.0)

    async def _part(self, old: Session) -> None:
        """Wait until the requests of a session are answered, then end it, and read all of it."""
        protocol, stream = old.protocol, old.stream

        async def until_the_end() -> None:
            if protocol.is_open:  # else an earlier call has said goodbye
                await stream.exchange(protocol.is_quiet)
                protocol.say_goodbye()
            await stream.exchange(lambda: False)

        with suppress(SessionEnded):  # the end of the session is the purpose
            await self.loop.timeout(PART_S, until_the_end)

    # ---- the next session ----

    async def _renew(self, old: Session, why: SessionEnded) -> Session:
        """Replace the session `old`, unless that was done already; return the new one.

        Raises:
            SessionEnded: no further attempt can succeed.
        """
        async with self._renewing:
            if self._session is not old:
                return self._session
            parting = old.protocol.is_parting
            if parting:
                await self._part(old)
            elif await self._is_final(why):
                raise why
            await BasicConnection(old, self.loop).aclose()
            if old.protocol.was_silent:
                self._opener.leave_present()
            new = await self._open_next()
            received = old.protocol.pop_events()  # last, so that a cancelled call loses none
            received.append(self._reconnected(old, new, why))
            new.protocol.put_before(received)
            self._session = new  # last, as other threads check this first
            self._pause_s, self._try_at = FIRST_PAUSE_S, 0.0
            if self._filters is not None and self._filters is not self._opened_with:
                with suppress(SessionEnded):  # the next session has the filters then
                    new.protocol.set_filters(self._filters)  # set on the old session meanwhile
            return new

    def _reconnected(self, old: Session, new: Session, why: SessionEnded) -> Reconnected:
        """Return the event that stands between two sessions."""
        closed, reason, moved = old.protocol.closed, str(why), False
        if old.protocol.is_parting and closed is not None:
            moved = closed.code == Code.OK
            daemon = old.protocol.member.daemon
            reason = f"daemon {daemon} is about to stop" if moved else closed.reason
        return Reconnected(
            member=new.protocol.member,
            why=reason,
            last=None,
            in_doubt=old.protocol.in_doubt,
            moved=moved,
        )

    async def _open_next(self) -> Session:
        """Return the next session, in all groups: one that was admitted already, or another."""
        opened, self._next = self._next, None
        if opened is not None:
            with suppress(CannotConnect, SessionEnded):  # it has ended meanwhile
                return await self._join_groups(opened)
        return await self._open_until_admitted()

    async def _open_until_admitted(self) -> Session:
        pause_s = FIRST_PAUSE_S
        while True:
            self._check_open()
            try:
                self._opened_with = self._filters
                opened = await self._opener.open(self._filters, self._secrets)
                return await self._join_groups(opened)
            except (CannotConnect, SessionEnded) as error:
                if await self._is_final(error):
                    raise
                self._refused(error)
            # A random share, so that the programs of a daemon do not all reconnect at once.
            await self.loop.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _refused(self, why: CannotConnect | SessionEnded) -> None:
        """Note why an attempt to open a session was in vain."""

    async def _is_final(self, end: CannotConnect | SessionEnded) -> bool:
        """Return whether no further attempt can succeed."""
        if end.code == Code.REJECT_AUTH and await self._opener.has_new_credentials():
            return False
        return end.code in FOR_GOOD

    async def _join_groups(self, new: Session) -> Session:
        """Join all groups in a session that was admitted; close it if that fails.

        Joins that need a quorum come last, and are not waited for where there is none.
        """
        try:
            for group, (views, minority) in sorted(self._groups.items(), key=_needs_quorum):
                secret = self._secrets.get(group)
                if minority != "deliver" and new.protocol.lacks_quorum:
                    new.protocol.join(group, secret, views=views, minority=minority)
                    await new.stream.flush()
                    continue
                try:
                    joining = BasicConnection(new, self.loop)
                    await joining.join(group, secret=secret, views=views, minority=minority)
                except AccessRefused:  # it may no longer join, as its events show
                    self._groups.pop(group, None)  # the program may have left it meanwhile
            await self._go_on(new)
            self._check_open()
        except BaseException:
            new.stream.close()
            raise
        return new

    async def _go_on(self, new: Session) -> None:
        """Do what the next session needs, once it is in all groups."""
