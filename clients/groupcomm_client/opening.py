"""Opening a connection: finding the daemon, and being admitted by it."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from groupcomm.errors import CannotConnect, Code, SessionEnded
from groupcomm.host.addresses import TLS
from groupcomm_client.byte_stream import ByteSocket
from groupcomm_client.client_protocol import ClientProtocol, random_user
from groupcomm_client.connection import Connection, Session
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Loop
from groupcomm_client.options import ADMISSION_S, ConnectOptions, TlsOptions
from groupcomm_client.reconnecting import ReconnectingConnection
from groupcomm_client.targets import default_address, not_admitted, open_socket

if TYPE_CHECKING:
    from groupcomm_client.credentials import Credentials
    from groupcomm_client.end_to_end.credentials import GroupSecret


@asynccontextmanager
async def connection_block(
    loop: Loop,
    address: str | None,
    user: str | None,
    reconnect: bool,
    options: ConnectOptions,
    tls: TlsOptions | None,
) -> AsyncIterator[Connection]:
    """Open a connection for the length of a block; see `groupcomm_client.connect`."""
    connection = await open_connection(loop, address, user, reconnect, options, tls)
    try:
        yield connection
    finally:
        await connection.aclose()


async def open_connection(
    loop: Loop,
    address: str | None,
    user: str | None,
    reconnect: bool,
    options: ConnectOptions,
    tls: TlsOptions | None,
) -> Connection:
    """Return a connection that was admitted; see `groupcomm_client.connect`."""
    addresses = deque(each.strip() for each in (address or default_address()).split(","))
    insists = tls is not None and tls.token is not None
    credentials = None
    if insists or any(each.startswith(TLS) for each in addresses):
        credentials = _credentials(tls)
    tokens = {
        each: "" if credentials is None else credentials.token_for(tls=each.startswith(TLS))
        for each in addresses
    }
    name = user or random_user()

    async def open_session(
        timeout_s: float,
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
    ) -> Session:
        failures: list[str] = []
        for _ in range(len(addresses)):
            where = addresses[0]
            protocol = loop.protocol(
                name,
                options.trace,
                causes=options.causes,
                principals=options.principals,
                token=tokens[where],
                filters=filters,
                secrets=secrets,
            )
            try:
                return await _be_admitted(loop, protocol, where, timeout_s, credentials)
            except CannotConnect as error:
                failures.append(str(error))
                addresses.rotate(-1)
        raise CannotConnect("; ".join(failures))

    secrets: dict[str, GroupSecret] = {}
    first = await open_session(options.timeout_s, options.filters, secrets)
    if not reconnect:
        return Connection(first, loop)

    async def open_next(
        filters: Sequence[Factory] | None, secrets: "dict[str, GroupSecret]"
    ) -> Session:
        return await open_session(ADMISSION_S, filters, secrets)

    return ReconnectingConnection(first, loop, open_next, options.filters, secrets)


def _credentials(tls: TlsOptions | None) -> "Credentials":
    from groupcomm_client.credentials import Credentials  # noqa: PLC0415 - it imports ssl

    return Credentials.of(tls)


async def _be_admitted(
    loop: Loop,
    protocol: ClientProtocol,
    address: str,
    timeout_s: float,
    credentials: "Credentials | None",
) -> Session:
    """Return a session that was admitted.

    Raises:
        CannotConnect: there is no daemon, or it does not admit the session in time.
        SessionEnded: the daemon refuses it for another reason than that it is about to stop.
    """
    session: Session | None = None
    end: ByteSocket | None = None

    async def be_admitted() -> None:
        nonlocal session, end
        end = await open_socket(address, loop, credentials)
        session = Session(protocol, loop.stream(end, protocol))
        try:
            await Connection(session, loop).greet()
        except SessionEnded as error:
            if error.code == Code.REJECT_STOPPING:
                raise CannotConnect(f"cannot connect to {address}: {error}") from None
            fault = getattr(end, "fault", None)
            if credentials is not None and fault is not None:  # TLS gives the better reason
                raise credentials.explain(address, fault) from None
            raise

    try:
        if not await loop.timeout(timeout_s, be_admitted):
            raise not_admitted(address, timeout_s, end)
    except BaseException:
        if session is not None:
            session.stream.close()
        raise
    assert session is not None
    return session
