"""One session of a chat: messages sent, events shown, and own messages that have not come back."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import trio

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.visible import visible
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from groupcomm_tools.event_text import print_event


def show(event: Received, *, as_json: bool) -> None:
    """Print an event as a sentence, or as one line of JSON."""
    if as_json or not isinstance(event, Message):
        print_event(event, as_json=as_json)
        return
    where = f"{', '.join(event.groups)} {event.level.name}"
    print(f"[{where}] {event.sender.name}: {readable(event.data)}", flush=True)


def readable(data: bytes) -> str:
    """Return data as text that does nothing to a terminal but appear on it.

    Bytes that are not UTF-8, and invisible characters, are shown as escapes; further lines are
    indented.
    """
    text = data.decode(errors="backslashreplace")
    return visible(text, kept="\n\t").replace("\n", "\n    ")


_UNRELIABLE: Final = ServiceLevel.UNRELIABLE

LOST_AFTER_S: Final = 1.0
"""Seconds after all other own messages, after which an UNRELIABLE message counts as lost."""


class ChatSession:
    """The messages and events of one connection, for a person or a script.

    Args:
        connection: an open connection.
        level: level of all messages.
        show: is called with each event, in order.

    Attributes:
        group: destination of messages that name no group; empty if there is none.
    """

    def __init__(
        self, connection: Connection, *, level: ServiceLevel, show: Callable[[Received], None]
    ) -> None:
        self.connection = connection
        self.group = ""
        self._level = level
        self._show = show
        self._owed: Counter[ServiceLevel] = Counter()  # own messages that will come back
        self._came_back = trio.Event()
        self._reads = trio.Event()
        self._reading = trio.CancelScope()
        self.read()

    # ---- groups ----

    async def join(self, group: str) -> None:
        """Become a member, unless it is one already, and send to this group from now on.

        Raises:
            LocalProtocolError: a bad name.
        """
        if group not in self.connection.groups:
            await self.connection.join(group)
        self.group = group

    async def leave(self, group: str) -> None:
        """Leave a group; then send to another group of which it is a member, if there is one.

        Raises:
            LocalProtocolError: it has not joined.
        """
        await self.connection.leave(group)
        if self.group == group:
            self.group = next(reversed(self.connection.groups), "")

    # ---- out ----

    async def send(self, messages: Sequence[bytes], groups: Sequence[str] = ()) -> None:
        """Send messages.

        Args:
            messages: the messages, at most 64 MiB each.
            groups: the names of groups, or private names; empty for the current group.

        Raises:
            LocalProtocolError: there is no current group, a name is invalid, or a message is too
                long.
        """
        targets = groups or ([self.group] if self.group else [])
        if not targets:
            raise LocalProtocolError("there is no current group; join one first")
        known = (*self.connection.groups, self.connection.name)
        sent = await self.connection.multicast_many(targets, messages, level=self._level)
        if any(target in known for target in targets):
            self._owed[self._level] += sent

    # ---- in ----

    def read(self) -> None:
        """Have `listen` show events from now on, as they come."""
        self._reads.set()

    def pause(self) -> None:
        """Show nothing from now on: events wait, in the end at the daemon."""
        if self._reads.is_set():
            self._reads = trio.Event()
            self._reading.cancel()

    @property
    def paused(self) -> bool:
        """Return whether nothing is shown."""
        return not self._reads.is_set()

    async def listen(self) -> None:
        """Show events until the session ends."""
        while True:
            while self.paused:
                await self._reads.wait()
            with trio.CancelScope() as self._reading:
                while True:
                    await self.receive()

    async def receive(self) -> None:
        """Show the next event.

        Raises:
            SessionEnded: nothing follows.
        """
        event = await self.connection.receive()
        if isinstance(event, Message) and event.sender == self.connection.member:
            self._owed[event.level] -= 1
            self._came_back.set()
        self._show(event)

    async def waiting(self) -> int:
        """Return the number of received events that were not shown."""
        await self.connection.ask("status")  # all events before the answer have been read with it
        return len(self.connection.protocol.events)

    # ---- the end ----

    async def finish(self) -> int:
        """Wait until all own messages have come back; return the number of lost UNRELIABLE ones."""
        self.read()
        while any(count > 0 for level, count in self._owed.items() if level > _UNRELIABLE):
            await self._next_back()
        with trio.move_on_after(LOST_AFTER_S):
            while self._owed[_UNRELIABLE] > 0:
                await self._next_back()
        return self._owed[_UNRELIABLE]

    async def _next_back(self) -> None:
        self._came_back = trio.Event()
        await self._came_back.wait()
