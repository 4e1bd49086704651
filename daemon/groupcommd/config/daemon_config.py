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
from groupcommd.config.http_table import HttpConfig
from groupcommd.config.seeds import Seed
from groupcommd.programs.credentials import TlsConfig
from groupcommd.programs.local_users import owners

MAX_DRAIN_S: Final = 3600.0
"""The longest time that programs may have to move before a daemon stops."""

DEFAULT_DISK_TIMEOUT_S: Final = 5.0
"""A healthy disk answers within milliseconds, an overloaded one within a second or two."""


@attrs.frozen(kw_only=True)
class DaemonConfig:
    """The configuration of a daemon, checked.

    Attributes:
        name: the name of the daemon.
        file: the file of the configuration; None without one.
        core: the settings of its core.
        addresses: the first address of each listed daemon by name, its own included; those of
            `names` have none until they were looked up, except its own.
        names: the names of hosts that stand in place of addresses, by the daemon's name.
        further: the further addresses, one for each further network, of daemons that have some.
        multicast: the group of all daemons of its site; None: each gets a datagram of its own.
        located: the addresses of daemons that are elsewhere than the roster says, by name.
        relayed: the addresses of a relay's paths to other daemons, by their names, in place of
            their own; empty without a relay.
        overruled: the parts of the file that the agreed roster overrules, for the log.
        keys: the keys that seal datagrams; None if it is insecure, or its first start makes them.
        key_file: the file of the keys, which is rewritten when daemons agree on others.
        identity: its private key; None if daemons have no identities.
        roll: the trusted identities; None if `identity` is None.
        identities: the file of `roll`, which is rewritten when a daemon is evicted.
        limits: the limits of each session.
        unix: the path of the socket for local clients.
        unix_for: the users that may connect there: "owner", "group" or "all".
        tcp: the address for clients of this host; None without one.
        spread: whether clients of Spread may connect by TCP, without authentication.
        spread_addresses: the further addresses where they may connect, if the host has them; port 0
            stands for the daemon's own.
        spread_unix: the folder of their unix socket, which is named after its port; None without.
        tls: the settings for clients of other hosts; None: they cannot connect.
        http: the settings of HTTP; None: the daemon does not answer it.
        quotas: the limits of each principal.
        access: the access rules.
        state_dir: the folder of its restart count.
        disk_timeout_s: a disk that has not answered for this time is reported.
        drain_s: the time that programs have to move, after a signal that stops it; 0: none.
        seeds: the daemons that it asks when it has moved, besides those of the roster.
        moved: whether its address is none of those in the roster, as its host has another one.
        insecure: whether it may run without keys beyond loopback.
        spin: whether it never sleeps, so that it need not wake up.
        trace: the folder for its trace; None for no trace.
    """

    name: str
    file: Path | None = None
    core: CoreConfig
    addresses: Mapping[str, Address]
    names: Mapping[str, Seed] = attrs.field(factory=dict)
    further: Mapping[str, tuple[Address, ...]] = attrs.field(factory=dict)
    multicast: Address | None = None
    located: Mapping[str, Address] = attrs.field(factory=dict)
    relayed: Mapping[str, Address] = attrs.field(factory=dict)
    overruled: tuple[str, ...] = ()
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
    spread_addresses: tuple[Address, ...] = ()
    spread_unix: Path | None = None
    tls: TlsConfig | None = None
    http: HttpConfig | None = None
    quotas: Quotas = attrs.field(factory=Quotas)
    access: Access = attrs.field(factory=Access)
    state_dir: Path
    disk_timeout_s: float = DEFAULT_DISK_TIMEOUT_S
    drain_s: float = 0.0
    seeds: tuple[Seed, ...] = ()
    moved: bool = False
    insecure: bool = False
    spin: bool = False
    trace: Path | None = None

    @property
    def credentials(self) -> DaemonCredentials | None:
        """Return the identity of the daemon; None if daemons have no identities."""
        if self.identity is None or self.roll is None:
            return None
        return DaemonCredentials(self.identity, self.roll, os.urandom)

    @property
    def places(self) -> dict[str, tuple[Address, ...]]:
        """Return all addresses of each daemon, by name, one for each network."""
        return {
            name: (first, *self.further.get(name, ())) for name, first in self.addresses.items()
        }

    @property
    def remote(self) -> frozenset[str]:
        """Return the names of all daemons that are not of the own site, removed ones included."""
        return self.known - {*self.core.site_of(self.name)}

    @property
    def own_if_named(self) -> Address | None:
        """Return the own address, if that was found by the name of this host."""
        return self.addresses[self.name] if self.name in self.names else None

    @property
    def known(self) -> frozenset[str]:
        """Return the names of all daemons that have an address, or a host with a name."""
        return frozenset((*self.addresses, *self.names))


_LEFT_OUT: Final = frozenset(
    ("keys", "identity", "roll", "starts", "agreed", "moved", "relayed", "overruled")
)
"""Secrets, values that have commands of their own, and values for tests."""


def describe(config: DaemonConfig) -> dict[str, Any]:
    """Return a configuration as plain values; ``sealed`` tells whether there are keys."""
    found: dict[str, Any] = _plain(config)
    return {**found, "sealed": config.core.suite != SUITE_NONE}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)) and not isinstance(value, Address | Seed):
        names = [name for name in attrs.fields_dict(type(value)) if not name.startswith("_")]
        return {n: _plain(getattr(value, n)) for n in names if n not in _LEFT_OUT}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return [verb.word for verb in sorted(value)]  # the verbs of a rule
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | bool | None) else str(value)


def impossible(config: DaemonConfig) -> list[str]:
    """Return a sentence for each thing that the rules of a configuration make impossible."""
    return review(config.access, arrivals(config), owners())


def arrivals(config: DaemonConfig) -> list[str]:
    """Return patterns of all principals that the programs of a daemon can have."""
    found = ["unix:*", "uid:*"]
    if config.tls is not None and config.tls.ca is not None:
        found.append("cert:*")
    if config.tls is not None and config.tls.tokens is not None:
        found.append("token:*")
    return found
