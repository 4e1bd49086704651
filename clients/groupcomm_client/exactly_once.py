"""Connections whose messages come exactly once: what they send is one line over all sessions.

docs/exactly-once.md has what is promised, and how it works.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

from groupcomm.errors import (
    CannotConnect,
    Code,
    InDoubt,
    LocalProtocolError,
    OrderUnknown,
    SessionEnded,
)
from groupcomm.events import DaemonView, GroupView, Ordered
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.bundler import in_parts
from groupcomm.session.client_session import Minority
from groupcomm_client.basic_connection import (
    BasicConnection,
    Destinations,
    Session,
    bad_argument,
    names_of,
)
from groupcomm_client.events import Reconnected
from groupcomm_client.filters.factories import Factory
from groupcomm_client.filters.roles import Outgoing
from groupcomm_client.history.resuming import ResumingConnection
from groupcomm_client.line import Line, Sent
from groupcomm_client.outbox import StoredLine
from groupcomm_client.reconnecting import ReconnectingConnection

if TYPE_CHECKING:
    from groupcomm_client.end_to_end.credentials import GroupSecret

CLOSE_S: Final = 10.0
"""The time in which all that was sent must be accepted at the end of a connection."""

STORE_S: Final = 86_400.0
"""The time for which a call waits for the disk of an outbox, whatever happens to its task."""

ALONE: Final = (
    "a connection with exactly_once is for messages of the program alone, as it may send in another"
    " session what was meant for this one: open another connection for that"
)


class OnceMixin(ReconnectingConnection):
    """What a connection does for its line; the rest is that of its other class."""

    _line: Line
    _lost: InDoubt | None = None  # the line cannot go on in any session
    _why = "no daemon has answered"  # the latest reason why no session was opened

    async def begin_line(self, line: Line, timeout_s: float) -> None:
        """Go on with the line in the first session, or in another one that can.

        Raises:
            CannotConnect: no daemon lets it go on within `timeout_s`.
            InDoubt: messages of its outbox may have been delivered or not.
        """
        self._line = line
        self._posting = self.loop.lock()  # numbers are stored before they are sent

        async def begin() -> None:
            try:
                await self._go_on(self._session)
            except InDoubt:
                raise
            except (CannotConnect, SessionEnded) as error:
                self._refused(error)
                await BasicConnection(self._session, self.loop).aclose()
                self._session = await self._open_until_admitted()

        began = False
        try:
            began = await self.loop.timeout(timeout_s, begin)
        finally:
            if not began:
                self.close_socket()
        if not began:
            raise CannotConnect(f"no daemon delivers exactly once: {self._why}")

    async def _go_on(self, new: Session) -> None:
        """Go on with the line in a session that was admitted.

        Raises:
            CannotConnect: its daemon cannot.
            InDoubt: no daemon can.
            SessionEnded: the session is over.
        """
        protocol, daemon = new.protocol, new.protocol.member.daemon
        views = [event for event in protocol.events if isinstance(event, DaemonView)]
        if views and not views[-1].majority:
            raise CannotConnect(
                f"daemon {daemon} is in no majority of daemons, and only a majority delivers"
                " exactly once"
            )
        line = protocol.go_on_with(self._line)
        if line is None:
            raise CannotConnect(
                f"daemon {daemon} is of an earlier release, which cannot deliver exactly once:"
                " upgrade all daemons first"
            )
        await new.stream.exchange(line.is_decided)
        if line.lost is not None:
            self._lost = line.lost
            raise self._lost
        await new.stream.flush()

    def _refused(self, why: CannotConnect | SessionEnded) -> None:
        self._why = str(why)
        self._opener.leave_present()  # others may have a majority

    async def _is_final(self, end: CannotConnect | SessionEnded) -> bool:
        return isinstance(end, InDoubt) or await super()._is_final(end)

    def _check_open(self) -> None:
        if self._lost is not None:
            raise self._lost
        super()._check_open()

    def _reconnected(self, old: Session, new: Session, why: SessionEnded) -> Reconnected:
        return attrs.evolve(super()._reconnected(old, new, why), in_doubt=0)

    async def _renew(self, old: Session, why: SessionEnded) -> Session:
        new = await super()._renew(old, why)
        if new.protocol.line is not None:
            new.protocol.line.post(self._line.kept)  # what was stored meanwhile
        return new

    @property
    def in_doubt(self) -> int:
        """Return how many messages may have been delivered or not: 0 unless calls raise InDoubt."""
        return 0 if self._lost is None else self._lost.messages

    # ---- what it is not for ----

    def present_session(self) -> NoReturn:
        """Raise LocalProtocolError: coordination and the like need a connection of their own."""
        raise LocalProtocolError(ALONE)

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Raise LocalProtocolError: what one session has filtered may be sent in another."""
        raise LocalProtocolError("a connection with exactly_once has no filters")

    # ---- groups ----

    async def join(
        self,
        group: str,
        *,
        secret: "GroupSecret | None" = None,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> GroupView:
        """Become a member; see `Connection.join`."""
        if secret is not None:
            raise LocalProtocolError(
                f"{group} cannot have a secret on a connection with exactly_once, as a message that"
                " was sealed in one session may be sent in another: use another connection"
            )
        async with self._posting:
            return await super().join(group, views=views, minority=minority)

    async def leave(self, group: str) -> None:
        """End the membership in a group; see `Connection.leave`."""
        async with self._posting:
            await super().leave(group)

    async def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave without waiting; see `Connection.request_membership`."""
        async with self._posting:
            await super().request_membership(group, join=join)

    # ---- messages ----

    async def multicast(self, groups: Destinations, data: bytes, **options: Any) -> None:
        """Send a message once; see `Connection.multicast`."""
        if self._stores(options):
            await self._post(groups, [data], **options)
            return
        await self._attend_with_room()
        await super().multicast(groups, data, **options)

    async def multicast_ordered(self, groups: Destinations, data: bytes, **options: Any) -> Ordered:
        """Send a message once, and return its place; see `Connection.multicast_ordered`.

        Raises:
            OrderUnknown: it was delivered, and its session ended before its place was told.
        """
        if self._stores(options):
            return await self._order_of(await self._post(groups, [data], ordered=True, **options))
        await self._attend_with_room()
        try:
            return await super().multicast_ordered(groups, data, **options)
        except OrderUnknown as error:
            if error.number is None:
                raise
            return await self._order_of(error.number)

    async def multicast_many(
        self, groups: Destinations, messages: Iterable[bytes], **options: Any
    ) -> int:
        """Send many messages, each once; see `Connection.multicast_many`."""
        count = 0
        for part in in_parts(messages):
            if self._stores(options):
                await self._post(groups, part, **options)
            else:
                await self._attend_with_room()
                await super().multicast_many(groups, part, **options)
            count += len(part)
        return count

    async def _attend_with_room(self) -> Session:
        while True:
            session = await self._attend()
            line = session.protocol.line
            try:
                if line is not None and not self._line.has_room:
                    await session.stream.exchange(line.has_room)
                session.protocol.check_sending()
                return session
            except SessionEnded as error:
                await self._renew(session, error)

    async def _order_of(self, number: int) -> Ordered:
        """Return the place of a message of the line, in several sessions if necessary."""
        session = self._session
        while True:
            protocol, closed = session.protocol, session.protocol.closed
            order = None if protocol.line is None else protocol.line.order(number)
            if order is not None:
                try:
                    await session.stream.exchange(order.is_there)
                    return order.result()
                except SessionEnded as error:
                    why = error
                finally:
                    protocol.forget_order(order)
            elif closed is None:
                text = "the message was delivered once; its session ended before its place was told"
                raise OrderUnknown(Code.CONNECTION_CLOSED, text, number)
            else:
                why = SessionEnded(closed.code, closed.reason)
            session = await self._renew(session, why)

    # ---- an outbox ----

    def _stores(self, options: Mapping[str, Any]) -> bool:
        """Return whether a message with these options is stored before it is sent."""
        unreliable = options.get("level") == ServiceLevel.UNRELIABLE
        return isinstance(self._line, StoredLine) and not unreliable

    async def _post(
        self,
        groups: Destinations,
        messages: Sequence[bytes],
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
    ) -> int:
        """Store messages, and send them, in this session or the next one; return the last number.

        Raises:
            LocalProtocolError: one cannot be sent; none was stored.
            OutboxFailed: they cannot be stored, and were not sent.
        """
        line, names = self._line, (groups,) if isinstance(groups, str) else names_of(groups)
        assert isinstance(line, StoredLine)
        level = ServiceLevel.FIFO if level == ServiceLevel.RELIABLE else level
        async with self._posting:
            in_session = (await self._attend_with_room()).protocol.line
            assert in_session is not None
            number, kept = 0, list[Sent]()
            for data in messages:
                message = Outgoing(groups=names, data=data, level=level, type=type, ordered=ordered)
                try:
                    number = max(in_session.check(message), number + 1)
                except TypeError as error:
                    raise bad_argument(error, data, level, type) from error
                options = (LEVELS[level], type, self_discard, ordered)
                kept.append(Sent(number, names, bytes(data), *options))

            async def store() -> None:
                await self.loop.from_disk(partial(line.outbox.store, line, kept))
                for sent in kept:
                    line.add(sent)
                if (present := self._session.protocol.line) is not None:
                    present.post(kept)

            # A call that is cancelled meanwhile has stored its messages, and so they are sent.
            await self.loop.shielded(STORE_S, store)
            await self._session.stream.flush()
        return number

    # ---- the end ----

    async def aclose(self) -> None:
        """Wait until all that was sent is accepted, and end the connection in order.

        Raises:
            InDoubt: that has not come about in CLOSE_S.
        """
        line, stored = self._line, isinstance(self._line, StoredLine)
        try:
            if not self._closed and self._lost is None:
                await self.loop.timeout(CLOSE_S, self.flush)
        finally:
            in_session = self._session.protocol.line
            if in_session is not None and not line.kept and not stored:
                with suppress(LocalProtocolError):
                    in_session.give_up()
            await super().aclose()
            if isinstance(line, StoredLine):
                await self.loop.from_disk(partial(line.outbox.finish, line))
        if line.kept and self._lost is None and not stored:
            self._lost = InDoubt(len(line.kept), f"not accepted within {CLOSE_S:g} s of the end")
            raise self._lost

    def close_socket(self) -> None:
        """Break the connection off; what has no answer may be lost, unless an outbox has it."""
        super().close_socket()
        if isinstance(self._line, StoredLine):
            self._line.outbox.close()


class OnceConnection(OnceMixin, ReconnectingConnection):
    """A connection whose messages come exactly once; made by ``connect(exactly_once=True)``."""


class OnceResumingConnection(OnceMixin, ResumingConnection):
    """The same that also resumes."""
