"""Finding a daemon and being admitted by it; `connect` for programs that use trio."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar

from groupcomm.errors import SessionEnded
from groupcomm.host.tls import TlsSocket
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Conversation
from groupcomm_client.credentials import Credentials, StrPath
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Loop, TrioLoop
from groupcomm_client.targets import TLS, default_address, not_admitted, open_socket

ADMISSION_S: Final = 10.0
"""Longer than any view change: being admitted is ordered among all daemons."""


class Greeter(Protocol):
    """What every kind of connection can do before it is open."""

    async def greet(self) -> None:
        """Say hello, and wait until the daemon admits this session."""

    def close_socket(self) -> None:
        """Break the connection off."""


_Made = TypeVar("_Made", bound=Greeter)


@asynccontextmanager
async def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> AsyncIterator[Connection]:
    """Open a session for the length of a block, and end it in order.

    ::

        async with connect(user="ann") as connection, connection.group("chat"):
            await connection.multicast("chat", b"hello")
            async for event in connection:
                print(event)

    Args:
        address: of the daemon: the path of its socket, ``host:port``, or ``tls://host:port``; None
            for what ``GROUPCOMM_ADDRESS`` says, else the daemon of this user on this host.
        user: the name to be known by, unique at the daemon; None for a random one.
        timeout_s: seconds until it must be admitted.
        trace: a folder in which all that the session asks for and is told is written down, for
            ``groupcomm check`` (docs/trace.md).
        causes: have `Message.causes` say what each message depends on.
        principals: have `Message.principal` say whose session each message comes from.
        ca: PEM file of those who sign daemons' certificates; None for what ``GROUPCOMM_CA`` says,
            else for those whom the system trusts. It and the next ones are for TLS only.
        certificate, key: PEM files by which this program proves who it is; None for those in
            ``GROUPCOMM_CERTIFICATE`` and ``GROUPCOMM_KEY``, if any.
        token: proves it, too; a str is the token, a path its file; None for that in
            ``GROUPCOMM_TOKEN``, if any.
        filters: factories of the filters that all messages go through, the first of them next to
            the program (docs/filters.md); None for those of `filters.set_default`.

    Raises:
        CannotConnect: there is no daemon, it does not admit this session in time, or one side
            does not trust the other.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name, not a filter's, or a token without TLS.
        ConfigError: no trace can be written there, or a file for TLS cannot be used.
    """
    credentials = Credentials.of(ca, certificate, key, token)
    connection = await open_connection(
        *(TrioLoop(), address, user, timeout_s, trace),
        causes=causes,
        principals=principals,
        filters=filters,
        credentials=credentials,
    )
    try:
        yield connection
    finally:
        await connection.aclose()


async def open_connection(
    loop: Loop[_Made],
    address: str | None,
    user: str | None,
    timeout_s: float,
    trace: Path | None,
    *,
    causes: bool = False,
    principals: bool = False,
    filters: Sequence[Factory] | None = None,
    credentials: Credentials | None = None,
    secrets: dict[str, GroupSecret] | None = None,
) -> _Made:
    """Return a connection that was admitted; `connect` says what may be given and raised.

    Args:
        loop: its program's.
        address, user, timeout_s, trace, causes, principals, filters, credentials: see `connect`.
        secrets: of groups, by name, as in `Conversation`.
    """
    where = address or default_address()
    credentials = credentials or Credentials.of()
    token = credentials.token_for(tls=where.startswith(TLS))
    conversation = Conversation(
        *(user, trace),
        causes=causes,
        principals=principals,
        token=token,
        filters=filters,
        secrets=secrets,
    )
    connection: _Made | None = None

    async def be_admitted() -> None:
        nonlocal connection
        end = await open_socket(where, loop, credentials)
        connection = loop.connection(end, conversation)
        try:
            await connection.greet()
        except SessionEnded:
            if isinstance(end, TlsSocket) and end.fault is not None:  # it tells more
                raise credentials.explain(where, end.fault) from None
            raise

    try:
        if not await loop.within(timeout_s, be_admitted):
            raise not_admitted(where, timeout_s)
    except BaseException:
        if connection is not None:
            connection.close_socket()
        raise
    assert connection is not None
    return connection
