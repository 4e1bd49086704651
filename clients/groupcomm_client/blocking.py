"""The connection for programs without an event loop: calls wait, and threads may share it.

::

    from groupcomm_client.blocking import connect

    with connect(user="ann") as connection, connection.group("chat"):
        connection.multicast("chat", b"hello")
        for event in connection:
            print(event)

One thread may wait in `receive` while others send. `select` and its kin can watch a connection: its
file number is readable when `receive` has something to give.
"""

import json
import math
import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from groupcomm.errors import SessionEnded
from groupcomm.events import GroupView, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.session.codes import Code
from groupcomm_client.connecting import ADMISSION_S
from groupcomm_client.connection import GOODBYE_S
from groupcomm_client.conversation import Conversation, Facts, Ready, Received
from groupcomm_client.stream import read_some, write_some
from groupcomm_client.targets import (
    default_address,
    not_admitted,
    open_socket,
    wait_for_socket,
)


class BlockingConnection(Facts):
    """One session; made by `connect`. Calls wait for ever unless they are given a time."""

    def __init__(self, socket_: socket.socket, conversation: Conversation) -> None:
        """Take over a connected non-blocking socket; nothing has been said on it yet."""
        self.conversation = conversation
        self._socket = socket_
        self._lock = threading.Condition(threading.Lock())
        self._reading = False  # a thread waits for the socket
        self._unsent = memoryview(b"")
        # Readable when the socket is, or when events were read from it and not taken yet.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rings = self._kept_back = False
        self._watched = select.epoll()
        self._watched.register(socket_, select.EPOLLIN)
        self._watched.register(self._bell, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when `receive` has something to give, or will soon."""
        return self._watched.fileno()

    def greet(self, timeout_s: float) -> bool:
        """Say hello, and wait until the daemon admits this session; whether it did in time.

        Raises:
            SessionEnded: it does not.
        """
        return self._exchange(self.conversation.greet(), timeout_s)

    # ---- groups ----

    def join(self, group: str) -> GroupView:
        """Become a member; return the first view, which also comes as an event.

        Raises:
            LocalProtocolError: a bad name, or it has joined already.
            SessionEnded: the session is over.
        """
        with self._lock:
            ready = self.conversation.join(group)
        self._exchange(ready)
        return self.conversation.groups[group]

    def leave(self, group: str) -> None:
        """Be a member no longer; what was delivered before still comes as events.

        Raises:
            LocalProtocolError: it has not joined.
            SessionEnded: the session is over.
        """
        with self._lock:
            ready = self.conversation.leave(group)
        self._exchange(ready)

    def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave, and do not wait; asking twice does nothing.

        Raises:
            LocalProtocolError: a bad name.
            SessionEnded: the session is over.
        """
        with self._lock:
            self.conversation.check_open()
            if (group in self.conversation.asked) != join:
                if join:
                    self.conversation.join(group)
                else:
                    self.conversation.leave(group)
        self._flush()

    @contextmanager
    def group(self, name: str) -> Iterator[GroupView]:
        """Be a member of a group for the length of a block; gives the first view."""
        view = self.join(name)
        try:
            yield view
        finally:
            if self.conversation.closed is None:
                self.leave(name)

    # ---- messages ----

    def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
    ) -> Ordered | None:
        """Send a message; see `groupcomm_client.Connection.multicast`.

        Raises:
            LocalProtocolError: an argument is out of its range; nothing was sent.
            SessionEnded: the session is over.
            OrderUnknown: it ended before the place was known.
        """
        self._admit()
        with self._lock:
            number = self.conversation.send(
                groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
            )
        if not ordered:
            self._flush()
            return None
        with self.conversation.order_of(number) as order:
            self._exchange(order.has_come)
            return order.value

    def multicast_many(
        self,
        groups: str | Sequence[str],
        messages: Iterable[bytes],
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> int:
        """Send many messages, several in one packet where they are small; return how many."""
        count = 0
        for data in messages:
            self._admit()
            with self._lock:
                self.conversation.send(
                    groups, data, level=level, type=type, self_discard=self_discard
                )
            count += 1
        self._flush()
        return count

    # ---- events ----

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next event; None if none comes in time.

        Raises:
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        while self._until(lambda: bool(self.conversation.events), timeout_s):
            with self._lock:
                if self.conversation.events:  # another thread may have been quicker
                    event = self.conversation.take_event()
                    self._set_bell()
                    return event
        return None

    def receive_batch(self, timeout_s: float | None = None) -> list[Received]:
        """All events that are there, waiting for one at least; none if none comes in time."""
        self._until(lambda: bool(self.conversation.events), timeout_s)
        with self._lock:
            events = self.conversation.take_events()
            self._set_bell()
        return events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        try:
            event = self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise
        assert event is not None
        return event

    def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon about itself: ``status``, ``groups`` or ``members GROUP``."""
        with self._lock:
            answer = self.conversation.ask(question)
        self._exchange(answer.has_come)
        assert answer.value is not None
        found: dict[str, Any] = json.loads(answer.value)
        return found

    # ---- the end ----

    def close(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, close the socket."""
        with self._lock:
            goodbye = self.conversation.say_goodbye()
        if goodbye:
            with suppress(SessionEnded):  # that is what is asked for
                self._exchange(lambda: False, GOODBYE_S)
        self.close_socket()

    def close_socket(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        with self._lock:
            if self._socket.fileno() >= 0:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
                self._watched.close()
                os.close(self._bell)
                self._socket.close()
                self.conversation.broken_off()
                self.conversation.feed(b"")  # who still waits learns of it
                self._lock.notify_all()

    # ---- inside ----

    def _admit(self) -> None:
        """Before a message: the session is open, the daemon takes more."""
        self.conversation.check_open()
        while not self.conversation.writable:
            self._flush()

    def _exchange(self, ready: Ready, timeout_s: float | None = None) -> bool:
        self._flush()
        return self._until(ready, timeout_s)

    def _until(self, ready: Ready, timeout_s: float | None) -> bool:
        """Read until something is so; False if it is not in time.

        One thread reads for all that wait; the others are told whenever it has read something.
        """
        end = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            while not ready():
                self.conversation.check_open()
                left_s = max(0.0, end - time.monotonic())
                if not self._reading:
                    self._read(left_s)
                else:
                    self._lock.wait(None if left_s == math.inf else left_s)
                if time.monotonic() >= end:
                    return ready()
            return True

    def _read(self, seconds: float) -> None:
        """Wait for what comes, with the lock open meanwhile, and tell the other threads."""
        self._reading = True
        self._lock.release()
        try:
            come = wait_for_socket(self._socket, select.POLLIN, seconds)
        finally:
            self._lock.acquire()
            self._reading = False
        if come:
            self._feed()
        self._lock.notify_all()

    def _feed(self) -> None:
        read_some(self._socket, self.conversation)
        self._set_bell()

    def _flush(self) -> None:
        """Write all that waits; read meanwhile, for the daemon may wait for that."""
        while True:
            with self._lock:
                self._unsent, done = write_some(self._socket, self.conversation, self._unsent)
                self._set_bell()
                if done or self.conversation.closed is not None:
                    self._lock.notify_all()
                    return
            if wait_for_socket(self._socket, select.POLLIN | select.POLLOUT) & ~select.POLLOUT:
                with self._lock:
                    self._feed()
                    self._lock.notify_all()

    def ring_on(self, more: bool) -> None:
        """Whoever takes the events keeps some back: stay readable, or not any more."""
        with self._lock:
            self._kept_back = more
            self._set_bell()

    def _set_bell(self) -> None:
        """Ring while there are events, or an end to be told."""
        conversation = self.conversation
        wanted = bool(conversation.events) or conversation.closed is not None or self._kept_back
        if wanted != self._rings and self._socket.fileno() >= 0:
            self._rings = wanted
            if wanted:
                os.eventfd_write(self._bell, 1)
            else:
                os.eventfd_read(self._bell)


@contextmanager
def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
) -> Iterator[BlockingConnection]:
    """Open a session for the length of a block; see `groupcomm_client.connect`."""
    connection = open_connection(address, user=user, timeout_s=timeout_s, trace=trace)
    try:
        yield connection
    finally:
        connection.close()


def open_connection(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
) -> BlockingConnection:
    """Open a session; `BlockingConnection.close` ends it.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name.
        ConfigError: no trace can be written there.
    """
    where = address or default_address()
    conversation = Conversation(user, trace)
    end = time.monotonic() + timeout_s
    connection = BlockingConnection(open_socket(where, timeout_s), conversation)
    admitted = False
    try:
        admitted = connection.greet(max(0.0, end - time.monotonic()))
    finally:
        if not admitted:
            connection.close_socket()
    if not admitted:
        raise not_admitted(where, timeout_s)
    return connection
