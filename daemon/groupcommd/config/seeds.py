"""Seeds: the daemons that a daemon outside asks, as addresses or as names of DNS.

A daemon's own address may be a name as well: ``db.example.org:4803``, or ``dns:db.example.org``.

``10.0.0.1``, ``10.0.0.1:4803``, ``[::1]:4803``, ``db.example.org:4803`` and ``dns:db.example.org``
(all of its addresses), ``srv:_groupcomm._udp.example.org`` (all that its SRV records name). Names
are looked up in threads, as often as the caller asks: nothing is kept.
"""

import importlib.util
import re
import socket
from typing import Final

import attrs
import trio

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import DEFAULT_PORT, Address, parse_address
from groupcomm.host.extras import install_hint

_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}\.?)+")
SRV: Final = "srv:"
DNS: Final = "dns:"

SRV_S: Final = 2.0
"""A lookup of SRV records that takes longer has failed."""


@attrs.frozen
class Seed:
    """One entry of a list of seeds.

    Attributes:
        host: an address in digits, or a name.
        port: the port; 0 for SRV records, which name it.
        is_name: whether the host is looked up.
    """

    host: str
    port: int
    is_name: bool = False

    def __str__(self) -> str:
        if not self.port:
            return f"{SRV}{self.host}"
        return f"{self.host}:{self.port}" if self.is_name else str(Address(self.host, self.port))


def parse_seed(text: str, key: str) -> Seed:
    """Read one entry; raise ConfigError, with `key` in the text, if it cannot be used."""
    if text.startswith(SRV):
        name = text.removeprefix(SRV)
        if _NAME.fullmatch(name) is None:
            raise ConfigError(
                f"{key}: {text!r} must be srv:NAME, such as srv:_groupcomm._udp.example.org"
            )
        if importlib.util.find_spec("dns") is None:
            raise ConfigError(f"{key}: {text} needs a package: {install_hint('dns')}")
        return Seed(name, 0, is_name=True)
    rest = text.removeprefix(DNS)
    host, colon, digits = rest.partition(":")
    if rest.startswith("[") or _is_address(host if rest.count(":") == 1 else rest):
        address = parse_address(rest, key)
        return Seed(address.host, address.port)
    port = int(digits) if digits.isascii() and digits.isdigit() else 0
    port = port if colon else DEFAULT_PORT
    if _NAME.fullmatch(host) is None or len(host) > 253 or not 0 < port <= 65535:
        raise ConfigError(
            f"{key}: {text!r} must be HOST, HOST:PORT, dns:NAME or srv:NAME, with an address or a"
            " name of DNS as HOST"
        )
    return Seed(host, port, is_name=True)


def parse_host_name(text: str) -> Seed | None:
    """Return the name and the port of a daemon's host; None if the text is anything else.

    ``10.0.0.300`` is a mistake and no name: the last part of a name is never a number.
    """
    try:
        found = parse_seed(text, "address")
    except ConfigError:
        return None
    last = found.host.rstrip(".").rpartition(".")[2]
    return found if found.is_name and found.port and not last.isdigit() else None


def _is_address(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def look_up(seed: Seed) -> list[Address]:
    """Return all addresses of a seed; block as long as that takes.

    Raises:
        OSError: a name is unknown, or no server answers.
    """
    if not seed.is_name:
        return [Address(seed.host, seed.port)]
    if not seed.port:
        found: list[Address] = []
        for host, port in _services(seed.host):
            found += look_up(Seed(host, port, is_name=not _is_address(host)))
        return found
    rows = socket.getaddrinfo(seed.host, seed.port, type=socket.SOCK_DGRAM)
    return list(dict.fromkeys(Address(str(row[4][0]), int(row[4][1])) for row in rows))


def _services(name: str) -> list[tuple[str, int]]:
    """Return host and port of all SRV records of a name, the most wanted first."""
    import dns.exception  # noqa: PLC0415 - an extra, which only SRV records need
    import dns.resolver  # noqa: PLC0415 - the same

    try:
        rows = dns.resolver.resolve(name, "SRV", lifetime=SRV_S, search=True)
    except dns.exception.DNSException as error:
        raise OSError(f"SRV records of {name}: {error}") from None
    found = sorted((row.priority, -row.weight, str(row.target), row.port) for row in rows)
    return [(target.rstrip("."), port) for _, _, target, port in found]


async def look_up_off_the_loop(seed: Seed) -> list[Address]:
    """Return all addresses of a seed, looked up in a thread; see `look_up`."""
    if not seed.is_name:
        return look_up(seed)
    return await trio.to_thread.run_sync(look_up, seed, abandon_on_cancel=True)
