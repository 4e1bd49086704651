"""Messages that are kept: a call returns once enough archives hold them on their disks.

::

    async with connect() as connection, connection.keeping() as sender:
        kept = await sender.multicast("orders", b"sell 3 at 100")
        print(kept.position, kept.copies)

The message is SAFE. An archive that has stored the line up to its place has it: by its own marks it
knows that the message is on the line of its groups, and stays there.
docs/history.md says what is promised.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from groupcomm.clocks.stamp import Position, ViewId, format_position
from groupcomm.errors import GroupCommError, OrderUnknown, SessionEnded
from groupcomm.events import DaemonView, Message, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.names import check_group
from groupcomm_client.arguments import check_count, check_names, check_seconds
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.coordination.driving import Driver, running
from groupcomm_client.events import Received
from groupcomm_client.first_number import first_number
from groupcomm_client.history.frames import (
    ARCHIVES,
    HEAD,
    AwaitKept,
    Kept,
    decode_untrusted,
    encode,
)

KEPT_S: Final = 10.0
"""The time that a call waits, if it says nothing else."""

RETRY_S: Final = 0.5
"""The time after which archives are asked again; it doubles up to LONGEST_RETRY_S."""

LONGEST_RETRY_S: Final = 8.0

_VIEWS: Final = 16
"""The last views of daemons that are remembered."""


@attrs.frozen
class KeptMessage:
    """What is known of a message that is kept.

    Attributes:
        position: its place in the order.
        copies: the number of disks that were known to have it when the call returned, at least.
    """

    position: Position
    copies: int


class NotKept(GroupCommError):
    """Raised if it is not known in time that enough disks have a message: it may be kept or not.

    Attributes:
        position: its place in the order; None if that is unknown, too.
        copies: the number of disks that are known to have it.
    """

    def __init__(self, text: str, position: Position | None, copies: int) -> None:
        super().__init__(text)
        self.position = position
        self.copies = copies


class _Wait:
    """One message whose archives are awaited.

    Attributes:
        position: its place; None until it is known.
        disks: the disks that have it.
        archives: how many there are to be, as archives say; 0 while none has said so.
    """

    def __init__(self, copies: int | None) -> None:
        self._copies = copies
        self.position: Position | None = None
        self.disks: set[bytes] = set()
        self.archives = 0

    @property
    def wanted(self) -> int | None:
        """Return how many disks are enough; None while nobody has said how many there are."""
        return self._copies or (self.archives // 2 + 1 if self.archives else None)

    @property
    def is_kept(self) -> bool:
        """Return whether enough disks have it."""
        return self.wanted is not None and len(self.disks) >= self.wanted

    def failed(self, why: str) -> NotKept:
        """Return the error of a call that cannot wait longer."""
        of = f"{self.wanted} disks" if self.wanted else "a majority of disks"
        advice = ""
        if self.disks and self.wanted is None:
            advice = (
                "; start archives with --archives N, so that they know a majority, or give copies"
            )
        where = f" at {format_position(self.position)}" if self.position else ""
        text = (
            f"the message{where} is on {len(self.disks)} disks, and not known to be on {of}: {why}"
        )
        return NotKept(text + advice, self.position, len(self.disks))


class KeptSender:
    """Sends messages that archives keep; made by `Connection.keeping`. Tasks and threads may share
    it."""

    def __init__(self, connection: BasicConnection) -> None:
        self._number = first_number()
        self._waits: dict[int, _Wait] = {}
        self._majorities: dict[ViewId, bool | None] = {}
        self.driver = Driver(connection, "", self)

    async def multicast(
        self,
        groups: str | tuple[str, ...] | list[str],
        data: bytes,
        *,
        copies: int | None = None,
        within_s: float = KEPT_S,
        type: int = 0,
        self_discard: bool = False,
    ) -> KeptMessage:
        """Send a SAFE message; return once enough archives have it on their disks.

        Args:
            groups: the group, or several that the same archives record.
            data, type, self_discard: see `Connection.multicast`.
            copies: the number of disks that are enough; None for more than half of the archives,
                whose number they know from `groupcomm history serve --archives`.
            within_s: the longest time to wait, in seconds.

        Raises:
            LocalProtocolError: an argument cannot be sent; nothing was sent.
            AccessRefused: the rules of the daemon do not allow it.
            NotKept: it is not known to be kept: too few archives have answered in time, or the
                network was parted or the session ended before its place was known.
            SessionEnded: the session is over, and no other follows; nothing was sent.
        """
        names = check_names(groups)
        for name in names:
            check_group(name)
        if copies is not None:
            check_count("copies", copies)
        seconds = check_seconds("within_s", within_s)
        options: dict[str, Any] = {"type": type, "self_discard": self_discard}
        with self.driver.thread_lock:
            self._number += 1
            number, wait = self._number, _Wait(copies)
            self._waits[number] = wait

        async def keep() -> None:
            wait.position = (await self._order(names, data, wait, options)).position
            await self._until_kept(number, names, wait)

        try:
            if not await self.driver.loop.timeout(seconds, keep):
                raise wait.failed(f"not within {seconds:g} s")
        finally:
            with self.driver.thread_lock:
                del self._waits[number]
        assert wait.position is not None
        return KeptMessage(wait.position, len(wait.disks))

    async def _order(
        self, names: tuple[str, ...], data: bytes, wait: _Wait, options: dict[str, Any]
    ) -> Ordered:
        """Send the message; return its place on the line."""
        await self.driver.until_session()
        session = self.driver.session
        if session is None:
            raise wait.failed("the session has ended before it was sent")
        try:
            order = await session.multicast_ordered(names, data, level=ServiceLevel.SAFE, **options)
        except OrderUnknown as error:
            raise wait.failed(str(error)) from None
        view = order.position.view

        def is_known() -> bool:
            return view in self._majorities or self.driver.session is not session

        await self.driver.until(is_known)
        if order.transitional or self._majorities.get(view, False) is False:
            raise wait.failed("the network was parted, and the other part may go on without it")
        return order

    async def _until_kept(self, number: int, names: tuple[str, ...], wait: _Wait) -> None:
        """Ask the archives until enough have the place; it outlasts sessions."""
        assert wait.position is not None
        question = encode(AwaitKept(number, names, wait.position))
        retry_s = RETRY_S

        async def kept() -> None:
            await self.driver.until(lambda: wait.is_kept)

        while not wait.is_kept:
            try:
                await self.driver.until_session()
                self.driver.send(question, level=ServiceLevel.FIFO, to=ARCHIVES)
                await self.driver.loop.timeout(retry_s, kept)
            except SessionEnded as error:
                raise wait.failed(str(error)) from None
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)

    # ---- what the driver tells ----

    @property
    def is_busy(self) -> bool:
        """See `Participant`."""
        return any(wait.position is None for wait in self._waits.values())

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self._me = session.member
        self._majorities.clear()
        if session.view is not None:
            self._note_view(session.view)

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        if isinstance(event, DaemonView):
            self._note_view(event)
        elif isinstance(event, Message) and event.data.startswith(HEAD):
            frame = decode_untrusted(event.data)
            if isinstance(frame, Kept) and event.groups == (self._me.name,):
                wait = self._waits.get(frame.number)
                if wait is not None:
                    wait.disks.add(frame.disk)
                    wait.archives = max(wait.archives, frame.archives)

    def lose(self) -> None:
        """See `Participant`."""

    def changed(self) -> None:
        """See `Participant`."""

    def _note_view(self, view: DaemonView) -> None:
        self._majorities[view.id] = view.majority
        while len(self._majorities) > _VIEWS:
            del self._majorities[next(iter(self._majorities))]


@asynccontextmanager
async def keeping(connection: BasicConnection) -> AsyncIterator[KeptSender]:
    """Send messages that archives keep, for the length of a block.

    With ``reconnect=True`` calls whose messages have their place go on in the next session.

    Args:
        connection: a connection for this alone; nothing else may receive from it.

    Raises:
        LocalProtocolError: the connection is for something else.
    """
    sender = KeptSender(connection)
    async with running(sender.driver):
        yield sender
