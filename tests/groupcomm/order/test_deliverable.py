"""What a daemon can deliver of its ring's stream, whoever goes on with it, and when it says so."""

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.order.deliverable import Deliverable
from groupcomm.order.local_line import LocalLine
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket

NOTHING = Stamp(0, 0)


class Daemon:
    """A daemon of ring 0 of two, which follows its stream, and holds `held` of the other one."""

    def __init__(self, *, reports: bool = True) -> None:
        self.stream, self.line, self.risen = Stream(0, 0), LocalLine(0), 0
        self.held = 0
        self.asked: list[tuple[int, ...]] = []
        self.deliverable = Deliverable(
            self.stream, self.line, self._has_streams, self._rise if reports else None
        )

    def _rise(self) -> None:
        self.risen += 1

    def _has_streams(self, vector: tuple[int, ...]) -> bool:
        self.asked.append(vector)
        return vector[1] <= self.held

    def accept(
        self, number: int, vector: tuple[int, int] | None = None, *, waits: bool = False
    ) -> None:
        packet = DataPacket(
            ring=0,
            number=number,
            time=10 * number,
            daemon=0,
            previous=number - 1,
            bundles=[],
            vector=vector,
            agreed=NOTHING,
        )
        self.stream.accept(packet)
        self.line.follow(packet, NOTHING, number if waits else 0)


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def test_it_can_deliver_what_it_holds_once_all_that_v_names_is_there(daemon: Daemon) -> None:
    daemon.accept(1)
    daemon.accept(2, (1, 7))
    daemon.accept(3)
    assert daemon.deliverable.own == 1, "what follows cannot come before it"
    daemon.held = 7
    assert daemon.deliverable.own == 3


def test_a_vector_is_looked_at_once(daemon: Daemon) -> None:
    same = (0, 0)
    for number in range(1, 9):
        daemon.accept(number, same)
    assert daemon.deliverable.own == 8
    assert daemon.asked == [same]


def test_it_can_deliver_nothing_before_it_knows_the_groups(daemon: Daemon) -> None:
    daemon.accept(1)
    daemon.line.upto = 0
    assert daemon.deliverable.own == 0


def test_what_all_have_forgotten_all_could_deliver(daemon: Daemon) -> None:
    daemon.accept(1, (0, 0))
    daemon.accept(2, (0, 7))
    daemon.stream.forget(10)
    assert daemon.deliverable.own == 1
    daemon.stream.forget(20)
    assert daemon.deliverable.own == 2


def test_a_report_is_due_while_a_packet_waits_and_there_is_more_to_say(daemon: Daemon) -> None:
    deliverable = daemon.deliverable
    daemon.accept(1)
    assert not deliverable.is_due
    assert not deliverable.waits
    daemon.accept(2, waits=True)
    assert deliverable.is_due
    assert deliverable.report() == 2
    assert (deliverable.is_due, deliverable.waits) == (False, True)
    deliverable.raise_to(2)
    assert not deliverable.waits
    daemon.accept(3, (0, 7), waits=True)
    assert not deliverable.is_due, "it lacks what that follows"
    daemon.held = 7
    assert deliverable.is_due


def test_the_number_of_the_ring_rises_only(daemon: Daemon) -> None:
    deliverable = daemon.deliverable
    for number in (3, 3, 2):
        deliverable.raise_to(number)
    assert (deliverable.ring, daemon.risen) == (3, 1)


def test_in_a_view_without_reports_nothing_is_said_and_nothing_waits() -> None:
    daemon = Daemon(reports=False)
    daemon.accept(1)
    deliverable = daemon.deliverable
    deliverable.raise_to(9)
    assert (deliverable.ring, deliverable.waits, deliverable.is_due) == (0, False, False)
