"""Settings of one daemon's core: members, timeouts, windows, limits, and first values of
counters."""

from collections.abc import Collection, Hashable, Mapping
from functools import cached_property
from itertools import product
from math import inf
from typing import Final, TypeAlias, TypeVar

import attrs

from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.config.versions import SPOKEN, Versions
from groupcomm.config.view import MAX_RINGS, check_size
from groupcomm.errors import ConfigError
from groupcomm.names import check_daemon


@attrs.frozen(kw_only=True)
class Rekeying:
    """Limits of an epoch, the time in which a daemon seals with the same keys.

    RFC 9001, section 6.6: at most 2**23 packets with one key of AES-GCM, and 2**52 that fail to
    open.
    """

    epoch_packets: int = 2**23
    epoch_s: float = 600.0  # a stolen key opens only datagrams of this time
    lifetime_s: float = 5.0  # the life of a packet in flight; an old key is kept for two of them
    failures: int = 2**36  # below the RFC's limit, and above the number of failures in an epoch

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not value > 0:
                raise ConfigError(f"rekeying: {name} is {value}; it must be above 0")


MAX_LEAVE_S = 3600.0

MAX_FORMER: Final = 64
"""The daemons of earlier rosters that a daemon remembers."""

UNKNOWN_DELAY_S: Final = 0.1
"""The one-way delay between two sites where no link tells it: most paths on earth are shorter."""

Setting: TypeAlias = tuple[str, tuple[str, ...]]
"""The key of a setting as in a file, and its value: a text, or one for each entry of a list."""


@attrs.frozen(kw_only=True)
class CounterStarts:
    """The first values of counters: zero in production; near 2**31, 2**32 and 2**63 in tests."""

    stream: int = 0  # the number before the first packet of every stream of the view
    hop: int = 0  # the token's first hop
    clock: int = 0  # microseconds; the least value of the ring's clock
    unreliable: int = 0  # the counter of datagrams outside the streams
    datagram: int = 0  # the nonces of sealed datagrams
    connection: int = 0  # the numbers of this daemon's sessions


@attrs.frozen(kw_only=True)
class Timing:
    """Timeouts of the ring, of membership, and of the notices between rings, in seconds."""

    token_timeout_s: float = 0.6  # without token or rest notice for this long the ring is broken
    token_retransmit_s: float = 0.02  # many LAN rotations; a lost token costs this time once
    linger_s: float = 0.001  # a token stays this long after a message; a loss costs it once
    request_retry_s: float = 0.01  # a lost token request costs this time once
    repair_delay_s: float = 0.002  # for this long reordering explains a foreign gap
    horizon_interval_max_s: float = 0.005  # between notices while the agreed order is in use
    horizon_interval_min_s: float = 0.001  # at least between notices, also if others wait for them
    agreed_memory_s: float = 2.0  # for this long the agreed order counts as in use
    longest_delay_s: float = 0.0  # the delay one way between any two sites; 0 with one site
    beacon_interval_s: float = 0.12  # five of them fit a token timeout
    join_interval_s: float = 0.01  # a lost control message costs this time once
    gather_wait_s: float = 0.05  # a live daemon of this site answers in it, also under load

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not (value > 0 or (name in ("longest_delay_s", "linger_s") and value == 0)):
                raise ConfigError(f"timing: {name} is {value}; it must be above 0")
        if self.token_retransmit_s * 4 > self.token_timeout_s:
            raise ConfigError(
                f"timing: token_retransmit_s is {self.token_retransmit_s}; at least four copies"
                f" must fit into token_timeout_s = {self.token_timeout_s}"
            )

    @property
    def longest_wait_s(self) -> float:
        """Return the most seconds between repeated tokens or requests; many fit a token timeout."""
        return self.token_timeout_s / 12

    @property
    def answer_wait_s(self) -> float:
        """Return the seconds in which a live daemon of any site answers, also under load."""
        return self.gather_wait_s + 2.1 * self.longest_delay_s

    @property
    def repeat_s(self) -> float:
        """Return the seconds between repetitions of a control message."""
        return max(self.join_interval_s, self.longest_delay_s / 4)

    @property
    def repair_again_s(self) -> float:
        """Return the seconds after which a packet of the old view counts as lost.

        A daemon that still says then that it lacks the packet has said so after the packet should
        have come.
        """
        return 2.1 * self.longest_delay_s + 2 * self.repeat_s

    @property
    def rest_interval_s(self) -> float:
        """Return the seconds between rest notices, and between rounds to collect frontiers."""
        return self.token_timeout_s / 4


@attrs.frozen(kw_only=True)
class Windows:
    """Flow control of one ring.

    The packets of one rotation must fit the socket buffers of every receiver, because a full buffer
    drops silently. Its size shows by the losses (see ring/flow_control.py).
    """

    visit_bytes: int = 256 * 1024  # new packets of one handling of the token, at the beginning
    ring_bytes: int = 2 * 1024 * 1024  # new packets of one rotation, for all daemons
    ahead_bytes: int = 768 * 1024  # packets that some daemon of the ring does not hold, of all
    repair_bytes: int = 256 * 1024  # retransmissions of one handling of the token
    stream_packets: int = 8192  # numbered packets that some daemon of the view does not hold yet
    stream_bytes: int = 8 * 1024 * 1024  # the bytes of these packets, if they are full

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if value < 1:
                raise ConfigError(f"windows: {name} is {value}; it must be at least 1")


@attrs.frozen(kw_only=True)
class RightLimits:
    """The limits of a daemon's rights only to send to names of other sites; tests lower them.

    Attributes:
        most: the most that it keeps while no message waits for them.
        idle_s: one that is not used for so long is given back, before twice that time.
    """

    most: int = 1024
    idle_s: float = 60.0


@attrs.frozen(kw_only=True)
class CoreConfig:
    """The settings of a core.

    Attributes:
        cluster: name of the cluster; datagrams of others are dropped.
        suite: 2 seals datagrams with AES-256-GCM and secrets of daemons that have identities, 1
            with AES-256-GCM and the key ring alone, 0 adds a CRC32C only.
        sites: the names of all daemons that may be members, by site; the same at all of them.
        link_delays_us: one-way delays between neighbouring sites, as (site, site, microseconds)
            with indices into `sites`; packets take the paths with the least sum. Empty: the paths
            over the fewest links. A pair that is not listed has the longest delay of any two sites.
        expected_daemons: the number of daemons of which more than half are a majority; None: of all
            listed ones.
        packet_limit: the bytes of one datagram's packet, before sealing.
        segmented_limit: the bytes of a packet that may travel in segments, before sealing, in views
            of one ring whose daemons all join segments; 0: no packet does.
        most_rings: the most rings of a view, and so the most sites; tests lower it.
        few_daemons: up to so many daemons, joins are passed on at once, messages about views are
            said in full, and horizon notices go to all; with more, what that costs counts. Tests
            lower it.
        many_daemons: with more of them at several sites, two daemons of each site pass messages
            about views on between the sites (membership/relays.py). Tests lower it.
        token_bytes: the most bytes of a token, if it may have fewer than a packet. Tests lower it.
        site_names: the names of `sites`, in their order, for people; empty if sites have none.
        advised: further settings that should be equal at all daemons; see shared.py.
        leave_timeout_s: after this time a daemon leaves even if it could not do so in order.
        agreed: the roster that the cluster has agreed on, from which `sites`, `site_names`,
            `link_delays_us` and `expected_daemons` were made; None while those of the file count.
        addresses: the addresses of daemons, by name, for the first change of the roster.
        former: daemons that earlier rosters and files have had: if they are heard, they are told
            that the agreed one does not have them.
        fixed_delay_s: the longest delay between two sites, in place of the one that follows from
            the links of an agreed roster; None: that one counts.
        versions: the versions of the protocol that it speaks, and its features.
        rights: the limits of its rights to send.
    """

    cluster: str = "groupcomm"
    sites: tuple[tuple[str, ...], ...] = ()
    site_names: tuple[str, ...] = ()
    link_delays_us: tuple[tuple[int, int, int], ...] = ()
    expected_daemons: int | None = None
    packet_limit: int = 1340
    segmented_limit: int = 0
    most_rings: int = MAX_RINGS
    few_daemons: int = 16
    many_daemons: int = 128
    token_bytes: int = 2**16
    suite: int = 1
    timing: Timing = attrs.field(factory=Timing)
    windows: Windows = attrs.field(factory=Windows)
    rekeying: Rekeying = attrs.field(factory=Rekeying)
    starts: CounterStarts = attrs.field(factory=CounterStarts)
    advised: tuple[Setting, ...] = ()
    leave_timeout_s: float = 5.0
    agreed: Roster | None = None
    addresses: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    former: tuple[str, ...] = ()
    fixed_delay_s: float | None = None
    versions: Versions = SPOKEN
    rights: RightLimits = attrs.field(factory=RightLimits)

    def __attrs_post_init__(self) -> None:
        names = self.daemons
        for name in names:
            check_daemon(name)
        if len(set(names)) != len(names) or not all(self.sites):
            raise ConfigError(
                f"sites are {self.sites}; each must have a daemon, and all names must differ"
            )
        if self.site_names and len(self.site_names) != len(self.sites):
            raise ConfigError(
                f"site_names are {self.site_names}; there must be one for each of the"
                f" {len(self.sites)} sites"
            )
        if not 0 <= self.leave_timeout_s <= MAX_LEAVE_S:
            raise ConfigError(
                f"leave_timeout_s is {self.leave_timeout_s:g}; it must be 0 to {MAX_LEAVE_S:g}"
            )
        for one, other, delay_us in self.link_delays_us:
            if not 0 <= min(one, other) <= max(one, other) < len(self.sites) or delay_us < 0:
                raise ConfigError(
                    f"link_delays_us: ({one}, {other}, {delay_us}) joins no two of"
                    f" {len(self.sites)} sites, or its delay is below 0"
                )
        if not 1 <= self.most_rings <= MAX_RINGS:
            raise ConfigError(f"most_rings is {self.most_rings}; it must be 1 to {MAX_RINGS}")
        check_size([len(site) for site in self.sites], self.most_rings)
        if self.expected_daemons is not None and self.expected_daemons < 1:
            raise ConfigError(f"expected_daemons is {self.expected_daemons}; it must be above 0")

    @cached_property
    def daemons(self) -> tuple[str, ...]:
        """Return the names of all listed daemons, sorted."""
        return tuple(sorted(name for site in self.sites for name in site))

    @property
    def is_large(self) -> bool:
        """Return whether there are so many daemons that few messages count for more than time."""
        return len(self.daemons) > self.few_daemons

    @property
    def has_relays(self) -> bool:
        """Return whether there are so many daemons that few of a site speak with other sites."""
        return len(self.sites) > 1 and len(self.daemons) > self.many_daemons

    def site_of(self, name: str) -> tuple[str, ...]:
        """Return the daemons of the site of a daemon; of one that is not listed, only itself."""
        return next((site for site in self.sites if name in site), (name,))

    @cached_property
    def roster(self) -> Roster:
        """Return the agreed roster, or the first one, which follows from the configuration."""
        if self.agreed is not None:
            return self.agreed
        names = self.site_names or tuple(str(place + 1) for place in range(len(self.sites)))
        links = [
            (min(names[a], names[b]), max(names[a], names[b]), delay)
            for a, b, delay in self.link_delays_us
        ]
        return Roster(
            entries=tuple(
                sorted(
                    (
                        RosterEntry(name=name, site=site, addresses=self.addresses.get(name, ()))
                        for site, daemons in zip(names, self.sites, strict=True)
                        for name in daemons
                    ),
                    key=lambda entry: entry.name,
                )
            ),
            links=tuple(sorted((one, other, delay) for one, other, delay in links)),
            expected=self.expected_daemons,
        )

    def with_roster(self, roster: Roster) -> "CoreConfig":
        """Return the same settings for the daemons of an agreed roster."""
        sites = roster.sites
        names = tuple(sites)
        links = tuple((names.index(a), names.index(b), delay) for a, b, delay in roster.links)
        longest_s = self.fixed_delay_s
        if longest_s is None:
            longest_s = longest_way_s(names, {(a, b): d / 1e6 for a, b, d in roster.links})
        # The roster has the addresses: those of files no longer matter, nor whether they differ.
        advised = tuple(each for each in self.advised if ".daemons." not in each[0])
        former = [*self.former, *self.daemons, *(each.name for each in roster.removed)]
        gone = [name for name in dict.fromkeys(former) if roster.entry(name) is None]
        return attrs.evolve(
            self,
            former=tuple(gone[-MAX_FORMER:]),
            advised=advised,
            sites=tuple(sites.values()),
            site_names=names,
            link_delays_us=links,
            expected_daemons=roster.expected,
            timing=attrs.evolve(self.timing, longest_delay_s=longest_s),
            agreed=roster,
        )

    def has_majority(self, members: Collection[str]) -> bool | None:
        """Return whether these daemons are more than half of all; None if that is unknown."""
        return self.roster.has_majority(members)


def lan() -> Timing:
    """Return timing for hosts on one switch: a daemon that is silent for 0.6 s is left out."""
    return Timing()


def local() -> Timing:
    """Return timing for daemons on one host: only its processor can delay them."""
    return Timing(
        token_timeout_s=0.3,
        token_retransmit_s=0.01,
        request_retry_s=0.005,
        beacon_interval_s=0.06,
        gather_wait_s=0.03,
    )


def wan() -> Timing:
    """Return timing for hosts with slow or busy paths, up to 100 ms there and back."""
    return Timing(
        token_timeout_s=3.0,
        token_retransmit_s=0.15,
        request_retry_s=0.12,
        repair_delay_s=0.01,
        beacon_interval_s=0.5,
        join_interval_s=0.05,
        gather_wait_s=0.3,
    )


PRESETS: Final[Mapping[str, Timing]] = {"lan": lan(), "local": local(), "wan": wan()}
"""By name, as configurations choose them."""


Place = TypeVar("Place", bound=Hashable)


def longest_way_s(places: Collection[Place], links: Mapping[tuple[Place, Place], float]) -> float:
    """Return the longest of the shortest ways between any two sites, in seconds; 0 with one site.

    Where no path leads, and without links, the delay is unknown.
    """
    ways = shortest_paths(places, links).values()
    return max((UNKNOWN_DELAY_S if way == inf else way for way in ways), default=0.0)


def shortest_paths(
    places: Collection[Place], links: Mapping[tuple[Place, Place], float]
) -> dict[tuple[Place, Place], float]:
    """Return the length of the shortest path between all pairs of places; inf without a path.

    Floyd and Warshall's algorithm, as sites are few.

    Args:
        places: all places.
        links: the lengths of the links, at least 0, by the two places that each joins; they lead
            both ways.
    """
    ways = {(near, far): 0.0 if near == far else inf for near, far in product(places, repeat=2)}
    for (one, other), length in links.items():
        ways[one, other] = ways[other, one] = length
    for over, near, far in product(places, repeat=3):
        ways[near, far] = min(ways[near, far], ways[near, over] + ways[over, far])
    return {(near, far): way for (near, far), way in ways.items() if near != far}
