"""The horizon rule: all orders over any channels; what breaks once a part of it is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order, Packet, Process, Step
from groupcomm_lessons.algorithms.site_horizons import SiteHorizons
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


class CountsAtOnce(SiteHorizons):
    """Counts a horizon though the stream has gaps below it."""

    def receive(self, packet: Packet) -> Step:
        if packet.message is None:
            packet = packet._replace(stamp=(packet.stamp[0], 0))
        return super().receive(packet)


@given(schedules, st.integers(1, 4), st.booleans())
def test_it_keeps_all_orders(
    steps: list[tuple[int, int, int]], processes: int, multicasts: bool
) -> None:
    network = play(SiteHorizons, steps, processes=processes, multicasts=multicasts)
    assert_keeps(network, SiteHorizons.claims)
    assert not any(process.waiting for process in network.processes.values())


@pytest.mark.parametrize(("make", "total"), [(CountsAtOnce, False), (SiteHorizons, True)])
def test_a_horizon_must_not_count_before_its_stream_is_here(
    make: type[Process], total: bool
) -> None:
    """p1, the lowest, is still on its way to r when p's horizon arrives there."""
    network = Network(make(name, "pqr") for name in "pqr")
    network.send("p", b"")
    q1, q2 = network.send("q", b""), network.send("q", b"")
    for message, destination in ((q1, "r"), (q2, "r"), (q2, "p")):
        network.bring(
            next(e for e in network.ready if e[1:3] == (destination, message)),
        )
    network.bring(next(e for e in network.ready if e[:3] == ("p", "r", None)))
    assert network.history.delivered.get("r") == (None if total else [q1, q2])
    network.bring_all()
    assert bool(network.history.broken(Order.TOTAL)) is not total


def test_a_message_waits_for_the_horizons_of_idle_sites() -> None:
    network = Network(SiteHorizons(name, "pqr") for name in "pqr")
    p1 = network.send("p", b"")
    to_q, to_r = network.under_way
    network.bring(to_q)
    assert network.processes["q"].waiting == (p1,), "r may still send something earlier"
    network.bring(to_r)
    network.bring(next(e for e in network.under_way if (e.source, e.destination) == ("r", "q")))
    assert network.history.delivered == {"q": [p1]}


def test_the_lowest_stamp_is_first_and_equal_clocks_go_by_site() -> None:
    network = Network(SiteHorizons(name, "pqr") for name in "pqr")
    r1, r2, p1 = (network.send(name, b"") for name in "rrp")
    network.bring_all()
    assert network.history.delivered == {name: [p1, r1, r2] for name in "pqr"}


@pytest.mark.parametrize(
    ("make", "alone", "together"), [(SiteHorizons, 6, 6), (AcknowledgedStamps, 8, 24)]
)
def test_messages_of_others_stand_for_answers(
    make: type[Process], alone: int, together: int
) -> None:
    """Packets of one message, and of one from each of three that send at once."""
    for senders, packets in (("p", alone), ("pqr", together)):
        network = Network(make(name, "pqr") for name in "pqr")
        for name in senders:
            network.send(name, b"")
        network.bring_all()
        assert network.packets == packets
        assert not network.history.missing
