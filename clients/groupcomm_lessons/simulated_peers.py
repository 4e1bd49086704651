"""The paths from one peer to others, and their faults; in virtual time and in real time.

A minimum delay is for each datagram by itself: a datagram that is sent after it was made shorter
overtakes. Otherwise paths are as those between daemons (`network.network`, `faults.paths`).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import attrs

from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.paths import PathFaults
from groupcomm.sim.network.network import Path, Put
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds, random_for
from groupcomm_lessons.algorithms.direct.datagrams import Address
from groupcomm_lessons.algorithms.direct.events import Action, Delivered, Ended, News, Send
from groupcomm_lessons.algorithms.direct.group import Record
from groupcomm_lessons.algorithms.direct.peer import Make, Peer
from groupcomm_lessons.algorithms.direct.settings import Timing
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.process import Message, Name


@attrs.frozen(kw_only=True)
class UsualPath:
    """The properties of a path without faults.

    Attributes:
        delay_s: the delay one way.
        jitter_s: the largest additional delay, drawn anew for each burst.
        loss: the chance that a datagram is lost.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0


class PeerPath:
    """The path to one address, at whose end `deliver` accepts datagrams.

    Attributes:
        minimum_us: the least delay before a datagram sets out, in microseconds.
    """

    def __init__(
        self, loop: Loop, seed: int, ends: str, deliver: Callable[[bytes], None], usual: UsualPath
    ) -> None:
        self._loop = loop
        self._rng = random_for(seed, f"way {ends}")
        self._deliver = deliver
        self.put: Put = self._put
        delay, jitter = microseconds(usual.delay_s), microseconds(usual.jitter_s)
        self._path = Path(loop, lambda: self._rng, delay, jitter, self, usual.loss)
        self._is_cut = False
        self.minimum_us = 0

    def send(self, datagram: bytes) -> None:
        """Send a datagram."""
        if self.minimum_us:
            self._loop.at(self._loop.now + self.minimum_us, self._set_out, datagram)
        else:
            self._set_out(datagram)

    def _set_out(self, datagram: bytes) -> None:
        self._path.send(datagram)

    def _put(self, arrival: int, datagram: bytes) -> None:
        if arrival <= self._loop.now:
            self._deliver(datagram)
        else:
            self._loop.at(arrival, self._deliver, datagram)

    def suffer(self, faults: Faults | None) -> None:
        """Start these faults; None ends them."""
        if self._path.faults is not None:
            self._path.faults.flush()
            self._path.faults = None
        if faults is not None:
            self._path.faults = PathFaults(self._loop, self._rng, faults, self._path.transfer)

    def cut(self) -> None:
        """Let nothing pass until `mend`."""
        if not self._is_cut:
            self._is_cut = True
            self._path.cut(1)

    def mend(self) -> None:
        """Let everything pass again."""
        if self._is_cut:
            self._is_cut = False
            self._path.cut(-1)

    def hold(self, seconds: float) -> None:
        """Hold all datagrams for some time, then release them in order."""
        if self._path.faults is None:
            self.suffer(Faults())
        assert self._path.faults is not None
        self._path.faults.jam(self._loop.now + microseconds(seconds))


class PeerPaths:
    """All paths from one peer; to peers whose names are not known yet, by their addresses.

    Args:
        loop: the event loop of virtual time.
        seed: the seed of all chances.
        me: the peer whose paths they are.
        deliver: accepts (address, datagram) at the end of a path.
        usual: the usual properties of all paths.
    """

    def __init__(
        self,
        loop: Loop,
        seed: int,
        me: Name,
        deliver: Callable[[Address, bytes], None],
        usual: UsualPath | None = None,
    ) -> None:
        self._loop = loop
        self._seed = seed
        self._me = me
        self._deliver = deliver
        self._usual = usual or UsualPath()
        self._found: dict[str, PeerPath] = {}
        self._addresses: dict[str, Address] = {}

    def send(self, action: Send) -> None:
        """Send a datagram."""
        end = action.to or action.address
        self._addresses[end] = action.address
        self.to(end).send(action.data)

    def to(self, end: str) -> PeerPath:
        """Return the path to a peer of this name, or to an address."""
        if end not in self._found:
            ends = f"{self._me} {end}"
            arrive = self._arrive(end)
            self._found[end] = PeerPath(self._loop, self._seed, ends, arrive, self._usual)
        return self._found[end]

    def _arrive(self, end: str) -> Callable[[bytes], None]:
        return lambda datagram: self._deliver(self._addresses[end], datagram)

    def set_minimum_delay(self, name: Name, seconds: float) -> None:
        """Delay all datagrams to a peer by at least this time from now on."""
        self.to(name).minimum_us = microseconds(seconds)


class PeerEvent(NamedTuple):
    """An event of a peer for its user, with its time; microseconds."""

    time: int
    name: Name
    news: News


class PeerNetwork:
    """Peers, and the paths between them; a peer's address is its name.

    Args:
        seed: the seed of all chances.
        usual: the usual properties of all paths.
        timing: the timing of all peers.
        record: accepts the steps of all algorithms.

    Attributes:
        loop: virtual time.
        peers: the running peers, by name.
        ways: the paths from each of them to others.
        history: the history of all messages.
        told: all events that users received.
        datagrams: the number of datagrams that were sent.
        bytes: the bytes of these datagrams.
    """

    def __init__(
        self,
        seed: int,
        usual: UsualPath | None = None,
        *,
        timing: Timing | None = None,
        record: Record | None = None,
    ) -> None:
        self._record = record
        self._seed = seed
        self._usual = usual or UsualPath(delay_s=0.001)
        self._timing = timing
        self._wanted: dict[Name, int] = {}
        self._sent: dict[Name, int] = {}
        self.loop = Loop()
        self.peers: dict[Name, Peer] = {}
        self.ways: dict[Name, PeerPaths] = {}
        self.history = History()
        self.events: list[PeerEvent] = []
        self.datagrams = self.bytes = 0

    # ---- peers ----

    def add(
        self, name: Name, algorithm: Make, founders: Iterable[Name] = (), greet: Iterable[Name] = ()
    ) -> Peer:
        """Start a peer; see `Peer`."""
        incarnation = random_for(self._seed, f"incarnation {name}").getrandbits(64)
        peer = Peer(
            name,
            algorithm,
            incarnation=incarnation,
            founders=founders,
            greet=greet,
            timing=self._timing,
            record=self._record,
        )
        self.peers[name] = peer
        self._sent[name] = 0
        arrive = partial(self._arrive, name)
        self.ways[name] = PeerPaths(self.loop, self._seed, name, arrive, self._usual)
        self._act(name, peer.begin(self._now))
        return peer

    def add_founders(self, names: Iterable[Name], algorithm: Make) -> None:
        """Start a group of founders, which all greet the first one."""
        founders = tuple(names)
        for name in founders:
            self.add(name, algorithm, founders, founders[:1] if name != founders[0] else ())

    def leave(self, name: Name) -> None:
        """Have a peer leave in order; it runs until it has left."""
        self._act(name, self.peers[name].leave(self._now))

    def crash(self, name: Name) -> None:
        """Crash a peer, which becomes silent."""
        del self.peers[name]

    def send(self, name: Name, data: bytes, to: Iterable[Name] | None = None) -> Message:
        """Have a user send a message; see `Peer.multicast`."""
        peer = self.peers[name]
        destinations = peer.audience if to is None else tuple(sorted(set(to)))
        actions = peer.multicast(data, to, now=self._now)
        self._sent[name] += 1
        message = Message(name, self._sent[name], destinations, data)
        self.history.send(message)
        self._act(name, actions)
        return message

    # ---- time ----

    @property
    def _now(self) -> float:
        return self.loop.now / SECOND

    def run(self, seconds: float) -> None:
        """Let some time pass."""
        self.loop.run(self.loop.now + microseconds(seconds))

    def _act(self, name: Name, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self.datagrams += 1
                self.bytes += len(action.data)
                self.ways[name].send(action)
                continue
            self.events.append(PeerEvent(self.loop.now, name, action))
            if isinstance(action, Delivered):
                self.history.deliver(name, action.message)
            elif isinstance(action, Ended):
                del self.peers[name]
        self._set_timer(name)

    def _set_timer(self, name: Name) -> None:
        peer = self.peers.get(name)
        if peer is None or peer.deadline is None:
            return
        # A microsecond later, so that it has certainly arrived.
        at = max(self.loop.now, microseconds(peer.deadline)) + 1
        if at < self._wanted.get(name, at + 1):
            self._wanted[name] = at
            self.loop.at(at, self._pass_time, name)

    def _pass_time(self, name: Name) -> None:
        if self._wanted.get(name) == self.loop.now:
            del self._wanted[name]
        if name in self.peers:
            self._act(name, self.peers[name].pass_time(self._now))

    def _arrive(self, source: Name, target: Name, datagram: bytes) -> None:
        if target in self.peers:
            found = self.peers[target].receive(datagram, source, now=self._now)
            self._act(target, found)
