"""Wrong ways to pass messages about views on between the sites of a large cluster."""

from math import inf
from typing import Any

from groupcomm.membership.control_receiver import ControlReceiver
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.relays import Held, Relays, _sort_of
from groupcomm.membership.vouched import Vouched
from groupcomm.wire.control import ControlPacket, inflate_packets_untrusted
from groupcomm.wire.membership import Relayed
from tests.verification.mutants.mutant import Right, site_mutant


@site_mutant((Relays, "rank"))
def second_relay_passes_nothing_on(right: Right) -> Right:
    """A site has one relay: the second daemon that is heard speaks with no other site."""

    def rank(self: Relays, now: float) -> int | None:
        return 0 if right(self, now) == 0 else None

    return rank


@site_mutant((Relays, "pass_on"))
def messages_of_other_sites_stay_with_the_relay(right: Right) -> Right:
    """A relay keeps what comes from other sites for itself."""

    def pass_on(self: Relays, packet: ControlPacket, sender: int, now: float) -> None:
        right(self, packet, sender, now)
        self._inward.pop()
        self._inward_due = inf

    return pass_on


@site_mutant((Held, "add"))
def late_join_goes_in_place_of_a_later_one(right: Right) -> Right:
    """Of the joins that wait at a relay the one goes on that has come last, however old it is."""

    def add(self: Held, packet: ControlPacket) -> None:
        there = self._packets.get(_sort_of(packet), [])
        if there and there[0].sequence > packet.sequence:
            there.clear()
        right(self, packet)

    return add


@site_mutant((FailureDetector, "_speaks_for_itself"))
def relays_speak_for_those_that_are_heard(right: Right) -> Right:
    """What relays pass on in the name of a daemon counts though it has just spoken itself."""

    def speaks_for_itself(self: FailureDetector, peer: Any, incarnation: Any, now: float) -> bool:
        is_relayed = self._has_relays and not self.is_near(peer.number)
        return not is_relayed and bool(right(self, peer, incarnation, now))

    return speaks_for_itself


@site_mutant((Relays, "_is_there"))
def silent_daemon_stays_a_relay(right: Right) -> Right:
    """A daemon that was heard once counts as one of its site's relays for ever."""

    def is_there(self: Relays, number: int, now: float) -> bool:
        peer = self._detector.peers.get(number)
        heard = peer is not None and peer.heard_from > -inf
        return heard or bool(right(self, number, now))

    return is_there


@site_mutant((Relays, "_opposite"))
def site_that_is_not_heard_is_not_tried(right: Right) -> Right:
    """A relay speaks to no site of which it hears nobody."""

    def opposite(self: Relays, rank: int, now: float, among: Any) -> list[int]:
        peers, since = self._detector.peers, self._detector.fresh_since(now)
        found = right(self, rank, now, among)
        return [n for n in found if n in peers and peers[n].heard_at >= since]

    return opposite


@site_mutant((Relays, "_pass_around"))
def nothing_goes_round_between_sites(_right: Right) -> Right:
    """A daemon does not tell one site what another one has said that it does not hear."""

    def pass_around(_self: Relays, _packets: list[ControlPacket], _now: float) -> None:
        pass

    return pass_around


@site_mutant((Relays, "_reached"))
def who_hears_no_relay_is_not_served(right: Right) -> Right:
    """A daemon that is no relay speaks to nobody, also where its path is the only one."""

    def reached(self: Relays, peer: Any) -> tuple[Any, None]:
        return right(self, peer)[0], None

    return reached


@site_mutant((Vouched, "revoke"))
def vouched_members_are_waited_for(_right: Right) -> Right:
    """Members that the view has vouched for are waited for, whoever says that they are gone."""

    def revoke(_self: Vouched, *_: object, waited: bool) -> None:
        del waited

    return revoke


@site_mutant((Relays, "connect"))
def whoever_hears_whom_all_that_joined_are_enough(_right: Right) -> Right:
    """A proposal is complete once all have joined, whether relays hear each other or not."""

    def connect(_self: Relays, _rows: object) -> bool:
        return True

    return connect


@site_mutant((ControlReceiver, "_on_relayed"))
def broken_packet_bars_those_behind_it(_right: Right) -> Right:
    """Of packets that come together none counts that is behind a broken one."""

    def on_relayed(self: ControlReceiver, relayed: Relayed, sender: int, now: float) -> None:
        for packet in inflate_packets_untrusted(relayed.deflated):
            if packet.origin not in (sender, self._detector.key[0]):
                self._on_passed_on(packet, sender, now)

    return on_relayed


BUGS = (
    second_relay_passes_nothing_on,
    messages_of_other_sites_stay_with_the_relay,
    late_join_goes_in_place_of_a_later_one,
    relays_speak_for_those_that_are_heard,
    silent_daemon_stays_a_relay,
    site_that_is_not_heard_is_not_tried,
    nothing_goes_round_between_sites,
    who_hears_no_relay_is_not_served,
    vouched_members_are_waited_for,
    whoever_hears_whom_all_that_joined_are_enough,
    broken_packet_bars_those_behind_it,
)
