"""The address of this host, where it is another one than a daemon should have, or has a name.

A container gets another address when it is started again.
"""

import logging
import socket
from collections.abc import Mapping, Sequence

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcommd.config.seeds import Seed, look_up

_log = logging.getLogger("groupcommd")


class HostUnknown(ConfigError):
    """The host of this daemon has a name, and its address cannot be found now."""


def local_address(target: Address) -> str:
    """Return the address of this host from which datagrams to a target go.

    Raises:
        OSError: there is no way to the target.
    """
    family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((target.host, target.port))
        return str(probe.getsockname()[0])


def present_address(
    name: str, addresses: Mapping[str, Address], seeds: Sequence[Seed]
) -> Address | None:
    """Return the address of this host, with a daemon's port, if the daemon's own one is elsewhere.

    Args:
        name: the name of the daemon.
        addresses: the addresses of all daemons, by name.
        seeds: the daemons to which the way leads, if there are no others.

    Returns:
        None if the daemon can listen where it should, or there is no way to another daemon.
    """
    own = addresses[name]
    if is_here(own):
        return None
    for target in (*(at for other, at in addresses.items() if other != name), *_found(seeds)):
        try:
            found = Address(local_address(target), own.port)
        except OSError:
            continue
        if not found.is_loopback or own.is_loopback:
            return found
    return None


def own_address(name: str, host: Seed, others: Sequence[Address], seeds: Sequence[Seed]) -> Address:
    """Return the address of this host for a daemon that is listed with a name.

    It is one that the name leads to; if none of them is here, as behind a translation of addresses,
    that of the way to another daemon. A loopback address counts only if all daemons have one:
    Debian's /etc/hosts has the name of its own host lead to 127.0.1.1.

    Args:
        name: the name of the daemon.
        host: the name of its host.
        others: the addresses of other daemons.
        seeds: names of their hosts, and further daemons.

    Raises:
        HostUnknown: there is none now.
    """
    try:
        found = look_up(host)
    except OSError as error:
        here = []
        fault = f"{host} cannot be looked up: {error.strerror or error}"
    else:
        here = sorted(filter(is_here, found), key=lambda each: each.is_loopback)
        if here and not here[0].is_loopback:
            return here[0]
        what = "where only this host reaches it" if here else "not to this host"
        fault = f"{host} leads to {', '.join(str(each.host) for each in found)}, {what}"
    targets = [*others, *_found(seeds)]
    are_all = len(targets) >= len(others) + len(seeds)
    if here and are_all and all(target.is_loopback for target in targets):
        return here[0]
    for target in targets:
        if here and target.is_loopback:
            continue
        try:
            address = Address(local_address(target), host.port)
        except OSError:
            continue
        if address.is_loopback == target.is_loopback:
            _log.warning("%s: this daemon listens at %s, on the way to %s", fault, address, target)
            return address
    raise HostUnknown(
        f"the address of this daemon, {name}, is not known: {fault}, and there is no way to another"
        " daemon; repair the name, or list this daemon with an address in digits"
    )


def is_here(address: Address) -> bool:
    """Return whether this host has an address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address.host, 0))
        except OSError:
            return False
    return True


def _found(seeds: Sequence[Seed]) -> list[Address]:
    found: list[Address] = []
    for seed in seeds:
        try:
            found += look_up(seed)
        except OSError as error:
            _log.warning("%s cannot be looked up: %s", seed, error)
    return found
