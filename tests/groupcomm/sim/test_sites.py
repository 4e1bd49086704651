"""Sites that do not all hear each other: one view, one order, and the effects of faults.

All is verified by the checkers; load goes on while links break, gateways die and parts meet again.
"""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from groupcomm.events import Message
from groupcomm.level import LEVELS
from groupcomm.sim.faults.partitions import between
from groupcomm.sim.network.links import TOPOLOGIES, SimulatedLink, SitePair, chain, equal_links
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

SIZES = (2, 1, 3, 1)
SITES = (0, 0, 1, 2, 2, 2, 3)
LEAST_MESSAGES = 50
MIDDLE = ((0, 1, 2), (3, 4, 5, 6))
"""Daemons on the two sides of the middle link of the chain."""


class Busy:
    """Sites of different sizes, with members of one group that multicast all the time.

    Args:
        topology: the neighbours of each site.
        links: replaces the links of 20 ms between all of these.
    """

    def __init__(
        self,
        topology: Callable[[int], set[SitePair]] = chain,
        links: tuple[SimulatedLink, ...] | None = None,
    ) -> None:
        links = equal_links(len(SIZES), 0.02, topology) if links is None else links
        self.checked = CheckedCluster(with_few_notices(plain_settings(daemons=SIZES, links=links)))
        self.cluster = self.checked.cluster
        self.members = self.checked.connect(len(SITES))
        self._rng = Random(1)
        self.checked.join("g", self.members)
        self.cluster.loop.at(self.cluster.loop.now, self._send)
        self.going = True

    def _send(self, _: object) -> None:
        rng = self._rng
        if self.going:
            for member in self.members:
                if member.connected and member.writable:
                    member.multicast(["g"], rng.randbytes(50), level=rng.choice(LEVELS))
            self.cluster.loop.at(self.cluster.loop.now + SECOND // 20, self._send)

    def cut(self, sides: list[int]) -> None:
        """No side hears another one."""
        self.cluster.network.cut(between(sides))

    def mend(self, sides: list[int]) -> None:
        """Undo that."""
        self.cluster.network.mend(between(sides))

    def part(self, *parts: Sequence[int]) -> None:
        """Let time pass until each part has a view of its own."""
        for part in parts:
            self.cluster.form(part, limit_s=1.5)
        assert all(map(self.cluster.agree, parts))

    def finish(self) -> None:
        """Everything sent has come, in order, and all are in one view."""
        self.cluster.run(0.3)
        self.going = False
        self.cluster.run(0.5)
        self.cluster.form()
        self.checked.finish()
        for member in self.members:
            messages = [event for event in member.events if isinstance(event, Message)]
            assert len(messages) > LEAST_MESSAGES or not member.alive


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(t, marks=[pytest.mark.long] * (t in ("mesh", "star")))
        for t in sorted(TOPOLOGIES)
    ],
)
def test_one_view_and_one_order_in_every_topology(topology: str) -> None:
    busy = Busy(TOPOLOGIES[topology])
    rings = [tuple(SITES[daemon] for daemon in ring) for ring in busy.cluster.view.rings]
    assert rings == [(0, 0), (1,), (2, 2, 2), (3,)]
    joined = {(SITES[a], SITES[b]) for a, b in busy.cluster.view.links}
    assert joined == TOPOLOGIES[topology](len(SIZES)), "a link of the view for each that there is"
    busy.cluster.run(0.5)
    busy.finish()


@pytest.mark.long
def test_a_chain_that_breaks_in_the_middle_has_two_views_and_one_again() -> None:
    busy = Busy()
    sides = [0, 0, 0, 1, 1, 1, 1]
    busy.cut(sides)
    busy.part(*MIDDLE)
    busy.mend(sides)
    busy.cluster.form()
    busy.finish()


@pytest.mark.long
def test_three_parts_meet_again_at_once_under_load() -> None:
    busy = Busy()
    sides = [0, 0, 1, 2, 2, 2, 2]
    busy.cut(sides)
    busy.part((0, 1), (2,), (3, 4, 5, 6))
    busy.mend(sides)
    busy.cluster.form()
    busy.finish()


def test_a_site_split_inside_stays_in_one_view_while_others_hear_both_halves() -> None:
    busy = Busy()
    pairs = [(3, 4), (4, 3), (3, 5), (5, 3)]
    busy.cluster.network.cut(pairs)
    busy.cluster.run(1.0)
    busy.cluster.form()
    assert [3] in [list(ring) for ring in busy.cluster.view.rings]
    busy.cluster.network.mend(pairs)
    busy.cluster.run(0.5)
    busy.finish()


@pytest.mark.parametrize("gateway", [pytest.param(0, marks=pytest.mark.long), 3])
@pytest.mark.verification
def test_a_gateway_dies_under_load_and_another_one_takes_its_place(gateway: int) -> None:
    busy = Busy()
    assert busy.cluster.daemons[gateway].is_gateway
    assert not busy.cluster.daemons[gateway + 1].is_gateway
    busy.cluster.daemons[gateway].kill()
    busy.cluster.form([at for at in range(len(SITES)) if at != gateway])
    assert busy.cluster.daemons[gateway + 1].is_gateway
    busy.cluster.run(0.5)
    busy.cluster.daemons[gateway].boot()
    busy.cluster.form()
    busy.finish()


@pytest.mark.long
def test_a_link_that_comes_and_goes_loses_nothing() -> None:
    busy = Busy()
    sides = [0, 0, 0, 1, 1, 1, 1]
    for _ in range(5):
        busy.cut(sides)
        busy.cluster.run(0.2)
        busy.mend(sides)
        busy.cluster.run(0.2)
    busy.finish()


def test_lossy_narrow_and_jumpy_links_only_make_it_slower() -> None:
    links = tuple(
        SimulatedLink(sites=pair, delay_s=0.02, jitter_s=0.01, loss=0.05, bytes_per_s=1_000_000)
        for pair in sorted(chain(len(SIZES)))
    )
    busy = Busy(links=links)
    busy.cluster.run(0.5)
    busy.finish()
