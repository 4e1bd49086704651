"""Local packets: ahead of the blocks, behind what they wait for, and once."""

from groupcomm.clocks.stamp import Stamp
from groupcomm.wire.bundle import Bundle
from tests.groupcomm.order.receiver import AGREED, CAUSAL, FIFO, SAFE, Receiver, bundle

NOTHING = Stamp(0, 0)
OWN, OTHER = 0, 1


class Site(Receiver):
    """A daemon in a view of two rings, whose own one orders some of its packets alone."""

    def __init__(self) -> None:
        super().__init__(rings=2, daemons=4)
        self.risen = 0
        self.order.begin_local(OWN, [], self._rise)

    def _rise(self) -> None:
        self.risen += 1

    def can_deliver(self, number: int) -> None:
        """Learn that the whole ring can deliver its stream up to here."""
        self.order.deliverable.raise_to(number)
        self.order.drain()

    def own(
        self,
        number: int,
        *bundles: Bundle,
        wait: Stamp | None,
        safe: int = 0,
        causes: tuple[tuple[int, ...], Stamp] = ((0, 0), NOTHING),
        daemon: int = 0,
        previous: int = 0,
    ) -> None:
        """Receive a packet of the own ring, and learn whether it is local."""
        place = {"daemon": daemon, "previous": previous}
        self.packet(number, *bundles, ring=OWN, causes=causes, **place)
        self.order.follow(self.streams[OWN].packets[number], wait, safe)
        self.order.drain()


def test_a_local_packet_waits_for_no_block_and_is_delivered_once() -> None:
    site = Site()
    site.own(1, bundle(AGREED, 1, "a"), wait=NOTHING)
    assert site.out == ["a"]
    assert (site.order.waiting, site.order.done) == (0, NOTHING)
    site.horizon(OTHER, 100, 0)
    site.horizon(OWN, 100, 1)
    assert site.out == ["a"]
    assert site.order.done == Stamp(10, OWN), "the global line has passed it"


def test_a_local_packet_waits_for_the_global_one_before_it_and_none_passes_it() -> None:
    site = Site()
    site.own(1, bundle(AGREED, 1, "g"), wait=None)
    site.own(2, bundle(AGREED, 2, "m"), wait=Stamp(10, OWN), daemon=1)
    site.own(3, bundle(AGREED, 3, "n"), wait=NOTHING, daemon=2)
    assert site.out == ["n"]
    site.horizon(OTHER, 15, 0)
    assert site.out == ["n", "g", "m"]


def test_a_local_packet_waits_for_its_causes_and_at_the_latest_comes_at_its_place() -> None:
    site = Site()
    site.own(1, bundle(AGREED, 1, "m"), wait=NOTHING, causes=((0, 1), NOTHING))
    assert site.out == []
    site.packet(1, bundle(FIFO, 1, "f"), ring=OTHER, daemon=1, time=5)
    assert site.out == ["f", "m"]
    site.own(2, bundle(AGREED, 1, "l"), wait=NOTHING, causes=((0, 9), NOTHING), previous=1)
    site.horizon(OTHER, 30, 1)
    assert site.out == ["f", "m", "l"], "its cause does not exist: its daemon has lied"


def test_a_causal_packet_waits_for_the_local_ones_that_its_daemon_had_delivered() -> None:
    site = Site()
    site.own(1, bundle(AGREED, 1, "m"), wait=NOTHING, causes=((0, 1), NOTHING))
    site.own(2, bundle(CAUSAL, 2, "c"), wait=None, causes=((1, 0), NOTHING), daemon=1)
    assert site.out == []
    site.packet(1, bundle(FIFO, 1, "f"), ring=OTHER, daemon=2, time=5)
    assert site.out == ["f", "m", "c"]


def test_a_causal_packet_waits_until_it_is_known_whether_its_causes_are_local() -> None:
    site = Site()
    site.own(1, bundle(FIFO, 1, "f"), wait=None)
    site.packet(2, bundle(AGREED, 2, "m"), ring=OWN, daemon=1, causes=((0, 0), NOTHING))
    site.packet(3, bundle(CAUSAL, 3, "c"), ring=OWN, daemon=2, causes=((2, 0), NOTHING))
    assert site.out == ["f"]
    site.order.follow(site.streams[OWN].packets[2], NOTHING)
    site.order.follow(site.streams[OWN].packets[3], None)
    site.order.drain()
    assert site.out == ["f", "m", "c"]


def test_what_its_session_said_before_comes_first() -> None:
    site = Site()
    late = bundle(CAUSAL, 1, "c")
    site.own(1, late, wait=None, causes=((0, 0), Stamp(7, OTHER)))
    site.own(2, bundle(AGREED, 1, "m"), wait=NOTHING, causes=((0, 0), NOTHING), previous=1)
    assert site.out == []
    site.packet(1, bundle(AGREED, 1, "g"), ring=OTHER, daemon=1, time=7)
    site.horizon(OWN, 9, 0)
    assert site.out == ["g", "c", "m"]


def test_what_a_local_packet_has_followed_is_a_cause_of_what_follows_it() -> None:
    """Its daemon may have delivered more of the global line than those that have it from there."""
    site = Site()
    before = Stamp(7, OTHER)
    site.own(1, bundle(AGREED, 1, "m"), wait=NOTHING, causes=((0, 0), before), daemon=1)
    assert (site.out, site.order.done) == (["m"], NOTHING)
    vector, agreed = site.order.causes
    assert (vector, agreed) == ((1, 0), before)
    site.own(2, bundle(CAUSAL, 2, "c"), wait=None, causes=(vector, agreed))
    assert site.out == ["m"], "else it came before the global one where only that one comes"
    site.packet(1, bundle(AGREED, 3, "g"), ring=OTHER, daemon=2, time=7)
    assert site.out == ["m", "g", "c"]


def test_where_the_global_line_passes_a_local_packet_others_go_on() -> None:
    site = Site()
    site.own(1, bundle(AGREED, 1, "m"), wait=NOTHING)
    site.own(2, bundle(AGREED, 2, "n"), wait=Stamp(10, OWN), daemon=1)
    site.own(3, bundle(CAUSAL, 3, "c"), wait=None, causes=((2, 0), Stamp(10, OWN)), daemon=2)
    site.own(4, bundle(AGREED, 4, "g"), wait=None, daemon=3)
    assert site.out == ["m"]
    site.horizon(OTHER, 10, 0)
    assert site.out == ["m", "n", "c"], "nothing else has come that may be delivered"


def test_a_safe_local_packet_waits_until_its_ring_can_deliver_it_and_for_no_other_one() -> None:
    site = Site()
    site.own(1, bundle(SAFE, 1, "s"), wait=NOTHING, safe=1)
    site.own(2, bundle(AGREED, 2, "a"), wait=NOTHING, safe=1, daemon=1)
    site.own(3, bundle(AGREED, 3, "b"), wait=NOTHING, daemon=2)
    assert site.out == ["b"], "what follows SAFE to its receivers waits as well"
    site.can_deliver(1)
    assert (site.out, site.risen) == (["b", "s", "a"], 1)
    assert site.order.safe_waits(9, 10), "programs elsewhere wait behind its header"
    for ring in (OWN, OTHER):
        site.frontier(ring, 10)
    assert not site.order.safe_waits(0, 99)


def test_it_waits_for_its_causes_even_if_the_ring_is_said_to_have_them() -> None:
    site = Site()
    site.own(1, bundle(SAFE, 1, "s"), wait=NOTHING, safe=1, causes=((0, 1), NOTHING))
    site.can_deliver(1)
    assert (site.out, site.order.deliverable.own) == ([], 0)
    site.packet(1, bundle(FIFO, 1, "f"), ring=OTHER, daemon=1, time=5)
    assert (site.out, site.order.deliverable.own) == (["f", "s"], 1)


def test_this_daemon_can_deliver_nothing_behind_what_waits_for_another_ring() -> None:
    """That could be lost to it if it left the view alone, and all that depends on it, too."""
    site = Site()
    first = bundle(SAFE, 1, "g")
    site.packet(1, first, bundle(FIFO, 1, "f"), ring=OTHER, daemon=1, time=5)
    site.own(1, bundle(SAFE, 2, "s"), wait=NOTHING, safe=1, causes=((0, 1), NOTHING))
    site.can_deliver(1)
    assert (site.out, site.order.deliverable.own) == ([], 0)
    for ring in (OWN, OTHER):
        site.frontier(ring, 5)
    assert (site.out, site.order.deliverable.own) == (["g", "f", "s"], 1)


def test_the_global_line_passes_it_where_nothing_lower_can_come() -> None:
    site = Site()
    site.own(1, bundle(SAFE, 1, "s"), wait=NOTHING, safe=1)
    site.can_deliver(1)
    site.packet(1, bundle(AGREED, 1, "g"), ring=OTHER, daemon=1, time=15)
    site.horizon(OWN, 20, 1)
    assert site.out == ["s", "g"], "though no frontier has passed it"
    assert site.order.done == Stamp(15, OTHER)


def test_a_safe_packet_that_stays_in_its_ring_needs_promises_only_where_it_is_not_local() -> None:
    site = Site()
    site.own(1, bundle(SAFE, 1, "s"), wait=None)
    site.own(2, bundle(SAFE, 2, "w"), wait=None, daemon=1)
    site.streams[OWN].packets[1].local_only = True
    site.can_deliver(2)
    assert site.out == []
    site.horizon(OTHER, 30, 0)
    assert site.out == ["s"], "the other one has recipients elsewhere"


def test_a_causal_packet_waits_for_the_safe_ones_that_its_daemon_had_delivered() -> None:
    site = Site()
    site.own(1, bundle(SAFE, 1, "s"), wait=NOTHING, safe=1)
    site.own(2, bundle(CAUSAL, 2, "c"), wait=None, causes=((1, 0), NOTHING), daemon=1)
    assert site.out == []
    site.can_deliver(1)
    assert site.out == ["s", "c"]
