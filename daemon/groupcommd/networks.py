"""Several networks between daemons that have several addresses each: one socket for each network.

The first addresses of all daemons are one network, the second ones another. What is for a daemon
goes over the first network on which it was heard lately, as long as it says that it hears this one;
else over all networks. So a network that fails, even in one direction only, ends no view. Only
datagrams that the core has found genuine count as heard.
"""

import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final

from groupcomm.config.core import Timing
from groupcomm.host.addresses import Address
from groupcomm.membership.failure_detector import HEARD_BEACONS
from groupcommd.junk import ClusterPattern
from groupcommd.udp import UdpSocket

_FIRST: Final = (0,)


class Networks:
    """Sends and receives as one `UdpSocket` does."""

    def __init__(
        self,
        own: Sequence[Address],
        others: Mapping[str, Sequence[Address]],
        timing: Timing,
        *,
        multicast: Address | None = None,
        remote: Collection[str] = (),
    ) -> None:
        """Bind all sockets.

        Args:
            own: where to listen, by network.
            others: the other daemons, by name; who has fewer addresses is on the first networks.
            timing: says how long a daemon counts as heard.
            multicast: reaches all others of the own site at once, on the first network.
            remote: the names of those that are in other sites.

        Raises:
            OSError: an address is in use, or not of this host.
        """
        self._networks: list[UdpSocket] = []
        for at, address in enumerate(own):
            there = {name: found[at] for name, found in others.items() if at < len(found)}
            group = None if at else multicast
            try:
                self._networks.append(UdpSocket(address, there, multicast=group, remote=remote))
            except OSError:
                self.close()
                raise
        self._on = {name: tuple(range(min(len(f), len(own)))) for name, f in others.items()}
        self._site_daemons = sorted(self._on.keys() - set(remote))
        self.fresh_s = HEARD_BEACONS * timing.beacon_interval_s + timing.longest_delay_s
        self._last = 0  # the network of the latest drain
        self._heard: dict[str, list[float]] = {}  # by name, when on which network
        self._routes: dict[str, tuple[int, ...]] = {}  # by name, the networks to use

    # ---- in ----

    def drain(self) -> list[bytes]:
        """What has come on one network, the next one that has anything."""
        count = len(self._networks)
        for step in range(1, count + 1):
            network = (self._last + step) % count
            datagrams = self._networks[network].drain()
            if datagrams:
                self._last = network
                return datagrams
        return []

    def source_of(self, index: int) -> Address | None:
        """See `UdpSocket.source_of`."""
        return self._networks[self._last].source_of(index)

    def note(self, heard: Iterable[tuple[str, bool, bool]], now: float) -> None:
        """Learn from the core who was heard by the latest drain, after its step at `now`.

        Args:
            heard: of daemons, see `DaemonCore.heard`; since `fresh_s` before now.
            now: seconds, of the step.
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
        """The networks over which a daemon is sent to; a name that is none is its own."""
        return self._routes.get(name) or self._on.get(name, _FIRST)

    # ---- out ----

    def send(self, transmissions: Sequence[tuple[str | None, bytes]]) -> None:
        """Send everything, in order for each daemon and network; see `UdpSocket.send`."""
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
        """The one network that reaches all fellows, if there is one."""
        found = {self.networks_to(name) for name in self._site_daemons}
        if len(found) == 1:
            (ways,) = found
            if len(ways) == 1:
                return ways[0]
        return None

    # ---- what is told about it ----

    @property
    def sockets(self) -> list[socket.socket]:
        """All that may become readable."""
        return [each for udp in self._networks for each in udp.sockets]

    @property
    def address(self) -> Address:
        """Where it listens on the first network."""
        return self._networks[0].address

    @property
    def lost(self) -> int:
        """Datagrams that the system did not take."""
        return sum(udp.lost for udp in self._networks)

    @property
    def gso(self) -> bool:
        """Whether the system cuts bursts on all networks."""
        return all(udp.gso for udp in self._networks)

    @property
    def gro(self) -> bool:
        """Whether the system joins bursts on all networks."""
        return all(udp.gro for udp in self._networks)

    @property
    def buffer_bytes(self) -> int:
        """How much the system lets wait on the network that has least."""
        return min(udp.buffer_bytes for udp in self._networks)

    @property
    def filtered(self) -> bool:
        """Whether the system drops on all networks most of what cannot be of the cluster."""
        return all(udp.filtered for udp in self._networks)

    @property
    def dropped(self) -> int:
        """Datagrams that the system had no room for, or filtered."""
        return sum(udp.dropped for udp in self._networks)

    def filter(self, wanted: ClusterPattern | None) -> None:
        """See `UdpSocket.filter`; on all networks."""
        for udp in self._networks:
            udp.filter(wanted)

    def learn(self, *, clean: bool) -> None:
        """See `UdpSocket.learn`."""
        self._networks[self._last].learn(clean=clean)

    def close(self) -> None:
        """Give the addresses back."""
        for udp in self._networks:
            udp.close()
