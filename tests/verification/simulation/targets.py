"""Faults of chosen packets: some of one or several kinds, on chosen paths, are lost, held, copied
or late.

A fault that hits all datagrams alike hits a rare one rarely. Here the kinds are drawn, not the
datagrams: a protocol has to bear the loss of its fifth commit, and of all requests for a second.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from groupcomm.sim.network.network import Network, Pair
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds
from tests.verification.simulation.rules import ALL, ANY, KINDS, ODD, Effect, Rule, RuledPath

INTERVAL_US: Final = SECOND // 2
"""The mean time from one fault to the next."""

LONGEST_S: Final = 2.0
LONGEST_DELAY_S: Final = 2.0
MOST_SPARED: Final = 20
COUNTS: Final = (1, 1, 1, 2, 5, 20, ODD, ALL)
EFFECTS: Final = (*Effect, Effect.LOSE)


class TargetedFaults:
    """The faults of a run; it starts at once.

    Args:
        loop: virtual time.
        rng: the random source of times, kinds and paths.
        network: the network, whose datagrams are not encrypted.
        hosts: the number of hosts.
    """

    def __init__(self, loop: Loop, rng: Random, network: Network, hosts: int) -> None:
        self._loop = loop
        self._rng = rng
        self._hosts = hosts
        self._running = True
        self._paths: dict[Pair, RuledPath] = {}
        for pair, path in network.paths.items():
            self._paths[pair] = path.ruled = RuledPath(loop, path.go_on)
        loop.at(loop.now + rng.randrange(INTERVAL_US), self._next)

    def end(self) -> None:
        """End all faults; what is held goes on."""
        self._running = False
        for path in self._paths.values():
            path.end()
            path.flush()

    def _next(self, _: None) -> None:
        if not self._running:
            return
        rng, loop = self._rng, self._loop
        loop.at(loop.now + 1 + int(rng.expovariate(1.0 / INTERVAL_US)), self._next)
        pairs = self._draw_pairs()
        effect = rng.choice(EFFECTS)
        kinds = (ANY,) if rng.random() < 0.1 else tuple(rng.sample(KINDS, rng.choice((1, 1, 2))))
        count = rng.choice(COUNTS)
        later_us = int(microseconds(LONGEST_DELAY_S) * rng.random() ** 3)
        spared = rng.randint(0, MOST_SPARED) if rng.random() < 0.5 else 0
        for pair in pairs:
            self._paths[pair].rules.append(Rule(effect, kinds, count, later_us, spared))
        lasts_us = int(microseconds(LONGEST_S) * rng.random() ** 2)
        loop.at(loop.now + 1 + lasts_us, self._end, tuple(pairs))

    def _draw_pairs(self) -> Sequence[Pair]:
        """Draw one path, those to or from a host, or all."""
        rng, host, lot = self._rng, self._rng.randrange(self._hosts), self._rng.random()
        every = list(self._paths)
        if lot < 0.4 or not every:
            return rng.sample(every, min(1, len(every)))
        if lot < 0.6:
            return [pair for pair in every if pair[0] == host]
        if lot < 0.8:
            return [pair for pair in every if pair[1] == host]
        return every

    def _end(self, pairs: Sequence[Pair]) -> None:
        for pair in pairs:
            self._paths[pair].end()
            self._paths[pair].flush()
