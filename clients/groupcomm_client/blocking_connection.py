"""One session without an event loop: calls wait, and threads may share it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

from groupcomm.errors import LocalProtocolError, SessionEnded
from groupcomm.events import GroupView, Ordered
from groupcomm.host.tls import AnySocket
from groupcomm.level import ServiceLevel
from groupcomm.session.bundler import in_parts
from groupcomm.session.codes import Code
from groupcomm_client.blocking_stream import BlockingStream
from groupcomm_client.connection import GOODBYE_S
from groupcomm_client.conversation import Conversation, Received, read_answer
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.facts import Facts
from groupcomm_client.filters.factories import Factory
from groupcomm_client.patience import move_on_after


class BlockingConnection(Facts):
    """One session; made by `connect`. Calls wait for ever unless they are given a time."""

    def __init__(self, socket_: AnySocket, conversation: Conversation) -> None:
        """Take over a connected non-blocking socket; nothing has been said on it yet."""
        self.conversation = conversation
        self._stream = BlockingStream(socket_, conversation)
        self._lock = self._stream.lock

    def fileno(self) -> int:
        """Readable when `receive` has something to give, or will soon."""
        return self._stream.fileno()

    def ring_on(self, more: bool) -> None:
        """Whoever takes the events keeps some back: stay readable, or not any more."""
        self._stream.ring_on(more)

    def greet(self) -> None:
        """Say hello, and wait until the daemon admits this session.

        Raises:
            SessionEnded: it does not.
        """
        self._stream.exchange(self.conversation.greet())

    # ---- groups ----

    def join(self, group: str, *, secret: GroupSecret | None = None) -> GroupView:
        """Become a member; see `groupcomm_client.Connection.join`.

        Raises:
            LocalProtocolError: a bad name, or it has joined already.
            SessionEnded: the session is over.
        """
        with self._lock:
            answer = self.conversation.join(group, secret)
        self._stream.exchange(answer.has_come)
        return answer.come

    def leave(self, group: str) -> None:
        """Be a member no longer; what was delivered before still comes as events.

        Raises:
            LocalProtocolError: it has not joined.
            SessionEnded: the session is over.
        """
        with self._lock:
            answer = self.conversation.leave(group)
        self._stream.exchange(answer.has_come)

    def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave, and do not wait; asking twice does nothing.

        Raises:
            LocalProtocolError: a bad name.
            SessionEnded: the session is over.
        """
        with self._lock:
            self.conversation.check_open()
            if self.conversation.has_asked(group) != join:
                if join:
                    self.conversation.join(group)
                else:
                    self.conversation.leave(group)
        self._stream.flush()

    @contextmanager
    def group(self, name: str, *, secret: GroupSecret | None = None) -> Iterator[GroupView]:
        """Be a member of a group for the length of a block; gives the first view."""
        view = self.join(name, secret=secret)
        try:
            yield view
        finally:
            # Whose session is over, or who had to leave as the rules changed, is no member.
            with suppress(SessionEnded, LocalProtocolError):
                self.leave(name)

    def rekey(self, group: str) -> None:
        """Have the members of a group use another key; see `groupcomm_client.Connection.rekey`."""
        with self._lock:
            has_come = self.conversation.rekey(group)
        self._stream.exchange(has_come)

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use from the next view on; see `groupcomm_client.Connection`."""
        with self._lock:
            self.conversation.set_filters(filters)

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
        self._admit(groups)
        with ExitStack() as stack:
            with self._lock:  # until the order is waited for: another thread may read it at once
                number = self.conversation.send(
                    groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
                )
                order = stack.enter_context(self.conversation.order_of(number)) if ordered else None
            if order is None:
                self._stream.flush()
                return None
            self._stream.exchange(order.has_come)
            return order.come

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
        self._admit(groups)
        count = 0
        try:
            for part in in_parts(messages):
                if count:
                    self._stream.flush()
                    self._until_it_may_go(groups)
                with self._lock:
                    self.conversation.send_many(
                        groups, part, level=level, type=type, self_discard=self_discard
                    )
                count += len(part)
        finally:
            self._stream.flush()
        return count

    # ---- events ----

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next event; None if none comes in time.

        Raises:
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        if timeout_s is None:
            return self._next()
        with move_on_after(timeout_s):
            return self._next()
        return None

    def receive_batch(self, timeout_s: float | None = None) -> list[Received]:
        """All events that are there, waiting for one at least; none if none comes in time.

        Raises:
            SessionEnded: nothing follows.
        """
        with move_on_after(math.inf if timeout_s is None else timeout_s):
            self._stream.until(self._has_events)
        return self.take_waiting()

    def take_waiting(self) -> list[Received]:
        """The events that have been read and not been taken, without waiting for any."""
        with self._lock:
            events = self.conversation.take_events()
            self._stream.set_bell()
        return events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        try:
            return self._next()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise

    def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon about itself; see `groupcomm_client.Connection.ask`."""
        with self._lock:
            answer = self.conversation.ask(question)
        self._stream.exchange(answer.has_come)
        return read_answer(answer.come)

    # ---- the end ----

    def close(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, close the socket."""
        with self._lock:
            goodbye = self.conversation.say_goodbye()
        if goodbye:
            with suppress(SessionEnded), move_on_after(GOODBYE_S, shield=True):
                self._stream.exchange(lambda: False)
        self.close_socket()

    def close_socket(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        self._stream.close()

    # ---- inside ----

    def _has_events(self) -> bool:
        return bool(self.conversation.events)

    def _next(self) -> Received:
        while True:
            self._stream.until(self._has_events)
            with self._lock:
                if self.conversation.events:  # another thread may have been quicker
                    event = self.conversation.take_event()
                    self._stream.set_bell()
                    return event

    def _admit(self, groups: str | Sequence[str]) -> None:
        """Before a message: the session is open, the daemon takes more, and the group has a key
        if it has a secret.
        """
        self.conversation.check_open()
        while not self.conversation.writable:
            self._stream.flush()
        self._until_it_may_go(groups)

    def _until_it_may_go(self, groups: str | Sequence[str]) -> None:
        while not self.conversation.may_send(groups):
            self._stream.exchange(lambda: self.conversation.may_send(groups))
