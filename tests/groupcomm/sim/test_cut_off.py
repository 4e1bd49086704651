"""Programs that do not read and are cut off, or leave: the messages that they got have no hole."""

import attrs
import pytest

from groupcomm.level import ServiceLevel
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from tests.verification.mutants.catalogue import find_mutant

LARGE = 20_000


class CutOffRun:
    """A program that does not read while another one sends to it, and the checkers' findings."""

    def __init__(self) -> None:
        self.checkers = Checkers()
        settings = attrs.evolve(plain_settings(daemons=2), session_cap_bytes=200_000)
        self.cluster = Cluster(settings, self.checkers.feed)
        self.cluster.run(1.0)
        self.sender = self.cluster.connect("sender", 0)
        self.slow = self.connect_slow()

    def connect_slow(self) -> SimulatedClient:
        """Connect a program and let it and the sender join a group."""
        slow = self.cluster.connect("slow", 1)
        self.cluster.run(0.2)
        for client in (self.sender, slow):
            client.join("g")
        self.cluster.run(0.2)
        slow.set_reading(False)
        return slow

    def send(self, count: int, level: ServiceLevel, size: int = LARGE) -> None:
        """Send messages one after the other."""
        for _ in range(count):
            self.sender.multicast(["g"], bytes(size), level=level)
            self.cluster.run(0.05)

    def found(self) -> set[str]:
        """Return the checkers' findings, once everything has settled."""
        self.slow.set_reading(True)
        self.cluster.settle()
        self.checkers.finish()
        return self.checkers.ids


def play_cut_off(level: ServiceLevel) -> set[str]:
    """Send to a program that does not read until it is cut off."""
    run = CutOffRun()
    run.send(15, level)
    run.send(200, level, size=10)
    return run.found()


def play_goodbye(level: ServiceLevel) -> set[str]:
    """Send to a program that says goodbye while much waits for it, and before it has gone."""
    run = CutOffRun()
    run.send(5, level)
    run.sender.multicast(["g"], b"before", level=level)
    run.cluster.run(0.1)
    run.slow.disconnect()
    run.sender.multicast(["g"], b"at about the same time", level=level)
    run.cluster.run(0.1)
    return run.found()


HOLES = {
    ServiceLevel.FIFO: {"F1"},
    ServiceLevel.CAUSAL: {"F1", "CA"},
    ServiceLevel.AGREED: {"F1", "CA", "O4"},
    ServiceLevel.SAFE: {"F1", "CA", "O4"},
}
"""The property that a hole among messages of one level violates."""


@pytest.mark.parametrize(
    "level",
    [pytest.param(n, marks=[pytest.mark.long] * (at in (1, 2))) for at, n in enumerate(HOLES)],
)
def test_a_frame_that_a_session_drops_before_a_cut_off_is_missed(level: ServiceLevel) -> None:
    assert play_cut_off(level) == set()
    with find_mutant("session-drops-a-frame-before-a-cut-off").active():
        assert play_cut_off(level) == HOLES[level]


@pytest.mark.parametrize("level", list(HOLES))
def test_a_queue_that_is_lost_at_a_goodbye_is_missed(level: ServiceLevel) -> None:
    assert play_goodbye(level) == set()
    with find_mutant("sessions-lose-the-queue-at-a-goodbye").active():
        assert play_goodbye(level) == HOLES[level]
