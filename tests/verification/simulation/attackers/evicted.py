"""An evicted daemon, whose identity, secrets and keys an attacker has.

An operator evicts it by an order at another daemon, and repeats the order where a daemon has not
heard of it, because it was apart or down. From then on the attacker has its host. The attacker runs
a daemon there that behaves like any daemon, and also seals and signs anything with the captured
keys, for daemons that know of the eviction: they must accept none of it, and nothing that they seal
may open for the attacker.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import attrs

from groupcomm.config.core import Rekeying
from groupcomm.config.roster import Roster
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import CoreOver, DaemonCore, Input, Output, Segmentation, Store, drive
from groupcomm.engine.protection import IdentityProtection
from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.names import daemon_number
from groupcomm.security.identity import Roll
from groupcomm.security.layout import CHANNEL_OF, Channel
from groupcomm.security.secret_sealing import SecretOpener
from groupcomm.sim.cluster.disk import marks_stored_at_once
from groupcomm.sim.virtual_time import SECOND
from tests.verification.simulation.attackers.attack import AttackContext, SeenDatagram
from tests.verification.simulation.attackers.keyholder import FAR, READ_SHARE, KeyHolder
from tests.verification.simulation.host import VerificationHost

EARLIEST_US: Final = SECOND // 2
LATEST_US: Final = 3 * SECOND
ORDER_US: Final = SECOND // 2
"""The time between two checks of the operator for daemons that do not know yet."""

SETTLED_US: Final = SECOND // 50
"""After this time, a daemon that seals with a new secret seals with no older one."""

PUPPET_US: Final = SECOND // 500
KEPT: Final = 200
KEPT_SHARE: Final = 0.3


class Evicted(KeyHolder):
    """An attacker with everything that the evicted daemon had."""

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        super().__init__(stage, rng)
        assert stage.settings.evicted is not None
        self._host = stage.hosts[stage.settings.evicted]
        self._others = [host for host in stage.hosts if host is not self._host]
        self._gate: IdentityProtection | None = None  # of its last start, if captured
        self._spy: SecretOpener | None = None
        self._puppet: DaemonCore | None = None
        self._inbox: list[bytes] = []
        self._inputs: list[Input] = []  # inputs of the puppet's next step
        self._kept: deque[bytes] = deque(maxlen=KEPT)  # packets from before its eviction
        self._settled: dict[str, int] = {}
        self.puppet_said = 0

    @property
    def is_prepared(self) -> bool:
        """Return whether all daemons know of the eviction, and all have one view without the
        evicted one: where a site is far, the view comes later there."""
        if self._gate is None or not all(map(self._knows, self._others)):
            return False
        first = self._others[0].completed
        if first is None or any(host.completed != first for host in self._others):
            return False
        views = [host.core.view for host in self._others]
        view = views[0]
        if view is None or len(view.daemons) != len(self._others):
            return False
        return all(each is not None and each.id == view.id for each in views)

    def start(self) -> None:
        """Begin as a daemon of the cluster."""
        loop = self._stage.loop
        loop.at(loop.now + self._rng.randint(EARLIEST_US, LATEST_US), self._order)
        super().start()

    # ---- the operator ----

    def _order(self, _: object) -> None:
        """Evict the daemon at each host that does not know of the eviction."""
        if not self._running:
            return
        for host in self._others:
            if host.process is not None and host.is_up and not self._knows(host):
                try:
                    host.core.key_manager.evict(self._host.name)
                except LocalProtocolError:
                    continue  # the file already has it
                host.process.wake()
        if self._gate is None:
            self._seize_host()
        self._stage.loop.at(self._stage.loop.now + ORDER_US, self._order)

    def _knows(self, host: VerificationHost) -> bool:
        """Return whether a running daemon knows of the eviction, its file does, and a clone of it,
        which has the same address and read the file when it started."""
        if host.process is None or host.credentials is None:
            return False
        rolls = [host.credentials.roll]
        if host.clone is not None and (read := host.clone.core._protection.roll) is not None:
            rolls.append(read)
        return not any(roll.is_trusted(self._host.name) for roll in rolls)

    def _seize_host(self) -> None:
        """Give the host to the attacker, with everything that its daemon has."""
        process = self._host.process
        if process is None:
            return  # the host is down: it is tried next time
        gate = process.core._protection
        assert isinstance(gate, IdentityProtection)
        self._gate = gate
        self._host.is_taken = True
        self._host.kill_clone()
        start = process.core.start
        self._host.kill()
        self._spy = self._make_spy(gate)
        again = Incarnation(start.incarnation.restarts + 1, self._rng.getrandbits(64))
        again_start = attrs.evolve(start, incarnation=again)
        self._puppet = self._make_puppet(again_start)
        self._stage.loop.at(self._stage.loop.now + PUPPET_US, self._play)

    def _make_spy(self, gate: IdentityProtection) -> SecretOpener:
        own = daemon_number(self._host.name), gate._own
        return SecretOpener(self._keys, self._stage.cluster, own, gate._exchange, Rekeying())

    def _make_puppet(self, start: Start) -> DaemonCore:
        host, now = self._host, self._stage.loop.now
        credentials = host.credentials
        assert credentials is not None
        old = Roll(credentials.roll.daemons)  # the attacker's daemon knows of no eviction
        return DaemonCore(
            self._stage.config,
            start,
            keys=self._keys,
            credentials=attrs.evolve(credentials, roll=old),
            now=host.clock.monotonic(now),
            wall=host.clock.wall(now),
        )

    # ---- what the attacker hears ----

    def listen(self, source: int, seen: SeenDatagram) -> None:
        """Listen as a daemon of the cluster, and later as a former one."""
        super().listen(source, seen)
        mine = self._stage.hosts[seen.target] is self._host
        if self._gate is None:
            self._remember(seen, mine)
            return
        if mine and self._puppet is not None:
            self._inbox.append(seen.datagram)
        if source != self._host.index and self._is_settled(self._stage.hosts[source]):
            lot = self._rng.random()
            if lot < READ_SHARE or (seen.channel == Channel.CONTROL and lot < 0.5):
                self._try_to_read(self._stage.hosts[source], seen)

    def _remember(self, seen: SeenDatagram, mine: bool) -> None:
        """Read the packets that it may read before its eviction, to repeat them later."""
        process = self._host.process
        if not mine or process is None or self._rng.random() > KEPT_SHARE:
            return
        gate = process.core._protection
        assert isinstance(gate, IdentityProtection)
        try:
            opened = self._make_spy(gate).open_untrusted(seen.datagram)
        except BadDatagram:
            return
        if opened.channel != Channel.HELLO and len(opened.packet) > 1:
            self._kept.append(opened.packet)

    def _is_settled(self, host: VerificationHost) -> bool:
        """Return whether a daemon knows of the eviction, and seals with a later secret."""
        if not self._knows(host):
            return False
        assert host.process is not None
        name, gate, now = host.process.name, host.core._protection, self._stage.loop.now
        assert isinstance(gate, IdentityProtection)
        exchange = gate._exchange
        if name not in self._settled and exchange.sealing == exchange._number:
            self._settled[name] = now
        return now > self._settled.get(name, now) + SETTLED_US

    def _try_to_read(self, host: VerificationHost, seen: SeenDatagram) -> None:
        assert self._spy is not None
        self._spy.now = self._stage.loop.now / SECOND
        try:
            opened = self._spy.open_untrusted(seen.datagram)
        except BadDatagram:
            return
        if opened.channel != Channel.HELLO and len(opened.packet) > 1:
            self._breach(f"{self._host.name}, evicted, can read what {host.name} seals")

    # ---- what the attacker sends ----

    def _inject(self, target: VerificationHost, datagram: bytes) -> None:
        """Send only to daemons that know of the eviction; others may believe the attacker."""
        if self._gate is not None and self._knows(target):
            super()._inject(target, datagram)

    def ways(self) -> Sequence[Callable[[VerificationHost], bytes | None]]:
        """Return the ways of attack: all that the ring's key allows, and those of a former
        daemon."""
        return (
            *super().ways(),
            self._say_as_itself,
            self._say_as_itself,
            self._say_as_itself,
            self._sign_as_itself,
            self._sign_as_itself,
        )

    def _say_as_itself(self, target: VerificationHost) -> bytes | None:
        """Return an earlier packet, sealed with the secrets that the daemon had."""
        if self._gate is None or not self._kept:
            return None
        packet = self._rng.choice(self._kept)
        if packet[0] not in CHANNEL_OF:
            return None
        return self._gate.seal(self._rng.choice((None, target.name)), packet)

    def _sign_as_itself(self, target: VerificationHost) -> bytes | None:
        """Return an introduction with the daemon's real signature, in its own name or another."""
        if self._gate is None:
            return None
        rng, gate = self._rng, self._gate
        number = daemon_number(target.name)
        if not self._introductions:
            return None
        told = rng.choice(self._introductions)[1]
        hello = attrs.evolve(told.hello, start=self._start_of(target))
        own = daemon_number(self._host.name), gate._own
        claimed = rng.choice((own, own, (own[0], self._drawn_start()), self._claimed(target)))
        public = gate._exchange._pair.public
        said = attrs.evolve(told, hello=hello, public=public, pair=rng.choice((1, 50, 2**32 - 1)))
        counter = rng.choice((gate._sealer.counter(Channel.HELLO) + 1, *FAR))
        signature = gate._signer.sign(said.encode(), number, counter)
        sealer = self._sealer(claimed, self._epoch(), counter)
        return sealer.seal(said.encode() + signature, Channel.HELLO, number)

    # ---- the daemon that continues ----

    def _play(self, _: object) -> None:
        """Let the daemon on the captured host run; pass its datagrams to those that know."""
        if not self._running or self._puppet is None:
            return
        loop = self._stage.loop
        heard, self._inbox = self._inbox, []
        inputs, self._inputs = self._inputs, []
        drive(self._puppet, self, self._host.clock.monotonic(loop.now), heard, inputs)
        loop.at(loop.now + PUPPET_US, self._play)

    def use_roster(self, roster: Roster) -> None:
        """Do nothing, as the roster never changes here."""

    def use_near(self, near: frozenset[str]) -> None:
        """Do nothing, as the roster never changes here."""

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """Do nothing, as no datagram is cut."""

    def store(self, wanted: Sequence[Store]) -> None:
        """Write at once, but never the evictions."""
        self._inputs += marks_stored_at_once(wanted)

    def send(self, output: Output) -> bool:
        """Pass the datagrams to the daemons that know."""
        for target, datagram in output.datagrams:
            for host in self._others:
                if target in (None, host.name):
                    self.puppet_said += 1
                    self._inject(host, datagram)
        return True

    def serve(self, output: Output) -> None:
        """Do nothing, as the daemon has no programs."""

    def finish(self, over: CoreOver) -> None:
        """Do nothing: the daemon is stepped on."""
