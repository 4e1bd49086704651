"""``[clients]`` and ``[[access]]`` of a configuration: how programs connect, and their rights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import (
    DEFAULT_HOST,
    SOCKET_NAME,
    Address,
    parse_address,
    runtime_folder,
    user_path,
)
from groupcomm.host.private_files import ENTER_BY
from groupcomm.security.access import VERBS, Access, Rule, Verb
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import SessionLimits
from groupcommd.programs.credentials import TlsConfig

Texts: TypeAlias = tuple[str, ...]
"""A list of texts; in a file, one text may stand for a list of one."""

_POLICIES: Final = ("drop", "disconnect", "block")


@attrs.frozen(kw_only=True)
class TlsTable:
    """``[clients.tls]``: how programs of other hosts connect (docs/security.md#clients).

    Attributes:
        certificate: PEM file of this daemon's certificate.
        key: PEM file of its private key.
        ca: PEM file of the authorities that sign the certificates of programs; this or
            ``clients.tokens`` is needed.
        revoked: the file of the revoked certificates of programs, made by ``groupcomm certs
            revoke``; needs ``ca``.
        address: the address at which programs connect by TLS; by default the daemon's, with the
            port after its own (4804).
    """

    certificate: str
    key: str
    ca: str | None = None
    revoked: str | None = None
    address: str | None = None


@attrs.frozen(kw_only=True)
class ClientsTable:
    """``[clients]``: the listeners for programs, and the limits of each program.

    Attributes:
        unix: the path of the socket for local programs; by default in the runtime folder.
            ``{name}`` in it stands for the daemon's name: daemons of one host that share a file
            need a socket each, such as ``"{name}.sock"``.
        unix_for: the users that may connect there, and by ``tcp``: the ``owner`` of the daemon, its
            ``group``, or ``all`` users of the host. The folder must be closed to everybody else.
        tcp: a port for programs of this host, without TLS: ``on`` for the daemon's own port on
            127.0.0.1, a loopback address, or ``off``. It admits the users that ``unix_for`` names;
            the system tells the user of each connection (docs/security.md#clients).
        spread: programs of Spread may connect by TCP to the daemon's own address, from any host:
            their protocol has neither TLS nor tokens.
        spread_addresses: further addresses, each HOST or HOST:PORT, at which programs of Spread may
            connect by TCP; by default the port is the daemon's own. A loopback address, such as
            127.0.0.1, admits the users of this host that ``unix_for`` names. Others are open to
            whoever reaches them, and need ``spread``. A daemon listens at those that its host has.
        spread_unix: the folder in which programs of Spread (docs/spread-clients.md) find a unix
            socket named after the daemon's port, or ``off``. It admits the users that ``unix_for``
            names.
        tls: how programs of other hosts connect; without it they cannot.
        tokens: the file of tokens, made by ``groupcomm tokens``; needs ``clients.tls``.
        quotas: limits of each principal, and of groups (docs/security.md#quotas).
        slow_receivers: what a daemon does when a program does not read: ``drop`` its UNRELIABLE
            messages first; ``disconnect`` it and drop nothing before; or ``block`` all senders, at
            all daemons, until it reads. In any case the daemon disconnects the program once
            ``output_cap_bytes`` wait for it.
        block_bytes: bytes, with ``block``: the waiting output above which senders wait; messages in
            flight still arrive. Joins, leaves and connects wait, too.
        block_s: seconds, with ``block``: a program for which all senders have waited this long is
            disconnected.
        output_cap_bytes: bytes of waiting output above which a program is disconnected.
        unreliable_drop_bytes: bytes of waiting output above which UNRELIABLE messages are dropped;
            0 to ``output_cap_bytes``.
        session_timeout_s: seconds without any bytes of a program after which its session ends, as
            it stands still or its host has vanished (docs/session.md#silence): 1 to 86400, or 0 for
            no limit.
        backlog_cap_bytes: bytes of sent messages without a number above which the daemon does not
            read from a program; from 1.
    """

    unix: str | None = None
    unix_for: str = "owner"
    tcp: str = "off"
    spread: bool = False
    spread_addresses: Texts = ()
    spread_unix: str = "/tmp"
    tls: TlsTable | None = None
    tokens: str | None = None
    quotas: Quotas = attrs.field(factory=Quotas)
    slow_receivers: str = "drop"
    block_bytes: int = 256 * 1024
    block_s: float = SessionLimits().block_s
    output_cap_bytes: int = SessionLimits().output_cap_bytes
    unreliable_drop_bytes: int = SessionLimits().unreliable_drop_bytes
    backlog_cap_bytes: int = SessionLimits().backlog_cap_bytes
    session_timeout_s: float = SessionLimits().session_timeout_s

    def __attrs_post_init__(self) -> None:
        _check_one_of("slow_receivers", self.slow_receivers, _POLICIES)
        _check_one_of("unix_for", self.unix_for, tuple(ENTER_BY))


@attrs.frozen(kw_only=True)
class RuleTable:
    """One ``[[access]]`` (docs/security.md#access-control): what some principals may do.

    Attributes:
        who: patterns of principals: a text, or a list.
        may: what they may do: ``join``, ``send``, ``see-members``, ``unicast``, ``admin`` and
            ``read-history``.
        groups: patterns of the groups that these verbs are about, for ``unicast`` of private names.
        names: patterns of names of users that their programs may have, besides their own and
            random ones.
        may_not: ``admin``, which then no other rule allows them.
    """

    who: Texts
    may: Texts = ()
    groups: Texts = ("*",)
    names: Texts = ()
    may_not: Texts = ()


def _check_one_of(key: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"clients.{key} is {value!r}; it must be one of {', '.join(allowed)}")


def read_limits(clients: ClientsTable) -> SessionLimits:
    """Return the limits of sessions."""
    drops = clients.slow_receivers == "drop"
    cap = clients.output_cap_bytes
    return SessionLimits(
        unreliable_drop_bytes=clients.unreliable_drop_bytes if drops else cap,
        output_cap_bytes=cap,
        backlog_cap_bytes=clients.backlog_cap_bytes,
        block_bytes=clients.block_bytes if clients.slow_receivers == "block" else None,
        block_s=clients.block_s,
        session_timeout_s=clients.session_timeout_s,
    )


def read_tcp(clients: ClientsTable, own: Address) -> Address | None:
    """Return the address for programs of this host by TCP without TLS; None without one."""
    if clients.tcp == "off":
        return None
    if clients.tcp == "on":
        return Address(DEFAULT_HOST, own.port)
    address = parse_address(clients.tcp, "clients.tcp")
    if not address.is_loopback:
        raise ConfigError(
            f"clients.tcp is {address}; without TLS it must be on, off or a loopback address:"
            " programs of other hosts connect by [clients.tls]"
        )
    return address


def read_unix(clients: ClientsTable, base: Path, name: str) -> Path:
    """Return the path of the socket where programs of this host find the daemon of this name."""
    if not clients.unix:
        return runtime_folder() / SOCKET_NAME
    return base / user_path(clients.unix.replace("{name}", name))


def read_spread_addresses(clients: ClientsTable, own: Address) -> tuple[Address, ...]:
    """Return the further addresses for programs of Spread."""
    key = "clients.spread_addresses"
    found = tuple(parse_address(text, key, own.port) for text in clients.spread_addresses)
    for address in found:
        if address.is_unspecified:
            raise ConfigError(
                f"{key} has {address.host}, which stands for all addresses of a host: name those at"
                " which programs may connect"
            )
        if not (address.is_loopback or clients.spread):
            raise ConfigError(
                f"{key} has {address}, and clients.spread is not true: whoever reaches this address"
                " could connect; set clients.spread if that is wanted, and [[access]] for what"
                " such programs may do"
            )
    return found


def read_spread_unix(clients: ClientsTable, base: Path) -> Path | None:
    """Return the folder where clients of Spread find the daemon's unix socket; None for none."""
    if clients.spread_unix == "off":
        return None
    return base / user_path(clients.spread_unix)


def read_tls(clients: ClientsTable, own: Address, base: Path) -> TlsConfig | None:
    """Return the settings for programs of other hosts; None: they cannot connect.

    Args:
        clients: the table.
        own: the daemon's address; by default, programs use the port after it.
        base: the folder that paths are relative to.
    """
    table = clients.tls
    if table is None:
        if clients.tokens is not None:
            raise ConfigError("clients.tokens is set, and clients.tls is not: tokens need TLS")
        return None
    if table.ca is None and clients.tokens is None:
        raise ConfigError(
            "clients.tls has no ca, and clients.tokens is not set: no program could authenticate"
        )
    if table.revoked is not None and table.ca is None:
        raise ConfigError(
            "clients.tls.revoked is set, and clients.tls.ca is not: without an authority no"
            " certificate counts"
        )
    address = tls_beside(own)
    if table.address is not None:
        address = parse_address(table.address, "clients.tls.address", address.port)
    return TlsConfig(
        address=address,
        certificate=base / user_path(table.certificate),
        key=base / user_path(table.key),
        ca=base / user_path(table.ca) if table.ca else None,
        tokens=base / user_path(clients.tokens) if clients.tokens else None,
        revoked=base / user_path(table.revoked) if table.revoked else None,
    )


def tls_beside(own: Address) -> Address:
    """Return the default address for TLS: the port after the daemon's."""
    return attrs.evolve(own, port=own.port + 1 if 0 < own.port < 65535 else 0)


def read_access(tables: Sequence[RuleTable]) -> Access:
    """Return the access rules, checked.

    Raises:
        ConfigError: a rule is wrong; the text has its number, from 1.
    """
    rules: list[Rule] = []
    for number, table in enumerate(tables, 1):
        verbs = _read_verbs("may", table.may, number)
        taken = _read_verbs("may_not", table.may_not, number)
        try:
            rules.append(Rule(table.who, table.groups, verbs, table.names, taken))
        except ConfigError as error:
            raise ConfigError(f"access, rule {number}: {error}") from None
    return Access(tuple(rules))


def _read_verbs(key: str, words: Texts, number: int) -> frozenset[Verb]:
    if unknown := [word for word in words if word not in VERBS]:
        raise ConfigError(
            f"access, rule {number}: {key} has {unknown[0]!r}; there are: {', '.join(VERBS)}"
        )
    return frozenset(VERBS[word] for word in words)
