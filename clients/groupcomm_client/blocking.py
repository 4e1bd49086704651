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

from collections.abc import Callable, Iterator
from types import UnionType
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from groupcomm.events import Message
from groupcomm_client import opening
from groupcomm_client.block import block
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from groupcomm_client.options import (
    DEFAULT_OPTIONS,
    ConnectOptions,
    Once,
    Resume,
    TlsOptions,
    with_views,
)
from groupcomm_client.program import as_program
from groupcomm_client.thread_loop import ThreadLoop
from groupcomm_client.thread_loop import run as complete
from groupcomm_client.waiting import Events, calls, opens, same, shows, waits

if TYPE_CHECKING:
    from groupcomm_client.coordination.blocking_work import BlockingWorker
    from groupcomm_client.coordination.working import Worker
    from groupcomm_client.history.blocking import BlockingKeptSender, BlockingSubscription
    from groupcomm_client.history.keeping import KeptSender
    from groupcomm_client.history.subscription import Subscription
    from groupcomm_client.typed import BlockingTyped

__all__ = ["BlockingConnection", "connect", "open_connection", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def _worker(awaited: "Worker") -> "BlockingWorker":
    from groupcomm_client.coordination.blocking_work import BlockingWorker  # noqa: PLC0415 - few use it

    return BlockingWorker(awaited)


def _kept_sender(awaited: "KeptSender") -> "BlockingKeptSender":
    from groupcomm_client.history.blocking import BlockingKeptSender  # noqa: PLC0415 - few need it

    return BlockingKeptSender(awaited)


def _subscription(awaited: "Subscription") -> "BlockingSubscription":
    from groupcomm_client.history.blocking import BlockingSubscription  # noqa: PLC0415 - few need it

    return BlockingSubscription(awaited)


class BlockingConnection(Events[Connection, Received]):
    """A connection for threads; made by `connect`. Calls without a timeout wait for ever.

    The calls are those of `groupcomm_client.Connection`.

    Attributes:
        awaited: the same connection, whose calls are awaited.
    """

    protocol = shows(Connection.protocol)
    member = shows(Connection.member)
    name = shows(Connection.name)
    view = shows(Connection.view)
    groups = shows(Connection.groups)
    in_doubt = shows(Connection.in_doubt)
    join = waits(Connection.join)
    leave = waits(Connection.leave)
    request_membership = waits(Connection.request_membership)
    rekey = waits(Connection.rekey)
    set_filters = calls(Connection.set_filters)
    multicast = waits(Connection.multicast)
    multicast_ordered = waits(Connection.multicast_ordered)
    multicast_many = waits(Connection.multicast_many)
    flush = waits(Connection.flush)
    receive = waits(Connection.receive)
    receive_batch = waits(Connection.receive_batch)
    pop_waiting = calls(Connection.pop_waiting)
    ask = waits(Connection.ask)

    def __init__(self, awaited: Connection, loop: ThreadLoop) -> None:
        """Take over an open connection."""
        super().__init__(awaited)
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

    group = opens(Connection.group, same)
    work = opens(Connection.work, _worker)
    subscribe = opens(Connection.subscribe, _subscription)
    keeping = opens(Connection.keeping, _kept_sender)

    def messages(self) -> Iterator[Message]:
        """Iterate over the messages until the connection ends, skipping other events."""
        for event in self:
            if isinstance(event, Message):
                yield event

    def typed(self, model: type[T] | UnionType) -> "BlockingTyped[T]":
        """Return calls that send and receive values of a type; see `Connection.typed`."""
        from groupcomm_client.typed import BlockingTyped  # noqa: PLC0415 - few use it

        return BlockingTyped(self.awaited.typed(model))

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
    exactly_once: Once = False,
    views: bool = True,
    options: ConnectOptions = DEFAULT_OPTIONS,
    tls: TlsOptions | None = None,
) -> Iterator[BlockingConnection]:
    """Open a connection for the length of a block; see `groupcomm_client.connect`."""
    options = with_views(options, views=views)
    connection = open_connection(
        address,
        user=user,
        reconnect=reconnect,
        resume=resume,
        exactly_once=exactly_once,
        options=options,
        tls=tls,
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
    exactly_once: Once = False,
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
        how = (reconnect, resume, exactly_once)
        opened = complete(opening.open_connection(loop, address, user, how, options, tls))
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
