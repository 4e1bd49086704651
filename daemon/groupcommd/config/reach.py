"""Addresses of daemons at which others cannot reach them, and why; found before anybody waits."""

import ipaddress
import socket
from collections.abc import Mapping, Sequence

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcommd.config.seeds import Seed

_LOOPBACK = "only programs of its own host can reach that address"


def address_fault(address: Address) -> str:
    """Return why no other daemon can send to an address; "" if nothing speaks against it."""
    host = ipaddress.ip_address(address.host)
    if host.is_unspecified:
        return "it stands for all addresses of a host: name the one that the other daemons send to"
    if host.is_multicast:
        return "it stands for a group of hosts"
    if host.version == 6 and host.is_link_local:
        return (
            "it counts on one link only, and each host has a name of its own for that link, so no"
            " file for all daemons can have it: use a global address, or one of fd00::/8"
        )
    if host.version == 4 and _is_broadcast(address):
        return "it stands for all hosts of a network (broadcast)"
    return ""


def _is_broadcast(address: Address) -> bool:
    """Return whether the system sends to an address only if broadcasts are wanted."""
    return not _can_send(address, broadcasts=False) and _can_send(address, broadcasts=True)


def _can_send(address: Address, *, broadcasts: bool) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, broadcasts)
        try:
            probe.connect((address.host, address.port or 1))  # nothing is sent
        except OSError:
            return False
    return True


def check_reach(daemons: Mapping[str, Sequence[Address | Seed]]) -> None:
    """Check that all daemons of a file can reach each other, as far as their addresses tell.

    Daemons may be on loopback addresses if all are.

    Args:
        daemons: the addresses of all daemons by name, one for each network, or names of hosts.

    Raises:
        ConfigError: two cannot.
    """
    for name, places in daemons.items():
        for at in places:
            if isinstance(at, Address) and (fault := address_fault(at)):
                raise ConfigError(f"daemon {name} is at {at}: {fault}")
    for network in range(max(map(len, daemons.values()), default=0)):
        here = {name: places[network] for name, places in daemons.items() if network < len(places)}
        if text := loopback_fault({n: at for n, at in here.items() if isinstance(at, Address)}):
            raise ConfigError(text)


def loopback_fault(daemons: Mapping[str, Address]) -> str:
    """Return a sentence if some daemons are on loopback addresses, and others are not; else ""."""
    near = [name for name, at in daemons.items() if at.is_loopback]
    far = [name for name in daemons if name not in near]
    if not near or not far:
        return ""
    one, other = near[0], far[0]
    return (
        f"daemon {one} is at {daemons[one]}, and {other} at {daemons[other]}: {_LOOPBACK}; list"
        f" {one} at the address at which the others reach its host"
    )
