"""The configuration file of a daemon: TOML, checked completely before anything is opened.

docs/reference/configuration.md has every key. Errors name the key, its value and the rule.

Datagrams are sealed unless a configuration says ``insecure``. Daemons that are all on this host and
of one user need no ``key_file`` for that: the first one that starts makes a key, and the others
find it.
"""

import errno
import json
import os
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import attrs
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.v import format_exception

from groupcomm.config.core import PRESETS, CoreConfig, Setting, Windows
from groupcomm.config.roster import Roster
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    Address,
    parse_address,
    state_folder,
    user_path,
)
from groupcomm.host.key_file import make_common_key, read_key_file
from groupcomm.host.private_files import open_unwritable
from groupcomm.host.toml_file import load_toml
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_AES_GCM, SUITE_IDENTITIES, SUITE_NONE
from groupcommd.config.client_tables import (
    Texts,
    read_access,
    read_limits,
    read_spread_addresses,
    read_spread_unix,
    read_tcp,
    read_tls,
    read_unix,
)
from groupcommd.config.config_tables import ConfigFile
from groupcommd.config.daemon_config import MAX_DRAIN_S, DaemonConfig
from groupcommd.config.http_table import read_http
from groupcommd.config.present_address import own_address, present_address
from groupcommd.config.reach import check_reach
from groupcommd.config.roster_config import Places, host_names, overruled, places_of
from groupcommd.config.seeds import Seed, parse_seed
from groupcommd.config.site_tables import (
    MOST_PACKET_BYTES,
    Addresses,
    AddressOrName,
    SiteTable,
    advised_settings,
    link_delays_us,
    longest_delay_s,
    packet_limit,
    read_daemons,
    read_multicast,
)
from groupcommd.files.identity_file import read_identity, read_roll
from groupcommd.files.state_owner import RECORD, Owner, read_owner

DEFAULT_NAME: Final = "local"


class KeyFileMissing(ConfigError):
    """There is no key file where the configuration says.

    Attributes:
        fault: what is missing.
        remedy: what to do.
    """

    def __init__(self, path: Path) -> None:
        self.fault = f"key_file {path}: {os.strerror(errno.ENOENT)}"
        self.remedy = (
            "copy it from another daemon of the cluster, or make the first one with: groupcomm"
            f" keygen {path}"
        )
        super().__init__(f"{self.fault}: {self.remedy}")


def read_config(
    path: Path | None,
    *,
    name: str | None,
    state_dir: Path | None,
    make_key: bool = False,
    roster: Roster | None = None,
    own: Address | None = None,
) -> DaemonConfig:
    """Read a configuration; without a file, return that of a daemon that runs alone.

    Args:
        path: the file; None for a daemon alone on loopback.
        name: the daemon's name, in place of the one in the file.
        state_dir: the state folder, in place of the one in the file.
        make_key: whether to make a key if the daemons of this host have none; a command that only
            reads a configuration changes nothing.
        roster: the roster that the cluster has agreed on, with this daemon, in place of the daemons
            in the file; None while those of the file count.
        own: the address of this daemon, if it is known; else the name of its host is looked up.

    Raises:
        HostUnknown: the name of this daemon's host leads nowhere now.
        ConfigError: something is wrong, which the text names; or others may change or replace
            the file.
        OSError: the file cannot be read.
    """
    file, base = _load(path)
    name = _name(path, name or file.name)
    file = with_joined(file, state := _state_dir(state_dir, base, file, name))
    sites = file.sites or {"local": SiteTable(daemons={name: f"{DEFAULT_HOST}:{DEFAULT_PORT}"})}
    listed = read_daemons(sites, name)
    daemons, names, moved = _locate(file, name, listed, roster, own)
    addresses = {daemon: found[0] for daemon, found in daemons.items()}
    multicast = read_multicast(sites, name)
    beyond = _beyond(daemons, names, multicast)
    protection = read_protection(_written(file), base, beyond=beyond, make_key=make_key)
    core = _core(file, sites, protection.suite, advised_settings(sites, listed), listed)
    config = DaemonConfig(
        name=name,
        file=path,
        core=core if roster is None else core.with_roster(roster),
        addresses=addresses,
        names=names,
        further={daemon: found[1:] for daemon, found in daemons.items() if found[1:]},
        multicast=multicast,
        overruled=_overruled(core, listed, roster),
        keys=protection.keys,
        key_file=protection.key_file,
        identity=protection.identity,
        roll=protection.roll,
        identities=protection.identities,
        **_for_programs(file, name, addresses[name], base),
        **_for_itself(file),
        state_dir=state,
        moved=moved,
    )
    if config.credentials is not None:
        config.credentials.check(config.name, config.core.daemons if roster is None else ())
    return config


def _split(
    listed: Mapping[str, tuple[AddressOrName, ...]],
) -> tuple[dict[str, tuple[Address, ...]], dict[str, Seed]]:
    """Return the addresses of daemons, and the names of the hosts of others."""
    addresses = {
        daemon: tuple(each for each in found if isinstance(each, Address))
        for daemon, found in listed.items()
    }
    names = {daemon: found[0] for daemon, found in listed.items() if isinstance(found[0], Seed)}
    return {daemon: found for daemon, found in addresses.items() if found}, names


def _overruled(
    core: CoreConfig, listed: Mapping[str, tuple[AddressOrName, ...]], roster: Roster | None
) -> tuple[str, ...]:
    """Return the parts of the file that the roster overrules."""
    return () if roster is None else tuple(overruled(core.roster, _split(listed)[0], roster))


def _locate(
    file: ConfigFile,
    name: str,
    listed: Mapping[str, tuple[AddressOrName, ...]],
    roster: Roster | None,
    own: Address | None,
) -> tuple[dict[str, tuple[Address, ...]], dict[str, Seed], bool]:
    """Return the addresses of daemons, the names of the hosts of others, and whether this daemon
    has moved; see `read_config`. The addresses of a file are checked.
    """
    daemons, names = _split(listed)
    moved = False
    if roster is not None:
        names = host_names(roster)
        daemons, moved = _agreed(file, name, daemons, names, roster)
    if name in names:
        daemons[name] = (own or _own_address(name, names, daemons, file.seeds),)
    if roster is None and len(listed) > 1:
        check_reach({**listed, name: daemons[name]})
    return daemons, names, moved


def _own_address(
    name: str, names: Mapping[str, Seed], daemons: Places, seeds: Iterable[str]
) -> Address:
    others = [found[0] for daemon, found in daemons.items() if daemon != name]
    hosts = [host for daemon, host in names.items() if daemon != name]
    return own_address(name, names[name], others, (*hosts, *read_seeds(seeds)))


def _agreed(
    file: ConfigFile, name: str, listed: Places, names: Mapping[str, Seed], roster: Roster
) -> tuple[dict[str, tuple[Address, ...]], bool]:
    """Return the addresses of the daemons of an agreed roster, and whether the own one is another.

    That is so if the daemon has seeds, and its host has no address that the roster has.
    """
    # Daemons that it does not have any more are told so.
    daemons = {**listed, **places_of((*roster.removed, *roster.entries), listed)}
    if not file.seeds or name in names or len(daemons[name]) > 1:
        return daemons, False
    first = {daemon: found[0] for daemon, found in daemons.items()}
    present = present_address(name, first, read_seeds(file.seeds))
    return ({**daemons, name: (present,)}, True) if present else (daemons, False)


def _name(path: Path | None, name: str | None) -> str:
    if name is None and path is not None:
        raise ConfigError(f"{path}: the name of this daemon is missing: set name, or give --name")
    return name or DEFAULT_NAME


JOINED: Final = "joined.toml"
"""The file in the state folder of a daemon that has joined with a token; see docs/joining.md."""


def with_joined(file: ConfigFile, state: Path) -> ConfigFile:
    """Return the contents of a file with the settings of the cluster that the daemon has joined.

    Args:
        file: the contents of the daemon's own file.
        state: its state folder.

    Raises:
        ConfigError: the settings are damaged, or others could have changed them.
    """
    path = state / JOINED
    try:
        with open_unwritable(path, "state_dir") as stream:
            joined = _parse(path, stream)
    except (FileNotFoundError, NotADirectoryError):
        return file
    key_file, identities = (
        None if text is None else str(state.absolute() / text)
        for text in (joined.key_file, joined.identities)
    )
    return attrs.evolve(
        file,
        cluster=joined.cluster,
        key_file=key_file,
        identities=identities,
        insecure=joined.insecure,
        packet_bytes=joined.packet_bytes,
        preset=joined.preset,
        timing=joined.timing,
        sites=joined.sites,
        links={},
        expected_daemons=None,
        seeds=file.seeds or joined.seeds,
    )


def read_seeds(texts: Iterable[str]) -> tuple[Seed, ...]:
    """Return the daemons to ask; raise ConfigError for a text that is none."""
    return tuple(parse_seed(text, "seeds") for text in texts)


@attrs.frozen(kw_only=True)
class JoinWish:
    """What a file says about joining.

    Attributes:
        name: the name of the daemon.
        state_dir: its state folder.
        seeds: the daemons to ask.
        own: its own addresses, as text; () if they are not listed.
        identity: the file of its private key; None without one.
    """

    name: str
    state_dir: Path
    seeds: tuple[Seed, ...]
    own: tuple[str, ...]
    identity: Path | None


def read_join_wish(
    path: Path | None, *, name: str | None, state_dir: Path | None, default: str | None
) -> JoinWish:
    """Return what a daemon has to know to join, whatever else is missing in its file.

    Args:
        path: the file; None without one.
        name: the daemon's name, in place of the one in the file.
        state_dir: the state folder, in place of the one in the file.
        default: the daemon's name if there is none in the file.

    Raises:
        ConfigError: the file is wrong.
        OSError: the file cannot be read.
    """
    file, base = _load(path)
    name = name or file.name or default or DEFAULT_NAME
    listed = [table.daemons[name] for table in file.sites.values() if name in table.daemons]
    own = listed[0] if listed else []
    return JoinWish(
        name=name,
        state_dir=_state_dir(state_dir, base, file, name),
        seeds=read_seeds(file.seeds),
        own=(own,) if isinstance(own, str) else tuple(own),
        identity=base / user_path(file.identity) if file.identity else None,
    )


def _for_itself(file: ConfigFile) -> dict[str, Any]:
    """Return the fields of the configuration that concern neither programs nor other daemons."""
    return {
        "seeds": read_seeds(file.seeds),
        "disk_timeout_s": _above_zero("disk_timeout_s", file.disk_timeout_s),
        "drain_s": _drain_s(file.drain_s),
        "insecure": file.insecure,
        "spin": file.spin,
    }


def _for_programs(file: ConfigFile, name: str, own: Address, base: Path) -> dict[str, Any]:
    """Return the fields of the configuration that concern programs."""
    return {
        "limits": read_limits(file.clients),
        "unix": read_unix(file.clients, base, name),
        "unix_for": file.clients.unix_for,
        "tcp": read_tcp(file.clients, own),
        "spread": file.clients.spread,
        "spread_addresses": read_spread_addresses(file.clients, own),
        "spread_unix": read_spread_unix(file.clients, base),
        "tls": read_tls(file.clients, own, base),
        "http": read_http(file.http, base),
        "quotas": file.clients.quotas,
        "access": read_access(file.access),
    }


def _load(path: Path | None) -> tuple[ConfigFile, Path]:
    """Return the contents of a file, and the folder that paths in it are relative to."""
    if path is None:
        return ConfigFile(), Path()
    with open_unwritable(path, "configuration") as stream:
        return _parse(path, stream), path.parent


def _above_zero(key: str, value: float) -> float:
    if not value > 0:
        raise ConfigError(f"{key} is {value}; it must be above 0")
    return value


def _drain_s(value: float) -> float:
    if not 0 <= value <= MAX_DRAIN_S:
        raise ConfigError(f"drain_s is {value}; it must be 0 to {MAX_DRAIN_S:g}")
    return value


def _state_dir(told: Path | None, base: Path, file: ConfigFile, name: str) -> Path:
    if told is not None:
        return user_path(told)
    if file.state_dir:
        return base / user_path(file.state_dir)
    return _default_state_dir(Owner(file.cluster, name))


def _default_state_dir(owner: Owner) -> Path:
    """Return the folder by cluster and name; a folder by name alone is used on if it may be its.

    Earlier releases made such folders, and daemons of one name in several clusters shared them.
    """
    cluster = quote(owner.cluster, safe="")
    own = state_folder() / (cluster if cluster.strip(".") else f"%{cluster}") / owner.daemon
    former = state_folder() / owner.daemon
    if own.exists() or not (former / RECORD).exists():
        return own
    return former if read_owner(former) in (None, owner) else own


def read_addresses(path: Path) -> dict[str, Address]:
    """Return the first address of each daemon in a file, by name.

    Raises:
        ConfigError: the file is wrong.
        OSError: the file cannot be read.
    """
    sites = _parse_for_show(path).sites
    first = next((name for table in sites.values() for name in table.daemons), None)
    if first is None:
        raise ConfigError(f"{path}: no daemons are listed: list them in sites.NAME.daemons")
    found = read_daemons(sites, first)
    addresses, names = _split(found)
    if names:
        raise ConfigError(f"{path}: {', '.join(names)}: listed with a name; use digits here")
    return {name: at[0] for name, at in addresses.items()}


def read_sites(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the daemons of each site in a file, by the site's name.

    Raises:
        ConfigError: the file is wrong.
        OSError: the file cannot be read.
    """
    return {site: tuple(table.daemons) for site, table in _parse_for_show(path).sites.items()}


def through_relay(config: DaemonConfig, path: Path) -> DaemonConfig:
    """Return the configuration with which a daemon reaches the others by ``groupcomm relay``.

    Raises:
        ConfigError: the file of the relay does not fit the configuration.
    """
    try:
        with open_unwritable(path, "--via") as file:
            ports = json.load(file)[config.name]
        found = {name: parse_address(text, f"{path}: {name}") for name, text in ports.items()}
    except (OSError, ValueError, LookupError, AttributeError) as error:
        raise ConfigError(
            f"--via {path}: no relay has written this file for {config.name}: {error!r}"
        ) from None
    missing = config.known - found.keys() - {config.name}
    if missing and config.core.agreed is None:
        raise ConfigError(f"--via {path}: the relay has no path to {', '.join(sorted(missing))}")
    there = {**config.addresses, **found}
    own = config.addresses[config.name]
    return attrs.evolve(
        config,
        addresses={**{name: there[name] for name in config.known & there.keys()}, config.name: own},
        further={},
        multicast=None,
        relayed=found,
    )


def _parse_for_show(path: Path) -> ConfigFile:
    """Read a file without running a daemon with it, so that its owner does not matter."""
    with path.open("rb") as stream:
        return _parse(path, stream)


def _parse(path: Path, stream: BinaryIO) -> ConfigFile:
    try:
        table = load_toml(stream)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(bool, _strict(bool))
    converter.register_structure_hook(int, _strict(int))
    converter.register_structure_hook(str, _strict(str))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook_func(lambda kind: kind == Addresses, _where)
    converter.register_structure_hook_func(lambda kind: kind == Texts, _texts)
    try:
        return converter.structure(table, ConfigFile)
    except BaseValidationError as error:
        first = transform_error(error, path="", format_exception=_in_words)[0]
        what, _, where = first.partition(" @ ")
        key = where.strip("$.") or "the file"
        raise ConfigError(f"{path}: {key}: {what}") from None


def _in_words(error: BaseException, wanted: type | None) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        return _unknown_keys(error)
    if isinstance(error, KeyError):
        return "this key is missing"
    if isinstance(error, TypeError | AttributeError):
        return "it must be a table, with keys and values"
    own = type(error) in (ValueError, ConfigError)
    return str(error) if own else format_exception(error, wanted)


def _unknown_keys(error: ForbiddenExtraKeysError) -> str:
    known = sorted(each.alias for each in attrs.fields(error.cl))
    return _unknown_key(min(error.extra_fields), known)


def _unknown_key(one: str, known: Collection[str]) -> str:
    near = get_close_matches(one, known, 1)
    meant = f" (is {near[0]} meant?)" if near else ""
    return f"{one} is no key{meant}; there are: {', '.join(known)}"


def _strict(wanted: type) -> Any:
    """Return a hook that accepts one type of TOML: `cluster = 5` is a mistake, not "5"."""

    def structure(value: object, _: object) -> object:
        if type(value) is not wanted:
            raise ValueError(f"is {value!r}; it must be of type {wanted.__name__}")
        return value

    return structure


def _where(value: object, _: object) -> Addresses:
    """Check an address, or a list of addresses."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    if not isinstance(value, str):
        raise ValueError(f"is {value!r}; it must be an address, or a list of addresses")
    return value


def _texts(value: object, _: object) -> Texts:
    """Check a text, or a list of texts."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"is {value!r}; it must be a text, or a list of texts")
    return tuple(texts)


def _number(value: object, _: object) -> float:
    """Check a number: seconds are written as 2 or as 2.0."""
    if type(value) not in (int, float):
        raise ValueError(f"is {value!r}; it must be a number")
    assert isinstance(value, int | float)
    if not isfinite(value):
        raise ValueError(f"is {value}; it must be a finite number")
    return float(value)


def _core(
    file: ConfigFile,
    sites: Mapping[str, SiteTable],
    suite: int,
    advised: tuple[Setting, ...],
    places: Mapping[str, tuple[AddressOrName, ...]],
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
        segmented_limit=0 if len(sites) > 1 else MOST_PACKET_BYTES,
        suite=suite,
        timing=_changed("timing", timing, file.timing),
        windows=_changed("windows", Windows(), file.windows),
        addresses={name: tuple(map(str, found)) for name, found in places.items()},
        fixed_delay_s=file.timing.get("longest_delay_s"),
    )


def _changed(table: str, base: Any, changes: Mapping[str, float]) -> Any:
    """Return the base with some fields changed; raise ConfigError for an unknown one."""
    known = attrs.fields_dict(type(base))
    for key in changes:
        if key not in known:
            raise ConfigError(f"{table}: {_unknown_key(key, known)}")
    return attrs.evolve(base, **changes)


def _beyond(daemons: Places, names: Mapping[str, Seed], multicast: Address | None) -> str | None:
    """Return the part that is beyond loopback, for an error; None if everything is on this host.

    The name of a host may lead anywhere.
    """
    found = [(name, each) for name, addresses in daemons.items() for each in addresses]
    for name, where in (*names.items(), *(each for each in found if not each[1].is_loopback)):
        return f"{name} at {where}"
    return None if multicast is None else f"multicast at {multicast}"


@attrs.frozen(kw_only=True)
class Written:
    """The keys of a configuration that are about the protection of datagrams."""

    cluster: str
    key_file: str | None
    identity: str | None
    identities: str | None
    insecure: bool


def _written(file: ConfigFile) -> Written:
    return Written(**{key: getattr(file, key) for key in attrs.fields_dict(Written)})


@attrs.frozen(kw_only=True)
class Protection:
    """The protection of datagrams: the suite, and the contents of its files.

    Attributes:
        suite: 0 to 2, see groupcomm/security.
        key_file: the file of the keys, which is rewritten when daemons agree on others.
        keys: its keys; None in suite 0, and until a daemon's first start makes them.
        identity: the daemon's private key; None if daemons have no identities.
        identities: the file of `roll`, which is rewritten when a daemon is evicted.
        roll: the trusted identities; None if `identity` is None.
    """

    suite: int
    key_file: Path | None = None
    keys: KeyRing | None = attrs.field(default=None, repr=False)
    identity: bytes | None = attrs.field(default=None, repr=False)
    identities: Path | None = None
    roll: Roll | None = None


def read_protection(
    written: Written, base: Path, *, beyond: str | None, make_key: bool
) -> Protection:
    """Read the files that a configuration names.

    Args:
        written: the keys of the configuration.
        base: the folder that paths are relative to.
        beyond: the part that is beyond loopback, such as ``press at 10.0.0.1``; None if there is
            none.
        make_key: whether to make a key for the daemons of this host, if they need one.

    Raises:
        ConfigError: a file is missing, wrong, or open to others.
        OSError: a file cannot be read.
    """
    _check_pairs(written)
    if written.key_file is None:
        return _unnamed(written, beyond, make_key=make_key)
    key_file, identity, identities = (
        base / user_path(text) if text else None
        for text in (written.key_file, written.identity, written.identities)
    )
    assert key_file is not None
    return Protection(
        suite=SUITE_AES_GCM if identity is None else SUITE_IDENTITIES,
        key_file=key_file,
        keys=_named_keys(key_file),
        identity=read_identity(identity) if identity is not None else None,
        identities=identities,
        roll=read_roll(identities) if identities is not None else None,
    )


def _named_keys(path: Path) -> KeyRing:
    try:
        return read_key_file(path)
    except FileNotFoundError:
        raise KeyFileMissing(path) from None


def _check_pairs(written: Written) -> None:
    if bool(written.identity) != bool(written.identities):
        there, missing = "identity", "identities"
        if not written.identity:
            there, missing = missing, there
        raise ConfigError(f"{there} is set and {missing} is not: daemons need both, or neither")
    if written.identity and not written.key_file:
        raise ConfigError("identity is set and key_file is not: identities need both")


def _unnamed(written: Written, beyond: str | None, *, make_key: bool) -> Protection:
    """Use the key file for all daemons of this user on this host, as none is named."""
    if written.insecure:
        return Protection(suite=SUITE_NONE)
    if beyond is not None:
        raise ConfigError(
            f"key_file is missing, and {beyond} is beyond loopback: anybody there could join;"
            " make a key with: groupcomm keygen, or set insecure = true"
        )
    path = state_folder() / f"{quote(written.cluster, safe='')}.key"
    if make_key:
        try:
            make_common_key(path)
        except OSError as error:
            raise ConfigError(
                f"a key for the daemons of this host cannot be made: {error}; set key_file, or"
                " insecure = true"
            ) from None
    keys = read_key_file(path) if path.exists() else None
    return Protection(suite=SUITE_AES_GCM, key_file=path, keys=keys)
