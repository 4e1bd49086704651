"""Peers without a daemon in virtual time: their datagrams are late, lost, doubled and overtaken.

All chances come from one seed, and all times are virtual: a run is the same on every machine.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from groupcomm.algorithms.direct.events import Action, Delivered, Ended, News, Send
from groupcomm.algorithms.direct.group import Record
from groupcomm.algorithms.direct.peer import Make, Peer
from groupcomm.algorithms.direct.settings import Timing
from groupcomm.algorithms.history import History
from groupcomm.algorithms.process import Message, Name
from groupcomm.sim.loop import SECOND, Loop, microseconds, random_for
from groupcomm.sim.peer_paths import Usual, Ways


class Told(NamedTuple):
    """What a peer told its user, and when; microseconds."""

    time: int
    name: Name
    news: News


class PeerNetwork:
    """Peers, and the ways between them; a peer's address is its name.

    Args:
        seed: of all chances.
        usual: what all ways are like.
        timing: of all peers.
        record: takes the steps of all algorithms.

    Attributes:
        loop: virtual time.
        peers: that run, by name.
        ways: from each of them to others.
        history: of all messages.
        told: all that users were told.
        datagrams: that were sent.
        bytes: of them.
    """

    def __init__(
        self,
        seed: int,
        usual: Usual | None = None,
        *,
        timing: Timing | None = None,
        record: Record | None = None,
    ) -> None:
        self._record = record
        self._seed = seed
        self._usual = usual or Usual(delay_s=0.001)
        self._timing = timing
        self._wanted: dict[Name, int] = {}
        self._sent: dict[Name, int] = {}
        self.loop = Loop()
        self.peers: dict[Name, Peer] = {}
        self.ways: dict[Name, Ways] = {}
        self.history = History()
        self.told: list[Told] = []
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
        self.ways[name] = Ways(self.loop, self._seed, name, arrive, self._usual)
        self._act(name, peer.begin(self._now))
        return peer

    def add_founders(self, names: Iterable[Name], algorithm: Make) -> None:
        """Start a group whose members are there from the beginning; all greet the first one."""
        founders = tuple(names)
        for name in founders:
            self.add(name, algorithm, founders, founders[:1] if name != founders[0] else ())

    def leave(self, name: Name) -> None:
        """Have a peer leave in order; it runs until it has."""
        self._act(name, self.peers[name].leave(self._now))

    def crash(self, name: Name) -> None:
        """A peer is there no longer, and says nothing."""
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
        """Let so much time pass."""
        self.loop.run(self.loop.now + microseconds(seconds))

    def _act(self, name: Name, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self.datagrams += 1
                self.bytes += len(action.data)
                self.ways[name].send(action)
                continue
            self.told.append(Told(self.loop.now, name, action))
            if isinstance(action, Delivered):
                self.history.deliver(name, action.message)
            elif isinstance(action, Ended):
                del self.peers[name]
        self._set_timer(name)

    def _set_timer(self, name: Name) -> None:
        peer = self.peers.get(name)
        if peer is None or peer.deadline is None:
            return
        # A microsecond later than it says, so that it has come for certain.
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
