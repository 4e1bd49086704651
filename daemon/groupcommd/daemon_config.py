"""The configuration of a daemon, resolved and checked."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.host.addresses import (
    Address,
)
from groupcomm.security.access import Access
from groupcomm.security.access_review import review
from groupcomm.security.identity import DaemonCredentials, Roll
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_NONE
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import SessionLimits
from groupcommd.credentials import TlsConfig
from groupcommd.local_users import owners

DEFAULT_DISK_TIMEOUT_S: Final = 5.0
"""A disk that is well answers in some milliseconds, one that is overloaded in a second or two."""


@attrs.frozen(kw_only=True)
class DaemonConfig:
    """What a daemon is started with; all of it is checked.

    Attributes:
        name: of the daemon.
        file: where its configuration was read; None without one.
        core: settings of its core.
        addresses: of all listed daemons, by name, with its own.
        further: those on a second network, a third and so on, of daemons that have some.
        multicast: reaches all daemons of its own site; None: each gets its own datagram.
        keys: seal what it sends; None if it is insecure, or its first start makes them.
        key_file: where they were read, and are written when daemons agree on others.
        identity: its private key; None where daemons have no identities.
        roll: whose identities count; None if `identity` is.
        identities: the file where `roll` was read, and is written when a daemon is evicted.
        limits: caps on sessions.
        unix: path of the socket for local clients.
        unix_for: who may connect there: "owner", "group" or "all".
        tcp: address for clients of this host; None for none.
        spread: clients of Spread may connect by TCP, which proves nothing.
        spread_unix: the folder where they find a unix socket named after its port; None for none.
        tls: how clients of other hosts connect; None: they do not.
        quotas: of each principal.
        access: who may do what.
        state_dir: the folder of its restart count.
        disk_timeout_s: a disk there that has not answered for so long is told of.
        insecure: it may run without keys beyond loopback.
        spin: it never sleeps, so that nothing has to wake it.
        trace: the folder in which it traces what it does; None for no trace.
    """

    name: str
    file: Path | None = None
    core: CoreConfig
    addresses: Mapping[str, Address]
    further: Mapping[str, tuple[Address, ...]] = attrs.field(factory=dict)
    multicast: Address | None = None
    keys: KeyRing | None = attrs.field(default=None, repr=False)
    key_file: Path | None = None
    identity: bytes | None = attrs.field(default=None, repr=False)
    roll: Roll | None = attrs.field(default=None, repr=False)
    identities: Path | None = None
    limits: SessionLimits = attrs.field(factory=SessionLimits)
    unix: Path
    unix_for: str = "owner"
    tcp: Address | None = None
    spread: bool = False
    spread_unix: Path | None = None
    tls: TlsConfig | None = None
    quotas: Quotas = attrs.field(factory=Quotas)
    access: Access = attrs.field(factory=Access)
    state_dir: Path
    disk_timeout_s: float = DEFAULT_DISK_TIMEOUT_S
    insecure: bool = False
    spin: bool = False
    trace: Path | None = None

    @property
    def credentials(self) -> DaemonCredentials | None:
        """With which it proves which daemon it is; None where daemons have no identities."""
        if self.identity is None or self.roll is None:
            return None
        return DaemonCredentials(self.identity, self.roll, os.urandom)

    @property
    def remote(self) -> frozenset[str]:
        """The names of the daemons of other sites."""
        sites = self.core.sites
        return frozenset(name for site in sites if self.name not in site for name in site)


_LEFT_OUT: Final = frozenset(("keys", "identity", "roll", "starts"))
"""Secrets, and what has commands of its own or is for tests."""


def describe(config: DaemonConfig) -> dict[str, Any]:
    """What JSON can hold of a configuration; ``sealed`` says whether there are keys."""
    found: dict[str, Any] = _plain(config)
    return {**found, "sealed": config.core.suite != SUITE_NONE}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)) and not isinstance(value, Address):
        names = [name for name in attrs.fields_dict(type(value)) if not name.startswith("_")]
        return {n: _plain(getattr(value, n)) for n in names if n not in _LEFT_OUT}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return [verb.word for verb in sorted(value)]  # of a rule
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | bool | None) else str(value)


def impossible(config: DaemonConfig) -> list[str]:
    """Return what nobody can do by the rules of a configuration, a sentence each."""
    return review(config.access, arrivals(config), owners())


def arrivals(config: DaemonConfig) -> list[str]:
    """Return patterns of all principals that a daemon can find out."""
    found = ["unix:*", "uid:*"]
    if config.tls is not None and config.tls.ca is not None:
        found.append("cert:*")
    if config.tls is not None and config.tls.tokens is not None:
        found.append("token:*")
    return found
