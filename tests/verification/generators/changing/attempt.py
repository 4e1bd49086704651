"""An attempt at a new view: its members stop, exchange their packets, agree, and install it.

It may fail at any moment: before all members announce that they hold the recovered set it has no
effect, afterwards some may install the view and others not.
"""

import enum
from collections.abc import Callable
from random import Random

from tests.verification.generators.changing.daemon import ChangingDaemon
from tests.verification.generators.changing.records import (
    GeneratedRecovery,
    Token,
    View,
    ViewPacket,
)
from tests.verification.generators.records import Notice


class Phase(enum.Enum):
    """The phase of an attempt."""

    GATHER = enum.auto()  # not all daemons have stopped
    EXCHANGE = enum.auto()  # not all daemons hold the union of their old view
    INSTALL = enum.auto()  # all daemons hold it, and have said so
    OVER = enum.auto()


class Attempt:
    """One attempt.

    Args:
        rng: the source of all decisions.
        members: the daemons of the view.
        bystanders: the number of other daemons, for the majority that clients are told.
        connected: returns whether two daemons hear each other.

    Attributes:
        members: the members for which it is not over.
        phase: its phase.
    """

    def __init__(
        self,
        rng: Random,
        members: list[ChangingDaemon],
        bystanders: int,
        connected: Callable[[ChangingDaemon, ChangingDaemon], bool],
    ) -> None:
        self._rng = rng
        self._connected = connected
        self.members = list(members)
        self._everybody = list(members)
        self.phase = Phase.GATHER
        self._view = self._make_view(bystanders)
        self._recoveries: dict[ChangingDaemon, GeneratedRecovery] = {}
        self._fellows: dict[ChangingDaemon, tuple[str, ...]] = {}
        self._bound: set[str] = set()

    def _make_view(self, bystanders: int) -> View:
        rng, members = self._rng, sorted(self.members, key=lambda daemon: daemon.name)
        counter = max(daemon.counter for daemon in members) + rng.randint(1, 2)
        for daemon in members:
            daemon.counter = counter
        count = rng.randint(1, min(3, len(members)))
        order = rng.sample(members, len(members))
        rings = [sorted(order[ring::count], key=lambda d: d.name) for ring in range(count)]
        shape = tuple(tuple(ring) for ring in sorted(rings, key=lambda ring: ring[0].name))
        start = rng.choice((0, 0, 7, 2**31 - 3))
        return View(
            f"{counter}.{members[0].name}.{members[0].incarnation}",
            shape,
            start,
            [Token(ring[0], start, rng.randint(1, 2000)) for ring in shape],
            {daemon.identity: rng.choice((1, 1, 2)) for daemon in members},
            rng.choice((2 * len(members) > len(members) + bystanders, None)),
        )

    # ---- one step ----

    def step(self) -> None:
        """Continue where it can."""
        if self.phase is not Phase.INSTALL and self._is_broken():
            self.give_up()
        elif self.phase is Phase.GATHER:
            self._gather()
        elif self.phase is Phase.EXCHANGE:
            self._exchange()
        elif self.phase is Phase.INSTALL:
            self._install()

    def _is_broken(self) -> bool:
        one = self._everybody[0]
        return not all(daemon.alive and self._connected(one, daemon) for daemon in self._everybody)

    def give_up(self) -> None:
        """Fail the attempt for all daemons for which it is not over."""
        self.members.clear()
        self.phase = Phase.OVER

    def _gather(self) -> None:
        for daemon in self.members:
            daemon.frozen |= self._rng.random() < 0.6
        if all(daemon.frozen for daemon in self.members):
            self.phase = Phase.EXCHANGE
            for daemon in self.members:
                if daemon.config is not None:
                    self._unite(daemon)

    def _unite(self, daemon: ChangingDaemon) -> None:
        if daemon in self._recoveries:
            return
        fellows = [other for other in self.members if other.config is daemon.config]
        union = unite(fellows)
        for fellow in fellows:
            self._recoveries[fellow] = union
            self._fellows[fellow] = tuple(
                f.identity for f in sorted(fellows, key=lambda other: other.name)
            )

    def _exchange(self) -> None:
        rng = self._rng
        for daemon in self.members:
            union = self._recoveries.get(daemon)
            if union is None:
                continue
            missing = [p for p in union.packets if (p.ring, p.number) not in daemon.packets]
            for packet in rng.sample(missing, min(len(missing), rng.randint(1, 8))):
                daemon.receive(packet)
            if len(missing) <= 1 and daemon.identity not in self._bound and rng.random() < 0.7:
                for packet in missing:
                    daemon.receive(packet)
                daemon.bind(union)
                self._bound.add(daemon.identity)
        if len(self._bound) == len(self._recoveries) and rng.random() < 0.7:
            self.phase = Phase.INSTALL

    def _install(self) -> None:
        broken = self._is_broken()
        for daemon in list(self.members):
            lot = self._rng.random()
            if not daemon.alive or (broken and lot < 0.5):
                self.members.remove(daemon)  # this daemon has not heard from all of them
            elif lot < 0.8:
                self.members.remove(daemon)
                self._install_at(daemon)
        if not self.members:
            self.phase = Phase.OVER

    def _install_at(self, daemon: ChangingDaemon) -> None:
        union = self._recoveries.get(daemon)
        if union is not None:
            daemon.finish(union, self._fellows[daemon], self._view.text)
        daemon.install(self._view)


def unite(fellows: list[ChangingDaemon]) -> GeneratedRecovery:
    """Return the recovered set of daemons that come from one view."""
    view = fellows[0].config
    assert view is not None
    packets: dict[tuple[int, int], ViewPacket] = {}
    notices: dict[tuple[int, int, int], Notice] = {}
    for daemon in fellows:
        packets |= daemon.packets
        notices |= {(n.ring, n.value, n.upto): n for n in daemon.heard}
    prefix = []
    for ring in range(len(view.rings)):
        number = view.start
        while (ring, number + 1) in packets:
            number += 1
        prefix.append(number)
    return GeneratedRecovery(
        tuple(sorted(packets.values(), key=lambda packet: (packet.time, packet.ring))),
        tuple(prefix),
        tuple(notice for _, notice in sorted(notices.items())),
        tuple(max(values) for values in zip(*(d.frontiers for d in fellows), strict=True)),
        frozenset(d.identity for d in fellows).union(*(d.fellows for d in fellows)),
    )
