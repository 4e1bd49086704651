"""The configuration of a daemon: TOML, checked whole before anything is opened.

docs/configuration.md has every key. Errors name the key, its value and the rule.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.v import format_exception

from groupcomm.config.core import CoreConfig, Setting, Windows
from groupcomm.config.presets import PRESETS
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    SOCKET_NAME,
    Address,
    parse_address,
    runtime_folder,
    state_folder,
)
from groupcomm.host.private_files import open_unwritable
from groupcomm.security.access import Access
from groupcomm.security.identity import Credentials, Roll
from groupcomm.security.keys import KeyRing
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import SessionLimits
from groupcommd.client_tables import (
    ClientsTable,
    RuleTable,
    Texts,
    read_access,
    read_limits,
    read_tcp,
    read_tls,
)
from groupcommd.credentials import TlsConfig
from groupcommd.protection import Written, read_protection
from groupcommd.site_tables import (
    DEFAULT_PACKET_BYTES,
    LinkTable,
    SiteTable,
    Where,
    advised_settings,
    link_delays_us,
    longest_delay_s,
    packet_limit,
    read_daemons,
    read_multicast,
)

DEFAULT_NAME: Final = "local"

DEFAULT_DISK_TIMEOUT_S: Final = 5.0
"""A disk that is well answers in some milliseconds, one that is overloaded in a second or two."""


@attrs.frozen(kw_only=True)
class File:
    """The whole file as it is written."""

    cluster: str = "groupcomm"
    name: str | None = None
    key_file: str | None = None
    identity: str | None = None
    identities: str | None = None
    insecure: bool = False
    state_dir: str | None = None
    disk_timeout_s: float = DEFAULT_DISK_TIMEOUT_S
    expected_daemons: int | None = None
    leave_timeout_s: float = CoreConfig().leave_timeout_s
    packet_bytes: int = DEFAULT_PACKET_BYTES
    preset: str = "lan"
    spin: bool = False
    sites: dict[str, SiteTable] = attrs.field(factory=dict)
    links: dict[str, LinkTable] = attrs.field(factory=dict)
    timing: dict[str, float] = attrs.field(factory=dict)
    windows: dict[str, int] = attrs.field(factory=dict)
    clients: ClientsTable = attrs.field(factory=ClientsTable)
    access: list[RuleTable] = attrs.field(factory=list)


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
    tls: TlsConfig | None = None
    quotas: Quotas = attrs.field(factory=Quotas)
    access: Access = attrs.field(factory=Access)
    state_dir: Path
    disk_timeout_s: float = DEFAULT_DISK_TIMEOUT_S
    insecure: bool = False
    spin: bool = False
    trace: Path | None = None

    @property
    def credentials(self) -> Credentials | None:
        """With which it proves which daemon it is; None where daemons have no identities."""
        if self.identity is None or self.roll is None:
            return None
        return Credentials(self.identity, self.roll, os.urandom)

    @property
    def far(self) -> frozenset[str]:
        """The names of the daemons of other sites."""
        sites = self.core.sites
        return frozenset(name for site in sites if self.name not in site for name in site)


def read_config(
    path: Path | None, *, name: str | None, state_dir: Path | None, make_key: bool = False
) -> DaemonConfig:
    """Read a file, or without one set up a daemon that runs alone.

    Args:
        path: of the file; None for a daemon alone on loopback.
        name: the daemon's, in place of the file's.
        state_dir: in place of the file's.
        make_key: whether a key is made if the daemons of this host have none; who only looks at a
            configuration changes nothing.

    Raises:
        ConfigError: what is wrong, and where; or others may change or replace the file.
        OSError: the file cannot be read.
    """
    file, base = _load(path)
    name = name or file.name
    if name is None and path is not None:
        raise ConfigError(f"{path}: which daemon is this? set name, or give --name")
    name = name or DEFAULT_NAME
    sites = file.sites or {"local": SiteTable(daemons={name: f"{DEFAULT_HOST}:{DEFAULT_PORT}"})}
    daemons = read_daemons(sites, name)
    addresses = {daemon: found[0] for daemon, found in daemons.items()}
    multicast = read_multicast(sites, name)
    places = ((daemon, address) for daemon, found in daemons.items() for address in found)
    beyond = _beyond(places, multicast)
    written = Written(**{key: getattr(file, key) for key in attrs.fields_dict(Written)})
    protection = read_protection(written, base, beyond=beyond, make_key=make_key)
    config = DaemonConfig(
        name=name,
        file=path,
        core=_core(file, sites, protection.suite, advised_settings(sites, daemons)),
        addresses=addresses,
        further={daemon: found[1:] for daemon, found in daemons.items() if found[1:]},
        multicast=multicast,
        keys=protection.keys,
        key_file=protection.key_file,
        identity=protection.identity,
        roll=protection.roll,
        identities=protection.identities,
        limits=read_limits(file.clients),
        unix=base / Path(file.clients.unix or runtime_folder() / SOCKET_NAME).expanduser(),
        unix_for=file.clients.unix_for,
        tcp=read_tcp(file.clients, addresses[name]),
        tls=read_tls(file.clients, addresses[name], base),
        quotas=file.clients.quotas,
        access=read_access(file.access),
        state_dir=_state_dir(state_dir, base, file.state_dir, name),
        disk_timeout_s=_above_zero("disk_timeout_s", file.disk_timeout_s),
        insecure=file.insecure,
        spin=file.spin,
    )
    if config.credentials is not None:
        config.credentials.check(config.name, config.core.daemons)
    return config


def _load(path: Path | None) -> tuple[File, Path]:
    """Return what a file says, and the folder that paths in it are relative to."""
    if path is None:
        return File(), Path()
    with open_unwritable(path, "configuration") as stream:
        return _parse(path, stream), path.parent


def _above_zero(key: str, value: float) -> float:
    if not value > 0:
        raise ConfigError(f"{key} is {value}; it must be above 0")
    return value


def _state_dir(told: Path | None, base: Path, text: str | None, name: str) -> Path:
    if told is not None:
        return told.expanduser()
    return base / Path(text).expanduser() if text else state_folder() / name


def read_addresses(path: Path) -> dict[str, Address]:
    """Where all daemons of a file listen on their first network, by name.

    Raises:
        ConfigError: what is wrong with the file.
        OSError: it cannot be read.
    """
    sites = _parse_for_show(path).sites
    first = next((name for table in sites.values() for name in table.daemons), None)
    if first is None:
        raise ConfigError(f"{path}: no daemons are listed; sites.NAME.daemons has them")
    return {name: addresses[0] for name, addresses in read_daemons(sites, first).items()}


def read_sites(path: Path) -> dict[str, tuple[str, ...]]:
    """The names of the daemons of each site of a file, by its name.

    Raises:
        ConfigError: what is wrong with the file.
        OSError: it cannot be read.
    """
    return {site: tuple(table.daemons) for site, table in _parse_for_show(path).sites.items()}


def through_relay(config: DaemonConfig, path: Path) -> DaemonConfig:
    """The same daemon, that reaches the others through a relay (see ``groupcomm relay``).

    Raises:
        ConfigError: what the relay has written does not suit.
    """
    try:
        with open_unwritable(path, "--via") as file:
            ports = json.load(file)[config.name]
        found = {name: parse_address(text, f"{path}: {name}") for name, text in ports.items()}
    except (OSError, ValueError, LookupError, AttributeError) as error:
        raise ConfigError(
            f"--via {path}: not written by a relay for {config.name}: {error!r}"
        ) from None
    missing = config.addresses.keys() - found.keys() - {config.name}
    if missing:
        raise ConfigError(f"--via {path}: the relay has no path to {', '.join(sorted(missing))}")
    own = config.addresses[config.name]
    return attrs.evolve(config, addresses={**found, config.name: own}, further={}, multicast=None)


def _parse_for_show(path: Path) -> File:
    """Read a file for somebody who runs no daemon with it, so that it matters not whose it is."""
    with path.open("rb") as stream:
        return _parse(path, stream)


def _parse(path: Path, stream: BinaryIO) -> File:
    try:
        table = tomllib.load(stream)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid UTF-8: {error}") from None
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(bool, _strict(bool))
    converter.register_structure_hook(int, _strict(int))
    converter.register_structure_hook(str, _strict(str))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook_func(lambda kind: kind == Where, _where)
    converter.register_structure_hook_func(lambda kind: kind == Texts, _texts)
    try:
        return converter.structure(table, File)
    except BaseValidationError as error:
        first = transform_error(error, path="", format_exception=_in_words)[0]
        what, _, where = first.partition(" @ ")
        key = where.strip("$.") or "the file"
        raise ConfigError(f"{path}: {key}: {what}") from None


def _in_words(error: BaseException, wanted: type | None) -> str:
    own = type(error) in (ValueError, ConfigError)
    return str(error) if own else format_exception(error, wanted)


def _strict(wanted: type) -> Any:
    """TOML has types; `cluster = 5` is a mistake, not "5"."""

    def structure(value: object, _: object) -> object:
        if type(value) is not wanted:
            raise ValueError(f"is {value!r}; it must be of type {wanted.__name__}")
        return value

    return structure


def _where(value: object, _: object) -> Where:
    """An address, or a list of them."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    if not isinstance(value, str):
        raise ValueError(f"is {value!r}; it must be an address, or a list of addresses")
    return value


def _texts(value: object, _: object) -> Texts:
    """A text, or a list of them."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"is {value!r}; it must be a text, or a list of texts")
    return tuple(texts)


def _number(value: object, _: object) -> float:
    """Seconds are written as 2 or as 2.0."""
    if type(value) not in (int, float):
        raise ValueError(f"is {value!r}; it must be a number")
    assert isinstance(value, int | float)
    return float(value)


def _core(
    file: File, sites: Mapping[str, SiteTable], suite: int, advised: tuple[Setting, ...]
) -> CoreConfig:
    if file.preset not in PRESETS:
        raise ConfigError(f"preset is {file.preset!r}; it must be one of {', '.join(PRESETS)}")
    timing = PRESETS[file.preset]
    if len(sites) > 1 or file.links:
        timing = attrs.evolve(timing, longest_delay_s=longest_delay_s(sites, file.links))
    return CoreConfig(
        cluster=file.cluster,
        sites=tuple(tuple(sorted(table.daemons)) for table in sites.values()),
        site_names=tuple(sites),
        link_delays_us=link_delays_us(sites, file.links),
        expected_daemons=file.expected_daemons,
        leave_timeout_s=file.leave_timeout_s,
        advised=advised,
        packet_limit=packet_limit(file.packet_bytes, sites, file.links),
        suite=suite,
        timing=_changed("timing", timing, file.timing),
        windows=_changed("windows", Windows(), file.windows),
    )


def _changed(table: str, base: Any, changes: Mapping[str, float]) -> Any:
    """The base with some fields changed, or an error that names the key."""
    known = attrs.fields_dict(type(base))
    for key in changes:
        if key not in known:
            raise ConfigError(f"{table}: {key} is no key; there are: {', '.join(known)}")
    return attrs.evolve(base, **changes)


def _beyond(addresses: Iterable[tuple[str, Address]], multicast: Address | None) -> str | None:
    """What is beyond loopback, for an error; None if all is on this host."""
    for name, address in addresses:
        if not address.is_loopback:
            return f"{name} at {address}"
    return None if multicast is None else f"multicast at {multicast}"
