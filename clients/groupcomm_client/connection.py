"""A program's connection to its daemon; the same for trio and asyncio, which move its bytes.

Every call is safe to cancel: what has come is kept for the next one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal, Protocol, Self, overload

from groupcomm.errors import LocalProtocolError, SessionEnded
from groupcomm.events import GroupView, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.session.bundler import PART_BYTES, in_parts
from groupcomm.session.codes import Code
from groupcomm_client.conversation import Conversation, Ready, Received, read_answer
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.facts import Facts
from groupcomm_client.filters.factories import Factory

GOODBYE_S: Final = 2.0
"""How long the end of a connection waits for the daemon's answer."""

TURNS: Final = 64
"""After so many calls that had nothing to wait for, other tasks get their turn."""


class Stream(Protocol):
    """The bytes of one conversation; each event loop has its own."""

    async def exchange(self, ready: Ready) -> None:
        """Write all that waits, then read until something is so."""

    async def until(self, ready: Ready) -> None:
        """Read until something is so; raises SessionEnded if nothing follows."""

    async def flush(self) -> None:
        """Write all that waits; what is left when that is cancelled is written all the same."""

    def write_soon(self) -> None:
        """Write what waits: at once, or with what else this task sends before it waits."""

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""


class Tasks(Protocol):
    """What a connection needs of its event loop; part of `groupcomm_client.loops.Loop`."""

    async def checkpoint(self) -> None:
        """Let other tasks run."""

    async def in_spite(self, seconds: float, step: Callable[[], Awaitable[object]]) -> None:
        """Do something for so long at most, also in a task that is being cancelled."""


class Turns:
    """Lets other tasks run now and then, though there is nothing to wait for."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._calls = 0

    async def count(self) -> None:
        """One more call that may have nothing to wait for."""
        self._calls += 1
        if self._calls % TURNS == 0:
            await self._tasks.checkpoint()


class Connection(Facts):
    """One session; made by `connect`."""

    def __init__(self, stream: Stream, conversation: Conversation, tasks: Tasks) -> None:
        """Take over a conversation in which nothing has been said yet."""
        self.conversation = conversation
        self._stream = stream
        self._tasks = tasks
        self._turns = Turns(tasks)

    async def greet(self) -> None:
        """Say hello, and wait until the daemon admits this session.

        Raises:
            SessionEnded: it does not.
        """
        await self._stream.exchange(self.conversation.greet())

    # ---- groups ----

    async def join(self, group: str, *, secret: GroupSecret | None = None) -> GroupView:
        """Become a member; return the first view, which also comes as an event.

        Args:
            group: its name.
            secret: shared by the members' programs, who then read what no daemon can; all must
                join with it. See docs/end-to-end.md.

        Raises:
            LocalProtocolError: a bad name, or it has joined already.
            AccessRefused: the rules of the daemon, or a quota, do not allow it.
            SessionEnded: the session is over.
        """
        answer = self.conversation.join(group, secret)
        await self._stream.exchange(answer.has_come)
        return answer.come

    async def leave(self, group: str) -> None:
        """Be a member no longer; what was delivered before still comes as events.

        Raises:
            LocalProtocolError: it has not joined.
            SessionEnded: the session is over.
        """
        await self._stream.exchange(self.conversation.leave(group).has_come)

    @asynccontextmanager
    async def group(
        self, name: str, *, secret: GroupSecret | None = None
    ) -> AsyncIterator[GroupView]:
        """Be a member of a group for the length of a block; gives the first view."""
        view = await self.join(name, secret=secret)
        try:
            yield view
        finally:
            # Whose session is over, or who had to leave as the rules changed, is no member.
            with suppress(SessionEnded, LocalProtocolError):
                await self._tasks.in_spite(GOODBYE_S, lambda: self.leave(name))

    async def rekey(self, group: str) -> None:
        """Have the members of a group with a secret use another key; returns once it is in use.

        Raises:
            LocalProtocolError: the group was not joined with a secret.
            SessionEnded: the session is over.
        """
        await self._stream.exchange(self.conversation.rekey(group))

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use from the next view on that the session is told of.

        What others still send through the filters of before is undone by those; see
        docs/filters.md.

        Raises:
            LocalProtocolError: a bad name, or one twice.
            SessionEnded: the session is over.
        """
        self.conversation.set_filters(filters)

    # ---- messages ----

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: Literal[False] = ...,
    ) -> None: ...

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: Literal[True],
    ) -> Ordered: ...

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: bool,
    ) -> Ordered | None: ...

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
    ) -> Ordered | None:
        """Send a message; it waits while the daemon takes no more, or the group has no key.

        A message goes out at once. What is sent right after it, before this task waits for
        something, goes out together then.

        Args:
            groups: the destination, or up to 255 of them: groups and private names.
            data: up to 64 MiB.
            level: what it is promised.
            type: a tag for the receivers, 0 to 65,535.
            self_discard: the sender does not get it, member or not.
            ordered: wait for its place in the agreed order and return it; AGREED and SAFE only.

        Raises:
            LocalProtocolError: an argument is out of its range; nothing was sent.
            SessionEnded: the session is over.
            OrderUnknown: it ended before the place was known: the message may have been
                delivered, or not.
            AccessRefused: with `ordered`, the rules of the daemon do not allow it; without, an
                event of class Refused tells.
        """
        await self._admit(groups)
        number = self.conversation.send(
            groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
        )
        if not ordered:
            if self.conversation.pending_bytes < PART_BYTES:
                self._stream.write_soon()
            else:
                await self._stream.flush()
            return None
        with self.conversation.order_of(number) as order:
            await self._stream.exchange(order.has_come)
            return order.come

    async def multicast_many(
        self,
        groups: str | Sequence[str],
        messages: Iterable[bytes],
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> int:
        """Send many messages, several in one packet where they are small; return how many.

        When it is cancelled or fails, the messages taken so far are sent, and no others.
        """
        await self._admit(groups)
        count = 0
        try:
            for part in in_parts(messages):
                if count:
                    await self._stream.flush()
                    await self._tasks.checkpoint()
                    await self._until_it_may_go(groups)
                self.conversation.send_many(
                    groups, part, level=level, type=type, self_discard=self_discard
                )
                count += len(part)
        finally:
            await self._stream.flush()
        return count

    # ---- events ----

    async def receive(self) -> Received:
        """The next event.

        Raises:
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        await self._stream.until(self._has_events)
        return self.conversation.take_event()

    async def receive_batch(self) -> list[Received]:
        """All events that are there, at least one; cheaper than one by one.

        Raises:
            SessionEnded: nothing follows.
        """
        await self._stream.until(self._has_events)
        return self.conversation.take_events()

    def take_waiting(self) -> list[Received]:
        """The events that have been read and not been taken, without waiting for any."""
        return self.conversation.take_events()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        await self._turns.count()
        try:
            return await self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise

    async def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon about itself: ``status``, ``groups``, ``members GROUP``,
        or ``configuration``.

        Raises:
            AccessRefused: the daemon's rules do not allow it.
            SessionEnded: the session is over.
        """
        answer = self.conversation.ask(question)
        await self._stream.exchange(answer.has_come)
        return read_answer(answer.come)

    # ---- the end ----

    async def aclose(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, close the socket."""
        if self.conversation.say_goodbye():
            with suppress(SessionEnded):  # that is what is asked for
                await self._tasks.in_spite(GOODBYE_S, self._until_the_end)
        self.close_socket()

    async def _until_the_end(self) -> None:
        await self._stream.exchange(lambda: False)

    def close_socket(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        self._stream.close()

    # ---- inside ----

    def _has_events(self) -> bool:
        return bool(self.conversation.events)

    async def _admit(self, groups: str | Sequence[str]) -> None:
        """Before a message: the session is open, others get their turn, the daemon takes more,
        and the group has a key if it has a secret.
        """
        await self._turns.count()
        self.conversation.check_open()
        if self.conversation.pending_bytes >= PART_BYTES:
            await self._stream.flush()
        await self._until_it_may_go(groups)

    async def _until_it_may_go(self, groups: str | Sequence[str]) -> None:
        while not self.conversation.may_send(groups):
            await self._stream.exchange(lambda: self.conversation.may_send(groups))
