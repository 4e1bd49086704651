"""The connection for programs without an event loop: calls wait, and threads may share it.

::

    from groupcomm_client.blocking import connect

    with connect(user="ann") as connection, connection.group("chat"):
        connection.multicast("chat", b"hello")
        for message in connection.messages():
            print(message.sender, message.data)

One thread may wait in `receive` while others send. `select` and similar functions can watch a
connection: its file descriptor is readable when `receive` has something to return.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import UnionType
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

from groupcomm.errors import Code, SessionEnded
from groupcomm.events import DaemonView, GroupView, MemberId, Message, Ordered
from groupcomm.level import ServiceLevel
from groupcomm_client import opening
from groupcomm_client.block import block
from groupcomm_client.client_protocol import ClientProtocol
from groupcomm_client.connection import Connection, Destinations
from groupcomm_client.events import Received
from groupcomm_client.filters.factories import Factory
from groupcomm_client.options import (
    DEFAULT_OPTIONS,
    ConnectOptions,
    Resume,
    TlsOptions,
    with_views,
)
from groupcomm_client.program import as_program
from groupcomm_client.thread_loop import ThreadLoop, run_block
from groupcomm_client.thread_loop import run as complete

if TYPE_CHECKING:
    from groupcomm_client.coordination.blocking_work import BlockingWorker
    from groupcomm_client.end_to_end.credentials import GroupSecret
    from groupcomm_client.history.blocking import BlockingSubscription
    from groupcomm_client.history.subscription import Begin
    from groupcomm_client.typed import BlockingTyped

__all__ = ["BlockingConnection", "connect", "open_connection", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class BlockingConnection:
    """A connection for threads; made by `connect`. Calls without a timeout wait for ever.

    The calls are those of `groupcomm_client.Connection`, whose docstrings list the errors.

    Attributes:
        awaited: the same connection, with the calls of an awaited one.
    """

    def __init__(self, awaited: Connection, loop: ThreadLoop) -> None:
        """Take over an open connection."""
        self.awaited = awaited
        self._watch = loop.watch

    def __repr__(self) -> str:
        return repr(self.awaited)

    def fileno(self) -> int:
        """Return the descriptor of a file that is readable when there is an event, or soon will be.

        With ``reconnect=True`` it stays readable between two sessions: give `receive` some time
        then, as `receive` opens the next session.
        """
        return self._watch.fileno()

    def keep_back(self, more: bool) -> None:
        """Set whether a layer above has events that it has not returned yet; then stay readable."""
        self._watch.keep_back(more)

    # ---- state ----

    @property
    def protocol(self) -> ClientProtocol:
        """Return the client's side of the session."""
        return self.awaited.protocol

    @property
    def member(self) -> MemberId:
        """Return the identity of this session; between two sessions, that of the last one."""
        return self.awaited.member

    @property
    def name(self) -> str:
        """Return the private name, under which others reach this session: ``#user#daemon``."""
        return self.awaited.name

    @property
    def view(self) -> DaemonView | None:
        """Return the view of daemons to which the latest received events belong."""
        return self.awaited.view

    @property
    def groups(self) -> dict[str, GroupView]:
        """Return the latest view of each group that this session is a member of, by name."""
        return self.awaited.groups

    @property
    def in_doubt(self) -> int:
        """Return the most messages, of those sent last, that may never have reached the daemon."""
        return self.awaited.in_doubt

    # ---- groups ----

    def join(
        self, group: str, *, secret: "GroupSecret | None" = None, views: bool = True
    ) -> GroupView:
        """Become a member of a group; return the first view."""
        return complete(self.awaited.join(group, secret=secret, views=views))

    def leave(self, group: str) -> None:
        """End the membership in a group; messages that were delivered before are still received."""
        complete(self.awaited.leave(group))

    def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave without waiting; asking twice does nothing."""
        complete(self.awaited.request_membership(group, join=join))

    @contextmanager
    def group(
        self, name: str, *, secret: "GroupSecret | None" = None, views: bool = True
    ) -> Iterator[GroupView]:
        """Be a member of a group for the length of a block; yield the first view."""
        with run_block(self.awaited.group(name, secret=secret, views=views)) as view:
            yield view

    def rekey(self, group: str) -> None:
        """Have the members of a group with a secret change its key; return once it is in use."""
        complete(self.awaited.rekey(group))

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Use other filters from the next view on that the session receives."""
        self.awaited.set_filters(filters)

    def work(
        self,
        group: str,
        *,
        name: str,
        at_once: int = 16,
        deadline_s: float | None = 60.0,
        tries: int = 5,
        key: Callable[[Message], bytes | None] | None = None,
    ) -> "AbstractContextManager[BlockingWorker]":
        """Be a worker of a set for the length of a block; see `coordination.blocking.work`."""
        from groupcomm_client.coordination.blocking_work import worker_of  # noqa: PLC0415 - few use it

        block = self.awaited.work(
            group, name=name, at_once=at_once, deadline_s=deadline_s, tries=tries, key=key
        )
        return worker_of(block)

    # ---- messages ----

    def multicast(
        self,
        groups: Destinations,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Send a message; wait while the daemon accepts no more, or the group has no key."""
        complete(
            self.awaited.multicast(groups, data, level=level, type=type, self_discard=self_discard)
        )

    def multicast_ordered(
        self,
        groups: Destinations,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> Ordered:
        """Send a message; wait for its place in the agreed order, and return it."""
        return complete(
            self.awaited.multicast_ordered(
                groups, data, level=level, type=type, self_discard=self_discard
            )
        )

    def multicast_many(
        self,
        groups: Destinations,
        messages: Iterable[bytes],
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> int:
        """Send many messages, small ones packed together; return their number."""
        return complete(
            self.awaited.multicast_many(
                groups, messages, level=level, type=type, self_discard=self_discard
            )
        )

    # ---- events ----

    def receive(self, timeout_s: float | None = None) -> Received:
        """Return the next event; raise TimeoutError if none arrives in time."""
        return complete(self.awaited.receive(timeout_s))

    def receive_batch(self, timeout_s: float | None = None) -> list[Received]:
        """Return all events that have come, at least one; raise TimeoutError if none arrives."""
        return complete(self.awaited.receive_batch(timeout_s))

    def pop_waiting(self) -> list[Received]:
        """Return the events that were read and not received yet, without waiting."""
        return self.awaited.pop_waiting()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        try:
            return complete(self.awaited.receive())
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise

    @contextmanager
    def subscribe(
        self,
        groups: str | Sequence[str],
        *,
        start: "Begin",
        stable: bool = False,
        compacted: bool = False,
        gap_wait_s: float = 30.0,
    ) -> "Iterator[BlockingSubscription]":
        """Subscribe to groups for the length of a block; see `Connection.subscribe`."""
        from groupcomm_client.history.blocking import (  # noqa: PLC0415 - few need it
            BlockingSubscription,
        )

        ways = {"stable": stable, "compacted": compacted}
        made = self.awaited.subscribe(groups, start=start, gap_wait_s=gap_wait_s, **ways)
        with run_block(made) as awaited:
            yield BlockingSubscription(awaited)

    def messages(self) -> Iterator[Message]:
        """Iterate over the messages until the connection ends, skipping other events."""
        for event in self:
            if isinstance(event, Message):
                yield event

    def typed(self, model: type[T] | UnionType) -> "BlockingTyped[T]":
        """Return calls that send and receive values of a type; see `Connection.typed`."""
        from groupcomm_client.typed import BlockingTyped  # noqa: PLC0415 - few use it

        return BlockingTyped(self.awaited.typed(model))

    def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon about its status; see `groupcomm_client.Connection.ask`."""
        return complete(self.awaited.ask(question))

    # ---- the end ----

    def close(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, and close the socket."""
        complete(self.awaited.aclose())
        self._watch.close()

    def close_socket(self) -> None:
        """Break the connection off; output that was not written yet is lost."""
        self.awaited.close_socket()
        self._watch.close()


@block
def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    reconnect: bool = False,
    resume: Resume = False,
    views: bool = True,
    options: ConnectOptions = DEFAULT_OPTIONS,
    tls: TlsOptions | None = None,
) -> Iterator[BlockingConnection]:
    """Open a connection for the length of a block; see `groupcomm_client.connect`."""
    options = with_views(options, views=views)
    connection = open_connection(
        address, user=user, reconnect=reconnect, resume=resume, options=options, tls=tls
    )
    try:
        yield connection
    finally:
        connection.close()


def open_connection(
    address: str | None = None,
    *,
    user: str | None = None,
    reconnect: bool = False,
    resume: Resume = False,
    views: bool = True,
    options: ConnectOptions = DEFAULT_OPTIONS,
    tls: TlsOptions | None = None,
) -> BlockingConnection:
    """Open a connection; `BlockingConnection.close` ends it. See `groupcomm_client.connect`.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: the name of a user or of a filter is invalid, or there is a token
            without TLS.
        ConfigError: no trace can be written there, or a file for TLS cannot be used.
    """
    loop, options = ThreadLoop(), with_views(options, views=views)
    try:
        opened = complete(
            opening.open_connection(loop, address, user, reconnect, resume, options, tls)
        )
    except BaseException:
        loop.watch.close()
        raise
    return BlockingConnection(opened, loop)


def run(main: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a program: call its main function, and end in order at an error, or at ^C.

    See `groupcomm_client.run`; this one is for programs without an event loop.

    Raises:
        SystemExit: a `GroupCommError` or ^C has ended the function.
    """
    with as_program():
        return main(*arguments)
