"""What is awaited, without an event loop: each step has been done when it is awaited.

So the coroutines that are written once for all kinds of programs never suspend here, and one
`send` runs each of them from its beginning to its end, in the thread that calls.
"""

import select
import socket
import threading
import time
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar

from groupcomm.events import GroupView, Ordered
from groupcomm.host.tls import AnySocket
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking_connection import BlockingConnection
from groupcomm_client.conversation import Conversation, Received
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.facts import Facts
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Step, Target, targets_of
from groupcomm_client.patience import (
    check_time,
    move_on_after,
    seconds_left,
    wait_for_socket,
)

_Value = TypeVar("_Value")


def run(coroutine: Coroutine[Any, Any, _Value]) -> _Value:
    """Run a coroutine that never suspends; what it returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: _Value = end.value
        return value
    coroutine.close()
    raise AssertionError("it has suspended, and no event loop is there to resume it")


class ThreadLock:
    """A lock among threads, in the shape of one that is awaited."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        while not self._lock.acquire(timeout=min(seconds_left(), threading.TIMEOUT_MAX)):
            check_time()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


class AwaitedConnection(Facts):
    """A blocking connection in the shape of one that is awaited.

    Attributes:
        blocking: the connection.
    """

    def __init__(self, blocking: BlockingConnection) -> None:
        self.blocking = blocking
        self.conversation = blocking.conversation

    async def greet(self) -> None:
        """See `BlockingConnection`."""
        self.blocking.greet()

    async def join(self, group: str, *, secret: GroupSecret | None = None) -> GroupView:
        """See `BlockingConnection`."""
        return self.blocking.join(group, secret=secret)

    async def rekey(self, group: str) -> None:
        """See `BlockingConnection`."""
        self.blocking.rekey(group)

    async def leave(self, group: str) -> None:
        """See `BlockingConnection`."""
        self.blocking.leave(group)

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool,
    ) -> Ordered | None:
        """See `BlockingConnection`."""
        return self.blocking.multicast(
            groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
        )

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """See `BlockingConnection`."""
        self.blocking.set_filters(filters)

    async def receive(self) -> Received:
        """See `BlockingConnection`."""
        event = self.blocking.receive()
        assert event is not None, "it has no time of its own"
        return event

    def take_waiting(self) -> list[Received]:
        """See `BlockingConnection`."""
        return self.blocking.take_waiting()

    async def aclose(self) -> None:
        """See `BlockingConnection`."""
        self.blocking.close()

    def close_socket(self) -> None:
        """See `BlockingConnection`."""
        self.blocking.close_socket()


class ThreadLoop:
    """See `groupcomm_client.loops.Loop`."""

    def connection(self, socket_: AnySocket, conversation: Conversation) -> AwaitedConnection:
        """See `Loop`."""
        return AwaitedConnection(BlockingConnection(socket_, conversation))

    async def look_up(self, host: str, port: int) -> list[Target]:
        """See `Loop`."""
        return targets_of(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    async def readable(self, socket_: AnySocket) -> None:
        """See `Loop`."""
        while not wait_for_socket(socket_, select.POLLIN):
            check_time()

    async def writable(self, socket_: AnySocket) -> None:
        """See `Loop`."""
        while not wait_for_socket(socket_, select.POLLOUT):
            check_time()

    async def sleep(self, seconds: float) -> None:
        """See `Loop`."""
        time.sleep(min(seconds, seconds_left()))
        check_time()

    async def checkpoint(self) -> None:
        """See `Loop`."""

    async def within(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        with move_on_after(seconds):
            await step()
            return True
        return False

    async def in_spite(self, seconds: float, step: Step) -> None:
        """See `Loop`."""
        with move_on_after(seconds, shield=True):
            await step()

    def lock(self) -> ThreadLock:
        """See `Loop`."""
        return ThreadLock()
