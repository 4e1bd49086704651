"""Wrong ways to send over a link, and to forward packets."""

from math import inf
from typing import Any

from groupcomm.config.view import RING
from groupcomm.engine.delivery import Delivery
from groupcomm.link.acknowledgements import InFlight, ReceivedNumbers
from groupcomm.link.forwarding import Forwarding
from groupcomm.link.link import Link
from groupcomm.link.queue import Queued
from groupcomm.link.routes import Routes
from groupcomm.wire.data import UnreliablePacket
from groupcomm.wire.horizon import HorizonNotice
from tests.verification.mutants.mutant import Right, site_mutant


@site_mutant((InFlight, "pop_lost"), (InFlight, "pop_requested"))
def link_without_probes(right: Right, _right_requested: Right) -> tuple[Right, Right]:
    """A link sends no packet again unless a later one has arrived, not even a requested one."""

    def pop_lost(self: InFlight, now: float) -> list[Queued]:
        self._last_at = now
        gone: list[Queued] = right(self, now)
        return gone

    def pop_requested(_self: InFlight, _wanted: set[tuple[int, int]], _now: float) -> list[Queued]:
        return []

    return pop_lost, pop_requested


@site_mutant((Forwarding, "reroute"))
def links_number_anew(right: Right) -> Right:
    """When ways change a link numbers from one again, and its other end believes in copies."""

    def reroute(self: Forwarding, routes: Routes, now: float) -> None:
        for link in self.links.values():
            link.in_flight = InFlight(link.trip)
            link._pending.clear()
        right(self, routes, now)

    return reroute


@site_mutant((Link, "_retransmit"))
def lost_on_a_link_for_good(_right: Right) -> Right:
    """A packet lost on a link is not sent again, as if it were still in flight."""

    def retransmit(_self: Link, _lost: list[Queued]) -> None:
        """Forget them."""

    return retransmit


@site_mutant((Forwarding, "forward_notice"))
def notices_not_passed_on(right: Right) -> Right:
    """A gateway passes another ring's notices on to its own ring only, not over its links."""

    def forward_notice(self: Forwarding, notice: HorizonNotice, now: float) -> None:
        if self._upstream[notice.ring] is None:
            right(self, notice, now)
        elif RING in self._onward[notice.ring]:
            self._into_ring.add(notice, notice.encode(), now)
            self.deadline = -inf

    return forward_notice


@site_mutant((Forwarding, "__init__"))
def one_book_for_all_links(right: Right) -> Right:
    """A daemon records the numbers of all its links together, though each link has its own."""

    def init(self: Forwarding, *arguments: Any) -> None:
        right(self, *arguments)
        book = ReceivedNumbers()
        for link in self.links.values():
            link.received = book

    return init


@site_mutant((Forwarding, "unreached"))
def unreached_daemon_stays(_right: Right) -> Right:
    """A link stays in use though a packet is sent over it in vain again and again."""

    def unreached(_self: Forwarding, _now: float, _share: float = 1.0) -> set[int]:
        return set()

    return unreached


@site_mutant((Delivery, "is_new_unreliable"))
def unreliable_over_two_ways(_right: Right) -> Right:
    """An UNRELIABLE packet that has come over two ways is delivered twice."""

    def is_new(_self: Delivery, _packet: UnreliablePacket) -> bool:
        return True

    return is_new


BUGS = (
    link_without_probes,
    links_number_anew,
    lost_on_a_link_for_good,
    notices_not_passed_on,
    one_book_for_all_links,
    unreached_daemon_stays,
    unreliable_over_two_ways,
)
