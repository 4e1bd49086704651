"""The address of this host, where it is another one than a daemon should have.

A container gets another address when it is started again.
"""

import logging
import socket
from collections.abc import Mapping, Sequence

from groupcomm.host.addresses import Address
from groupcommd.seeds import Seed, look_up

_log = logging.getLogger("groupcommd")


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
    if _is_here(own):
        return None
    for target in (*(at for other, at in addresses.items() if other != name), *_found(seeds)):
        try:
            found = Address(local_address(target), own.port)
        except OSError:
            continue
        if not found.is_loopback or own.is_loopback:
            return found
    return None


def _is_here(address: Address) -> bool:
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
