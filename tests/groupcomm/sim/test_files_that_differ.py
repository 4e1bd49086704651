"""Daemons with other files, on virtual time: every order of starts, every part of a file."""

from itertools import permutations
from typing import Final

import attrs
import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.membership.comparison import Verdict
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.configurations import EXTRA, without
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import Settings, plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import Conf, TraceEvent

STEADY_S: Final = 6.0


class Stage:
    """Hosts of which one, the second, has another file.

    Attributes:
        cluster: the cluster of their daemons.
        trace: the trace of the run.
    """

    def __init__(self, settings: Settings, other: CoreConfig | None = None) -> None:
        self.trace: list[TraceEvent] = []
        self.checkers = Checkers()
        self.cluster = Cluster(settings, self.record, start=False)
        self.cluster.daemons[1].other_config = other

    def record(self, event: TraceEvent) -> None:
        self.trace.append(event)
        self.checkers.feed(event)

    def start(self, order: tuple[int, ...], between_s: float = 0.5) -> None:
        """Start the daemons, one after the other."""
        for index in order:
            self.cluster.daemons[index].boot()
            self.cluster.run(between_s)

    @property
    def members(self) -> list[list[str]]:
        """Return for each daemon the members of its view."""
        views = [host.core.view for host in self.cluster.daemons]
        return [[] if view is None else [d.name for d in view.daemons] for view in views]

    def check(self) -> None:
        """Each set with equal files has a view, programs there go on, and nothing changes."""
        names = [host.name for host in self.cluster.daemons]
        ours = [name for name in names if name != names[1]]
        views = [[name] if name == names[1] else ours for name in names]
        self.cluster.run(2.0)
        assert self.members == views
        programs = [self.cluster.connect(f"user{at}", at) for at in range(len(names))]
        self.cluster.run(0.5)
        for program in programs:
            program.join("g")
        self.cluster.run(0.5)
        before = sum(isinstance(event, Conf) for event in self.trace)
        for _ in range(6):
            for program in programs:
                program.multicast(["g"], b"x", level=ServiceLevel.SAFE)
            self.cluster.run(STEADY_S / 6)
        assert self.members == views
        assert sum(isinstance(event, Conf) for event in self.trace) == before
        for at, program in enumerate(programs):
            got = [event for event in program.events if isinstance(event, Message)]
            assert len(got) == 6 * len(views[at])
        self.check_words()
        self.checkers.finish()
        assert self.checkers.violations == []

    def check_words(self) -> None:
        """All daemons know of the other file, and the daemon with that file knows that it is
        wrong."""
        for host in self.cluster.daemons:
            now = host.clock.monotonic(self.cluster.loop.now)
            (other,) = host.core.membership.comparison.others(host.core.view, now)
            assert other.excludes
            assert other.differences
            wrong = host.index == 1
            assert other.verdict is (Verdict.THEIRS if wrong else Verdict.OURS)


def config_of(settings: Settings) -> CoreConfig:
    return Cluster(settings, start=False).config


@pytest.mark.parametrize(
    ("suite", "order"), [(0, (1, 2, 0)), *[(1, order) for order in permutations(range(3))]]
)
def test_a_daemon_that_one_file_does_not_list_in_every_order_of_starts(
    suite: int, order: tuple[int, ...]
) -> None:
    settings = attrs.evolve(plain_settings(daemons=3), suite=suite)
    config = config_of(settings)
    stage = Stage(settings, without(config, config.daemons[0]))
    stage.start(order)
    stage.check()


TWO_SITES: Final = attrs.evolve(plain_settings(daemons=(3, 2)), suite=1)
TWO: Final = config_of(TWO_SITES)

PARTS: Final = {
    "a daemon too much": {"sites": ((*TWO.sites[0], EXTRA), TWO.sites[1])},
    "a daemon in another site": {
        "sites": (TWO.sites[0][:2], (TWO.sites[0][2], *TWO.sites[1])),
    },
    "a delay": {"link_delays_us": ((0, 1, 1000),)},
    "timings": {"timing": attrs.evolve(TWO.timing, token_timeout_s=2.0)},
    "packets": {"packet_limit": 9000},
}


QUICK: Final = ("timings",)
"""Parts whose tests run with all others; the tests of other parts run with the campaigns."""


@pytest.mark.parametrize(
    "part",
    [part if part in QUICK else pytest.param(part, marks=pytest.mark.long) for part in PARTS],
)
def test_each_part_of_a_file_between_two_sites(part: str) -> None:
    stage = Stage(TWO_SITES, attrs.evolve(TWO, **PARTS[part]))  # type: ignore[arg-type]
    stage.start((2, 1, 0, 4, 3), 0.2)
    stage.check()


def test_sealed_daemons_with_identities_that_differ() -> None:
    settings = attrs.evolve(plain_settings(daemons=4), suite=2)
    config = config_of(settings)
    stage = Stage(settings, without(config, config.daemons[3]))
    stage.start((1, 3, 0, 2))
    stage.check()


def test_a_daemon_in_the_middle_of_a_chain_parts_its_ends() -> None:
    """A daemon with another file passes nothing on, though it hears both; no view comes of that."""
    links = (SimulatedLink(sites=(0, 1), delay_s=0.02), SimulatedLink(sites=(1, 2), delay_s=0.02))
    settings = plain_settings(daemons=(1, 1, 1), links=links)
    config = config_of(settings)
    stage = Stage(settings, attrs.evolve(config, packet_limit=9000))
    stage.start((0, 1, 2))
    stage.cluster.run(3.0)
    assert stage.members == [[name] for name in config.daemons]
    before = sum(isinstance(event, Conf) for event in stage.trace)
    stage.cluster.run(STEADY_S)
    assert sum(isinstance(event, Conf) for event in stage.trace) == before
    stage.check_words()


def test_files_that_change_one_after_the_other_end_in_one_view() -> None:
    settings = plain_settings(daemons=4)
    stage = Stage(settings)
    stage.start((0, 1, 2, 3))
    new = attrs.evolve(stage.cluster.config, packet_limit=9000)
    for host in stage.cluster.daemons:
        host.other_config = new
        assert host.process is not None
        host.process.leave()
        while host.process is not None:
            stage.cluster.run(0.01)
        host.boot()
        stage.cluster.run(1.0)
    names = [host.name for host in stage.cluster.daemons]
    assert stage.members == [names] * 4
    views = {event.view for event in stage.trace if isinstance(event, Conf) and event.kind == "R"}
    assert len(views) < 20, "two for each daemon that leaves and comes, and those of the start"
    assert stage.checkers.violations == []
    assert stage.cluster.loop.now < 20 * SECOND
