"""Opening a connection: finding the daemon, and being admitted by it."""

from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from groupcomm.errors import (
    CannotConnect,
    Code,
    ConfigError,
    InDoubt,
    LocalProtocolError,
    SessionEnded,
)
from groupcomm.events import DaemonStopping
from groupcomm.host.addresses import TLS
from groupcomm.session.client_session import DAEMON_TIMEOUT_S
from groupcomm_client.arguments import check_type
from groupcomm_client.basic_connection import Session
from groupcomm_client.byte_stream import ByteSocket
from groupcomm_client.client_protocol import ClientProtocol
from groupcomm_client.connection import Connection
from groupcomm_client.filters.factories import Factory
from groupcomm_client.line import Line
from groupcomm_client.loops import Loop
from groupcomm_client.options import (
    ADMISSION_S,
    SAME_HOST_TIMEOUT_S,
    ConnectOptions,
    Once,
    Resume,
    TlsOptions,
    random_user,
)
from groupcomm_client.reconnecting import ReconnectingConnection
from groupcomm_client.targets import (
    default_address,
    is_on_this_host,
    not_admitted,
    open_socket,
)

if TYPE_CHECKING:
    from groupcomm_client.credentials import Credentials
    from groupcomm_client.end_to_end.credentials import GroupSecret


How: TypeAlias = tuple[bool, Resume, Once]
"""Whether a connection reconnects, whether it resumes, whether its messages come exactly once."""


@asynccontextmanager
async def connection_block(
    loop: Loop,
    address: str | None,
    user: str | None,
    how: How,
    options: ConnectOptions,
    tls: TlsOptions | None,
) -> AsyncIterator[Connection]:
    """Open a connection for the length of a block; see `groupcomm_client.connect`."""
    connection = await open_connection(loop, address, user, how, options, tls)
    try:
        yield connection
    except BaseException:
        with suppress(InDoubt):  # what has ended the block is to be known first
            await connection.aclose()
        raise
    else:
        await connection.aclose()


async def open_connection(
    loop: Loop,
    address: str | None,
    user: str | None,
    how: How,
    options: ConnectOptions,
    tls: TlsOptions | None,
) -> Connection:
    """Return a connection that was admitted; see `groupcomm_client.connect`."""
    _check_types(address, user, options, tls)
    reconnect, resume, exactly_once = how
    if resume is not False:
        _check_resume(reconnect, resume, options)
    if exactly_once is not False:
        _check_once(how, options)
    opener = SessionOpener(loop, address or default_address(), user or random_user(), options, tls)
    await opener.read_credentials()
    secrets: dict[str, GroupSecret] = {}
    filters = options.filters if resume is False and exactly_once is False else ()
    first = await opener.open(filters, secrets, timeout_s=options.timeout_s)
    if not reconnect:
        return Connection(first, loop)
    names = None if isinstance(resume, bool) else tuple(resume)
    if exactly_once is not False:
        return await _once(first, loop, opener, secrets, how, options.timeout_s)
    if resume is False:
        return ReconnectingConnection(first, loop, opener, options.filters, secrets)
    from groupcomm_client.history.resuming import ResumingConnection  # noqa: PLC0415 - few need it

    return ResumingConnection(first, loop, opener, secrets, names)


async def _once(
    first: Session,
    loop: Loop,
    opener: "SessionOpener",
    secrets: "dict[str, GroupSecret]",
    how: How,
    timeout_s: float,
) -> Connection:
    """Return a connection whose messages come exactly once."""
    from groupcomm_client import exactly_once as once  # noqa: PLC0415 - few need it

    _, resume, outbox = how
    opened: once.OnceMixin
    if resume is False:
        opened = once.OnceConnection(first, loop, opener, (), secrets)
    else:
        names = None if isinstance(resume, bool) else tuple(resume)
        opened = once.OnceResumingConnection(first, loop, opener, secrets, names)
    try:
        line = Line() if isinstance(outbox, bool) else await loop.from_disk(outbox.file.open)
    except BaseException:
        first.stream.close()
        raise
    await opened.begin_line(line, timeout_s)
    return opened


def _check_types(address: object, user: object, options: object, tls: object) -> None:
    """Raise LocalProtocolError if an argument of `connect` is of a wrong type."""
    check_type("address", address, str, "a text, such as 'host:port'")
    check_type("user", user, str, "a name")
    check_type("options", options, ConnectOptions, "ConnectOptions(...)")
    check_type("tls", tls, TlsOptions, "TlsOptions(...)")


def _check_once(how: How, options: ConnectOptions) -> None:
    """Raise LocalProtocolError if a connection with these options cannot deliver exactly once."""
    reconnect, _, outbox = how
    if outbox is not True and not hasattr(outbox, "file"):
        raise LocalProtocolError(f"exactly_once is {outbox!r}; write True, or an Outbox")
    if not reconnect:
        raise LocalProtocolError("exactly_once needs reconnect=True, as it is about all sessions")
    if options.filters is not None:
        raise LocalProtocolError(
            "a connection with exactly_once has no filters, as what one session has filtered may be"
            " sent in another: leave out exactly_once, or filters"
        )


def _check_resume(reconnect: bool, resume: Resume, options: ConnectOptions) -> None:
    """Raise LocalProtocolError if a connection with these options cannot resume."""
    if not reconnect:
        raise LocalProtocolError("resume needs reconnect=True, as it is about several sessions")
    if options.filters is not None:
        raise LocalProtocolError(
            "a connection that resumes has no filters, as archives have messages as filters have"
            " made them: leave out resume, or filters"
        )
    if not options.views or options.own_views_only:
        raise LocalProtocolError(
            "a connection that resumes needs views of its groups, which say where they begin and"
            " end: leave out resume, or views=False"
        )
    names = () if isinstance(resume, bool) else resume
    if (
        isinstance(names, str)
        or not isinstance(names, Collection)
        or not all(isinstance(name, str) for name in names)
    ):
        raise LocalProtocolError(
            f"resume is {resume!r}; it must be True, or a list of the names of groups"
        )


class SessionOpener:
    """Opens the sessions of one program; see `groupcomm_client.reconnecting.Opener`.

    The addresses of the program are tried in turn, beginning with that of the last session. Those
    that a daemon names are for programs of other hosts: they count if the session itself goes over
    TLS, so that the program can tell a daemon of its authorities from anybody else.

    Files of tokens and certificates are read for each session, as they are renewed meanwhile.
    """

    def __init__(
        self, loop: Loop, addresses: str, user: str, options: ConnectOptions, tls: TlsOptions | None
    ) -> None:
        """Prepare for `read_credentials`, which is called before the first session is opened.

        Args:
            loop: the event loop of the program.
            addresses: one address or several, with commas between them.
            user: the name of all its sessions.
            options, tls: see `groupcomm_client.connect`.
        """
        self._loop = loop
        self._given = tuple(each.strip() for each in addresses.split(","))
        self._addresses = deque(self._given)  # the first is that of the present session
        self._user = user
        self._options = options
        self._tls = tls
        self._was_admitted = False
        self._credentials: Credentials | None = None

    async def read_credentials(self) -> None:
        """Read the credentials, if they are needed.

        Raises:
            LocalProtocolError: there is a token without TLS.
            ConfigError: a file for TLS cannot be used.
        """
        insists = self._tls is not None and self._tls.token is not None
        if insists or any(each.startswith(TLS) for each in self._given):
            self._credentials = await self._present_credentials()
            for each in self._given:
                self._token(each)

    async def _present_credentials(self) -> "Credentials":
        from groupcomm_client.credentials import Credentials  # noqa: PLC0415 - it imports ssl

        return await self._loop.from_disk(partial(Credentials.of, self._tls))

    async def open(
        self,
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
        *,
        timeout_s: float = ADMISSION_S,
    ) -> Session:
        """See `Opener`; each address has `timeout_s` seconds."""
        return await self._open_one_of(list(self._addresses), filters, secrets, timeout_s)

    def has_others(self, notice: DaemonStopping) -> bool:
        """See `Opener`."""
        return bool(self._others(notice))

    async def open_elsewhere(
        self,
        notice: DaemonStopping,
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
    ) -> Session:
        """See `Opener`."""
        failures: list[str] = []
        for where in self._others(notice):
            try:
                return await self._open_one_of([where], filters, secrets, ADMISSION_S)
            except (CannotConnect, SessionEnded) as error:  # the name may be in use at that one
                failures.append(str(error))
        raise CannotConnect("; ".join(failures))

    def _others(self, notice: DaemonStopping) -> list[str]:
        """Return the addresses besides the present one, those that a daemon has named last."""
        present, *others = self._addresses
        if present.startswith(TLS):
            others += (a for a in notice.addresses if a.startswith(TLS) and a != present)
        return list(dict.fromkeys(others))

    async def _open_one_of(
        self,
        addresses: Sequence[str],
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
        timeout_s: float,
    ) -> Session:
        """Return a session at the first address that admits one, and begin there the next time."""
        failures: list[str] = []
        for where in addresses:
            try:
                session = await self._open_at(where, filters, secrets, timeout_s)
            except CannotConnect as error:
                failures.append(str(error))
            except ConfigError as error:
                if not self._was_admitted:
                    raise
                failures.append(f"cannot connect to {where}: {error}")  # it may be in replacement
            else:
                self._was_admitted = True
                self._begin_with(where)
                return session
        raise CannotConnect("; ".join(failures))

    def leave_present(self) -> None:
        """See `Opener`."""
        self._addresses.rotate(-1)

    def _daemon_timeout_s(self, where: str) -> float:
        """Return the silence after which a daemon at this address has vanished."""
        told = self._options.daemon_timeout_s
        if told is not None:
            return told
        return SAME_HOST_TIMEOUT_S if is_on_this_host(where) else DAEMON_TIMEOUT_S

    async def _open_at(
        self,
        where: str,
        filters: Sequence[Factory] | None,
        secrets: "dict[str, GroupSecret]",
        timeout_s: float,
    ) -> Session:
        if self._was_admitted and self._credentials is not None:
            self._credentials = await self._present_credentials()
        protocol = self._loop.protocol(
            self._user,
            self._options.trace,
            causes=self._options.causes,
            principals=self._options.principals,
            views=self._options.views,
            own_views_only=self._options.own_views_only,
            token=self._token(where),
            filters=filters,
            secrets=secrets,
            daemon_timeout_s=self._daemon_timeout_s(where),
        )
        return await _be_admitted(self._loop, protocol, where, timeout_s, self._credentials)

    async def has_new_credentials(self) -> bool:
        """See `Opener`."""
        if self._credentials is None:
            return False
        try:
            return await self._present_credentials() != self._credentials
        except ConfigError:  # a file is gone, and may be in replacement
            return True

    def _begin_with(self, where: str) -> None:
        """Put an address first, and those that the program was given behind it, in their order."""
        if where in self._given:
            self._addresses = deque(self._given)
            self._addresses.rotate(-self._given.index(where))
        else:
            self._addresses = deque((where, *self._given))

    def _token(self, where: str) -> str:
        credentials = self._credentials
        return "" if credentials is None else credentials.token_for(tls=where.startswith(TLS))


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
