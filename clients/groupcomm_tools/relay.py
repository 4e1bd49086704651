"""A relay between the daemons of one host, with the faults that the user asks for.

Each ordered pair of daemons has a UDP port of its own. A datagram takes a path of the simulator
(`groupcomm.sim.network.network`) in real time: loss, delay, duplication, reordering, corruption and
cuts are the same code, drawn from a seed.
"""

import json
import math
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final

import attrs
import trio

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.trace_file import now_us
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.paths import PathFaults
from groupcomm.sim.network.links import Bottleneck
from groupcomm.sim.network.network import Path, Put
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds, random_for

READ_BYTES: Final = 65_536
MAX_READS: Final = 64
"""Datagrams of one port before other ports have their turn."""

BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Buffer of each socket; the system would silently lose datagrams without room."""

Pair = tuple[str, str]
"""Names of the sending and of the receiving daemon."""


@attrs.frozen(kw_only=True)
class Line:
    """The properties of a path without faults.

    Attributes:
        delay_s: the delay of one way.
        jitter_s: the most additional delay, drawn anew for each burst.
        bytes_per_s: the bandwidth, headers of IP and UDP included; None for unlimited.
        queue_s: the longest time for which a path of little bandwidth queues datagrams; more are
            lost, as in a router.
        loss: the probability that a datagram is lost; 1 if there is no way.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float | None = None
    queue_s: float = 1.0
    loss: float = 0.0


class Port:
    """One ordered pair: where datagrams arrive, the path that they take, and their destination."""

    def __init__(self, loop: Loop, seed: int, pair: Pair, target: Address, line: Line) -> None:
        family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        self.socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.passed = 0
        self._loop = loop
        self._target = (target.host, target.port)
        self._rng = random_for(seed, f"relay {pair[0]} {pair[1]}")
        delay, jitter = microseconds(line.delay_s), microseconds(line.jitter_s)
        self.put: Put = self._put
        narrow = Bottleneck(line.bytes_per_s, line.queue_s) if line.bytes_per_s else None
        self.path = Path(loop, lambda: self._rng, delay, jitter, self, bottleneck=narrow)
        self.path.thin(line.loss)

    @property
    def address(self) -> Address:
        """Return the address to which the sender has to send."""
        host, port, *_ = self.socket.getsockname()
        return Address(host, port)

    def forward(self) -> None:
        """Forward the datagrams that have arrived; never wait."""
        for _ in range(MAX_READS):
            try:
                datagram = self.socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                continue  # the target is down; datagrams to it are lost
            self.path.send(datagram)

    def _put(self, arrival: int, datagram: bytes) -> None:
        if arrival <= self._loop.now:
            self._deliver(datagram)
        else:
            self._loop.at(arrival, self._deliver, datagram)

    def _deliver(self, datagram: bytes) -> None:
        try:
            self.socket.sendto(datagram, self._target)
            self.passed += 1
        except OSError:
            return  # the datagram is lost, as datagrams may be

    def suffer(self, faults: Faults | None) -> None:
        """Inject faults from now on; None ends them."""
        if self.path.faults is not None:
            self.path.faults.flush()
            self.path.faults = None
        if faults is not None:
            self.path.faults = PathFaults(self._loop, self._rng, faults, self.path.transfer)

    def hold(self, seconds: float) -> None:
        """Hold all datagrams for some seconds, then release them in order."""
        if self.path.faults is None:
            self.suffer(Faults())
        assert self.path.faults is not None
        self.path.faults.jam(self._loop.now + microseconds(seconds))


class Relay:
    """All ports between some daemons.

    Attributes:
        ports: ports by ordered pair.
    """

    def __init__(
        self,
        addresses: Mapping[str, Address],
        *,
        seed: int = 1,
        line: Line | None = None,
        lines: Mapping[Pair, Line | None] | None = None,
    ) -> None:
        """Open the ports.

        Args:
            addresses: the addresses of the daemons, by name.
            seed: the seed of all random decisions.
            line: properties of all paths.
            lines: the properties of single paths instead; None for daemons that communicate
                directly, of which the relay knows nothing.
        """
        self._addresses = addresses
        pairs = [(source, target) for source in addresses for target in addresses]
        kinds = {pair: line or Line() for pair in pairs if pair[0] != pair[1]} | dict(lines or {})
        self._loop = Loop()
        self._loop.now = now_us()
        self._timer = trio.CancelScope()
        self._cut: set[Pair] = set()
        self.ports = {
            pair: Port(self._loop, seed, pair, addresses[pair[1]], kind)
            for pair, kind in kinds.items()
            if kind is not None
        }

    def write(self, path: FilePath) -> None:
        """Write the addresses at which each daemon reaches the others, for ``groupcommd --via``."""
        found = {
            source: {
                target: str(self._way((source, target)))
                for target in self._addresses
                if target != source
            }
            for source in self._addresses
        }
        path.write_text(json.dumps(found, indent=2) + "\n")
        path.chmod(path.stat().st_mode & ~0o022)  # daemons refuse a file that others can write

    def _way(self, pair: Pair) -> Address:
        port = self.ports.get(pair)
        return self._addresses[pair[1]] if port is None else port.address

    async def run(self) -> None:
        """Relay until cancelled; then close the ports."""
        try:
            async with trio.open_nursery() as nursery:
                for port in self.ports.values():
                    nursery.start_soon(self._serve, port)
                await self._keep_time()
        finally:
            for port in self.ports.values():
                port.socket.close()

    async def _serve(self, port: Port) -> None:
        while True:
            await trio.lowlevel.wait_readable(port.socket)
            self._loop.run(now_us())
            port.forward()
            self._set_timer()

    async def _keep_time(self) -> None:
        while True:
            with trio.CancelScope() as self._timer:
                self._set_timer()
                await trio.sleep_forever()
            self._loop.run(now_us())

    def _set_timer(self) -> None:
        due = self._loop.deadline
        wait_s = math.inf if due is None else (due - self._loop.now) / SECOND
        self._timer.deadline = trio.current_time() + wait_s

    # ---- faults ----

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Drop all datagrams of these pairs, until `mend`."""
        for pair in set(pairs) - self._cut:
            self._cut.add(pair)
            self.ports[pair].path.cut(1)

    def mend(self, pairs: Iterable[Pair] | None = None) -> None:
        """Pass all datagrams again, of these pairs or of all."""
        for pair in self._cut.intersection(self._cut if pairs is None else pairs):
            self._cut.discard(pair)
            self.ports[pair].path.cut(-1)

    def suffer(self, faults: Faults | None, pairs: Iterable[Pair] | None = None) -> None:
        """Inject faults into these pairs, or into all; None ends the faults."""
        self._loop.run(now_us())
        for pair in self.ports if pairs is None else pairs:
            self.ports[pair].suffer(faults)
        self._set_timer()

    def narrow(self, pairs: Iterable[Pair], largest_bytes: float) -> None:
        """Lose longer datagrams of these pairs silently; inf ends that."""
        for pair in pairs:
            self.ports[pair].path.largest_bytes = largest_bytes

    def hold(self, pairs: Iterable[Pair], seconds: float) -> None:
        """Hold all datagrams of these pairs for some seconds, then release them in order."""
        self._loop.run(now_us())
        for pair in pairs:
            self.ports[pair].hold(seconds)
        self._set_timer()

    def between(self, one: Iterable[str], other: Iterable[str]) -> Iterator[Pair]:
        """Yield all ordered pairs between two sets of daemons, in both directions.

        Raises:
            ConfigError: one of them is no daemon of the relay.
        """
        others = tuple(other)
        for a in one:
            for b in others:
                if (a, b) not in self.ports:
                    known = ", ".join(sorted({name for name, _ in self.ports}))
                    raise ConfigError(
                        f"no path between {a} and {b} leads through the relay; its daemons are"
                        f" {known}"
                    )
                yield a, b
                yield b, a
