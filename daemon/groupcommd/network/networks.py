"""Several networks between daemons with several addresses each: one socket for each network.

The first addresses of all daemons are one network, the second ones another. Datagrams for a daemon
use the first network on which the daemon was heard lately, as long as it reports that it hears this
one; else all networks. So a network that fails, even in one direction only, ends no view. Only
datagrams that the core has found genuine count as heard.
"""

import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final

from groupcomm.config.core import Timing
from groupcomm.engine import Segmentation
from groupcomm.host.addresses import Address
from groupcomm.membership.failure_detector import HEARD_BEACONS
from groupcommd.network.junk import ClusterPattern
from groupcommd.network.udp import Asked, UdpSocket

_FIRST: Final = (0,)


def _network(places: Mapping[str, Sequence[Address]], at: int) -> dict[str, Address]:
    """Return the addresses of the daemons that are on the network of this index, by name."""
    return {name: found[at] for name, found in places.items() if at < len(found)}


class Networks:
    """Several networks behind the interface of `UdpSocket`."""

    def __init__(
        self,
        own: Sequence[Address],
        others: Mapping[str, Sequence[Address]],
        timing: Timing,
        *,
        multicast: Address | None = None,
        remote: Collection[str] = (),
        absent: Collection[str] = (),
    ) -> None:
        """Bind the sockets.

        Args:
            own: this daemon's addresses, one for each network.
            others: the addresses of the other daemons by name; a daemon with fewer addresses is on
                the first networks.
            timing: has the time for which a daemon counts as heard.
            multicast: the group of all other daemons of this site, on the first network.
            remote: the names of the daemons of other sites.
            absent: the names of daemons whose addresses are not known: they get nothing.

        Raises:
            OSError: an address is in use, or not one of this host.
        """
        self._networks: list[UdpSocket] = []
        for at, address in enumerate(own):
            there, group = _network(others, at), None if at else multicast
            try:
                udp = UdpSocket(address, there, multicast=group, remote=remote, absent=absent)
                self._networks.append(udp)
            except OSError:
                self.close()
                raise
        self._use(others, remote)
        self.fresh_s = HEARD_BEACONS * timing.beacon_interval_s + timing.longest_delay_s
        self._last = 0  # the network of the latest drain
        self._heard: dict[str, list[float]] = {}  # by name: the last hearing on each network
        self._routes: dict[str, tuple[int, ...]] = {}  # by name: the networks to use

    def use(
        self,
        others: Mapping[str, Sequence[Address]],
        remote: Collection[str],
        former: Mapping[str, Sequence[Address]],
        absent: Collection[str] = (),
    ) -> None:
        """Send to these daemons from now on; see `UdpSocket.use`."""
        for at, udp in enumerate(self._networks):
            udp.use(_network(others, at), remote, _network(former, at), absent)
        self._use(others, remote)
        self._routes.clear()
        self._heard = {name: times for name, times in self._heard.items() if name in others}

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """See `UdpSocket.use_segmentation`."""
        for udp in self._networks:
            udp.use_segmentation(segmentation)

    def measure_path(self) -> int | None:
        """Return what every network carries; see `UdpSocket.measure_path`."""
        found = [udp.measure_path() for udp in self._networks]
        return min((each for each in found if each is not None), default=None)

    def _use(self, others: Mapping[str, Sequence[Address]], remote: Collection[str]) -> None:
        count = len(self._networks)
        self._on = {name: tuple(range(min(len(f), count))) for name, f in others.items()}
        self._site_daemons = sorted(self._on.keys() - set(remote))

    # ---- input ----

    def drain(self) -> list[bytes]:
        """Return the datagrams of one network, the next one that has any."""
        count = len(self._networks)
        for step in range(1, count + 1):
            network = (self._last + step) % count
            datagrams = self._networks[network].drain()
            if datagrams:
                self._last = network
                return datagrams
        return []

    def pop_asked(self) -> list[Asked]:
        """See `UdpSocket.pop_asked`."""
        return [each for udp in self._networks for each in udp.pop_asked()]

    def pop_strange(self) -> int:
        """See `UdpSocket.pop_strange`."""
        return sum(udp.pop_strange() for udp in self._networks)

    def source_of(self, index: int) -> Address | None:
        """See `UdpSocket.source_of`."""
        return self._networks[self._last].source_of(index)

    def note(self, heard: Iterable[tuple[str, bool, bool]], now: float) -> None:
        """Note which daemons the latest drain has heard, after the core's step at `now`.

        Args:
            heard: see `DaemonCore.heard`, for the time since `now - fresh_s`.
            now: the time of the step in seconds.
        """
        since = now - self.fresh_s
        for name, is_heard, hears in heard:
            at_networks = self._heard.setdefault(name, [-inf] * len(self._networks))
            if is_heard:
                at_networks[self._last] = now
            lately = [network for network, at in enumerate(at_networks) if at >= since]
            good = lately and hears
            self._routes[name] = (lately[0],) if good else self._on.get(name, _FIRST)

    def networks_to(self, name: str) -> tuple[int, ...]:
        """Return the networks to use for a daemon; an unknown name is the daemon's own."""
        return self._routes.get(name) or self._on.get(name, _FIRST)

    # ---- output ----

    def send(self, transmissions: Sequence[tuple[str | None, bytes]]) -> None:
        """Send datagrams, in order for each daemon and network; see `UdpSocket.send`."""
        batches: list[list[tuple[str | None, bytes]]] = [[] for _ in self._networks]
        together = self._together()
        for name, datagram in transmissions:
            if name is not None:
                for network in self.networks_to(name):
                    batches[network].append((name, datagram))
            elif together is not None:
                batches[together].append((None, datagram))
            else:
                for each in self._site_daemons:
                    for network in self.networks_to(each):
                        batches[network].append((each, datagram))
        for udp, batch in zip(self._networks, batches, strict=True):
            if batch:
                udp.send(batch)

    def _together(self) -> int | None:
        """Return the one network that reaches all daemons of the site, if there is one."""
        found = {self.networks_to(name) for name in self._site_daemons}
        if len(found) == 1:
            (ways,) = found
            if len(ways) == 1:
                return ways[0]
        return None

    # ---- status ----

    @property
    def sockets(self) -> list[socket.socket]:
        """Return the sockets that may become readable."""
        return [each for udp in self._networks for each in udp.sockets]

    @property
    def address(self) -> Address:
        """Return this daemon's address on the first network."""
        return self._networks[0].address

    @property
    def lost(self) -> int:
        """Return the number of datagrams that the system has not accepted."""
        return sum(udp.lost for udp in self._networks)

    @property
    def sent_bytes(self) -> int:
        """See UdpSocket."""
        return sum(udp.sent_bytes for udp in self._networks)

    @property
    def received_bytes(self) -> int:
        """See UdpSocket."""
        return sum(udp.received_bytes for udp in self._networks)

    @property
    def segments(self) -> dict[str, int]:
        """Return the counts of all networks together; see `UdpSocket.segments`."""
        found = [udp.segments for udp in self._networks]
        return {name: sum(each[name] for each in found) for name in found[0]}

    @property
    def gso(self) -> bool:
        """Return whether the system segments bursts on all networks (UDP_SEGMENT)."""
        return all(udp.gso for udp in self._networks)

    @property
    def gro(self) -> bool:
        """Return whether the system coalesces bursts on all networks (UDP_GRO)."""
        return all(udp.gro for udp in self._networks)

    @property
    def buffer_bytes(self) -> int:
        """Return the receive buffer of the network with the smallest one."""
        return min(udp.buffer_bytes for udp in self._networks)

    @property
    def filtered(self) -> bool:
        """Return whether the system filters junk on all networks."""
        return all(udp.filtered for udp in self._networks)

    @property
    def dropped(self) -> int:
        """Return the number of datagrams that the system had no room for, or has filtered."""
        return sum(udp.dropped for udp in self._networks)

    def filter(self, wanted: ClusterPattern | None) -> None:
        """See `UdpSocket.filter`; on all networks."""
        for udp in self._networks:
            udp.filter(wanted)

    def learn(self, *, clean: bool) -> None:
        """See `UdpSocket.learn`."""
        self._networks[self._last].learn(clean=clean)

    def close(self) -> None:
        """Close the sockets."""
        for udp in self._networks:
            udp.close()
