"""The view that daemons agree on, with its daemons and rings, and the start of a daemon."""

import hashlib
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

import attrs

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.versions import Versions
from groupcomm.errors import ConfigError
from groupcomm.names import daemon_number

MAX_DAEMONS = 1024
MAX_RINGS = 255
"""Packets have one byte for the number of a ring, and for the number of rings."""

MOST_OF_SITE: Final = 80
"""The most daemons of a site: so many numbers of each fit a token that passes every path as move
while all are busy (wire/columns.py), with one stream of another ring: 12 bytes."""

PLAIN_RINGS: Final = 64
"""The most rings of a view in which some daemon lacks the feature CROWDS."""

SAFE_PACKET_BYTES = 1150
"""The size of a packet that passes every path: sealed, with the heads of UDP and IPv6, at most the
1,280 bytes that IPv6 asks of all links (RFC 8200, section 5)."""


def check_size(sizes: Collection[int], most_sites: int = MAX_RINGS) -> None:
    """Raise ConfigError if sites of these sizes have more daemons, or are more, than a view has."""
    daemons, sites, largest = sum(sizes), len(sizes), max(sizes, default=0)
    if daemons > MAX_DAEMONS:
        raise ConfigError(
            f"there are {daemons} daemons; a cluster has at most {MAX_DAEMONS}: have programs of"
            " several hosts use one daemon"
        )
    if sites > most_sites:
        raise ConfigError(
            f"there are {sites} sites; a cluster has at most {most_sites}, as each is a ring of its"
            " own: put hosts of one fast network into one site"
        )
    if largest > MOST_OF_SITE:
        raise ConfigError(
            f"one site has {largest} daemons; a site has at most {MOST_OF_SITE}, as its token has a"
            " row for each: make two sites of it"
        )


RING = -1
"""The destination of a datagram to all other daemons of the sender's ring (multicast)."""


@attrs.frozen(order=True)
class Incarnation:
    """One start of a daemon.

    Attributes:
        restarts: the number of its starts, on disk before its first packet.
        random_id: 64 random bits, so that a lost or cloned disk repeats no identity.
    """

    restarts: int
    random_id: int


incarnation_of = lru_cache(maxsize=1024)(Incarnation)
"""The one object for an incarnation: there are few, in every packet, and compared by identity."""


@attrs.frozen(order=True)
class DaemonId:
    """A daemon of a view: its name and its start."""

    name: str
    incarnation: Incarnation

    number: int = attrs.field(init=False, repr=False, eq=False)  # stands for the view in datagrams

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "number", daemon_number(self.name))


@attrs.frozen(kw_only=True)
class View:
    """An agreed set of daemons with the rings and links that it was agreed on (EVS: configuration).

    Attributes:
        id: its identity.
        daemons: sorted by name; everywhere else a daemon is its index in this tuple.
        rings: for each ring the indices of its daemons, rising; rings sorted by their lowest
            daemon.
        links: pairs (lower, higher) of daemons of two rings that hear each other; each ring is
            reached from each other over one or several of them. At most one pair for two rings.
        delays_us: for each link the configured one-way delay, microseconds, by which ways are
            compared; empty if all are alike.
        clock: the least time of the view's stamps, microseconds.
        packet_limit: the bytes of one datagram's packet, before sealing; the least over all paths.
        data_limit: the bytes of a packet with data, which may travel in segments.
        longest_delay_s: the longest one-way delay between two rings, in seconds; 0 with one ring.
        versions: the versions of the protocol that all daemons speak, of which the view uses the
            highest, and the features that all have, which it uses, too.
        key: 16 bytes that name this view in packets.
        ring_of: for each daemon the index of its ring.
        reports_deliverable: whether its daemons report up to where they can deliver their ring's
            stream.
    """

    id: ViewId
    daemons: tuple[DaemonId, ...]
    rings: tuple[tuple[int, ...], ...]
    links: tuple[tuple[int, int], ...] = ()
    delays_us: tuple[int, ...] = ()
    clock: int = 0
    packet_limit: int = 1340
    data_limit: int = attrs.Factory(lambda self: self.packet_limit, takes_self=True)
    longest_delay_s: float = 0.0
    versions: Versions = attrs.field(factory=Versions)
    key: bytes = attrs.field(init=False, repr=False)
    ring_of: tuple[int, ...] = attrs.field(init=False, repr=False)
    numbers: frozenset[int] = attrs.field(init=False, repr=False, eq=False)
    reports_deliverable: bool = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        names = [daemon.name for daemon in self.daemons]
        if names != sorted(set(names)):
            raise ConfigError(f"view: daemons are {names}; they must be sorted and differ")
        numbers = frozenset(daemon.number for daemon in self.daemons)
        object.__setattr__(self, "numbers", numbers)
        if len(numbers) != len(names):
            raise ConfigError("view: two daemon names share a 64-bit number; rename one of them")
        if not 1 <= len(names) <= MAX_DAEMONS or not 1 <= len(self.rings) <= MAX_RINGS:
            raise ConfigError(
                f"view: {len(names)} daemons in {len(self.rings)} rings; it must have 1 to"
                f" {MAX_DAEMONS} daemons in at most {MAX_RINGS} rings"
            )
        flat = sorted(index for ring in self.rings for index in ring)
        rising = all(ring == tuple(sorted(ring)) and ring for ring in self.rings)
        if flat != list(range(len(names))) or not rising or list(self.rings) != sorted(self.rings):
            raise ConfigError(
                f"view: rings are {self.rings}; each daemon must be in exactly one, in rising order"
            )
        rings = [0] * len(names)
        for ring, members in enumerate(self.rings):
            for index in members:
                rings[index] = ring
        object.__setattr__(self, "ring_of", tuple(rings))
        reports = len(self.rings) > 1 and self.versions.has_local_safe
        object.__setattr__(self, "reports_deliverable", reports)
        self._check_links()
        daemons = _tuple_text([_daemon_text(daemon) for daemon in self.daemons])
        text = f"{self.id}|{daemons}|{self.rings}|{self.links}"
        key = hashlib.blake2b(text.encode(), digest_size=16, person=b"groupcomm view").digest()
        object.__setattr__(self, "key", key)

    @property
    def token_limit(self) -> int:
        """Return the bytes of a token: where packets travel in segments it passes every path."""
        if self.data_limit > self.packet_limit:
            return min(self.packet_limit, SAFE_PACKET_BYTES)
        return self.packet_limit

    def ring_names(self, daemon: DaemonId) -> tuple[str, ...]:
        """Return the names of the daemons of the ring of a daemon of the view."""
        ring = self.rings[self.ring_of[self.daemons.index(daemon)]]
        return tuple(self.daemons[index].name for index in ring)

    def _check_links(self) -> None:
        near: list[list[int]] = [[] for _ in self.rings]
        for one, other in self.links:
            ring, beyond = self.ring_of[one], self.ring_of[other]
            if ring == beyond or one > other:
                raise ConfigError(
                    f"view: link ({one}, {other}) must join two rings, the lower daemon first"
                )
            near[ring].append(beyond)
            near[beyond].append(ring)
        reached, left = {0}, [0]
        while left:
            new = set(near[left.pop()]) - reached
            reached |= new
            left += new
        if len(reached) != len(self.rings):
            raise ConfigError(
                f"view: links are {self.links}; they must join all rings {self.rings}"
            )


# ---- the text whose hash is a view's key, as docs/protocol/packets.md has it ----

_ESCAPED: Final = re.compile(
    "[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000"
    "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]"
)
"""Of the characters that names may have: spaces beyond ASCII, joiners, and private use."""


def quoted(name: str) -> str:
    """Return a name in quotes, as `repr` does for all characters that Unicode 14 has.

    `repr` itself writes later characters in another way under each release of Python, and daemons
    under two of them would compute two keys for one view.
    """
    quote = '"' if "'" in name and '"' not in name else "'"
    text = name.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return f"{quote}{_ESCAPED.sub(_escape, text)}{quote}"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _daemon_text(daemon: DaemonId) -> str:
    start = daemon.incarnation
    return (
        f"DaemonId(name={quoted(daemon.name)}, incarnation=Incarnation(restarts={start.restarts},"
        f" random_id={start.random_id}))"
    )


def _tuple_text(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


@attrs.frozen(kw_only=True)
class Start:
    """One start of one daemon.

    Attributes:
        name: the daemon's name, unique in its cluster.
        incarnation: its restart count, on disk already, and a random id that no start had before.
        counter: numbers up to it, of views and of connections, may have been used by earlier
            starts; 0 if there were none.
        mark: the highest number reserved on disk; 0 if none is.
        write_s: the time that the disk took to count this start.
        daemon: its identity in views.
    """

    name: str
    incarnation: Incarnation
    counter: int = 0
    mark: int = 0
    write_s: float = 0.0
    daemon: DaemonId = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "daemon", DaemonId(self.name, self.incarnation))
