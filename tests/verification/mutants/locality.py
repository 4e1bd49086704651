"""Wrong ways to order the messages of one site alone."""

from collections.abc import Iterable
from typing import Any

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine.backlog import Subscriptions
from groupcomm.engine.view_change import ViewChange
from groupcomm.groups.marks import Marks, ReportedFrontier
from groupcomm.groups.ring_table import NOTHING, RingTable, Wait
from groupcomm.membership.early_part import EarlyPart
from groupcomm.membership.recovered_set import WalkLimits
from groupcomm.order.deliverable import Deliverable
from groupcomm.order.local_line import LocalLine
from groupcomm.order.order import Order
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from tests.verification.mutants.mutant import Right, site_mutant


@site_mutant((Subscriptions, "_lacks"))
def sends_without_a_right(_right: Right) -> Right:
    """A message for another ring gets its number though that ring's clock is not known to have
    passed the mark."""

    def lacks(_self: Subscriptions, _bundle: Bundle) -> list[str]:
        return []

    return lacks


@site_mutant((ReportedFrontier, "least"))
def rights_before_marks(_right: Any) -> Any:
    """The first daemon reports its frontier although it owes marks."""
    return property(lambda self: self._blocks.least)


@site_mutant((Subscriptions, "_give_back"))
def right_used_after_it_was_given_back(right: Right) -> Right:
    """A daemon that has given a right back goes on sending with it."""

    def give_back(self: Subscriptions, name: str) -> None:
        right(self, name)
        self._rights.held[name] = None

    return give_back


@site_mutant((Order, "causes"))
def causes_without_what_local_packets_followed(_right: Any) -> Any:
    """A CAUSAL message does not name what the local messages before it had followed elsewhere."""
    return property(lambda self: (tuple(self._highest), self.done))


@site_mutant((Marks, "unsubscribe"))
def narrow_while_others_have_rights(right: Right) -> Right:
    """The first daemon takes a mark back with the first right that is given back."""

    def unsubscribe(self: Marks, daemon: int, name: str) -> None:
        others = self._rights.remote.pop(name, set())
        right(self, daemon, name)
        if others - {daemon}:
            self._rights.remote[name] = others - {daemon}

    return unsubscribe


@site_mutant((RingTable, "_is_inside"))
def members_of_wide_groups_are_local(_right: Right) -> Right:
    """A message is local if its group is of one ring, whatever else its members get."""

    def is_inside(self: RingTable, name: str) -> bool:
        return name not in self._wide and (name in self._members or name in self._open)

    return is_inside


@site_mutant((RingTable, "classify"))
def local_packets_wait_for_nothing(right: Right) -> Right:
    """A local message does not wait for joins, leaves and messages that concern its receivers."""

    def classify(self: RingTable, packet: DataPacket) -> Wait | None:
        return None if right(self, packet) is None else NOTHING

    return classify


@site_mutant((LocalLine, "is_delivered"))
def causal_passes_local_packets(_right: Right) -> Right:
    """A CAUSAL message does not wait for local messages that its daemon had delivered."""

    def is_delivered(_self: LocalLine, _number: int, _done: Stamp, _deliverable: int) -> bool:
        return True

    return is_delivered


@site_mutant((EarlyPart, "_is_early"))
def one_boundary_for_both_lines(_right: Right) -> Right:
    """When a view ends, its regular part ends at the global boundary for local messages, too."""

    def is_early(_self: EarlyPart, _packet: DataPacket) -> bool:
        return False

    return is_early


@site_mutant((RingTable, "_mark_all"))
def joins_leave_no_mark(_right: Right) -> Right:
    """What follows to a group does not wait for the joins before it."""

    def mark_all(_self: RingTable, _names: Iterable[str], _at: Wait) -> None:
        pass

    return mark_all


@site_mutant((LocalLine, "follow"))
def safe_before_its_ring_holds_it(right: Right) -> Right:
    """A local SAFE message waits for no more than an AGREED one."""

    def follow(self: LocalLine, packet: DataPacket, wait: Stamp | None, _number: int = 0) -> None:
        right(self, packet, wait, 0)

    return follow


@site_mutant((Deliverable, "own"))
def safe_without_v(_right: Any) -> Any:
    """A daemon says that it can deliver what it holds, whatever that follows is missing."""
    return property(lambda self: min(self._stream.held, self._line.upto))


@site_mutant((ViewChange, "_known_deliverable"))
def numbers_of_another_ring_united(right: Right) -> Right:
    """A daemon says of other rings that they can deliver what it holds of their streams."""

    def known(self: ViewChange, others: list[int]) -> list[int]:
        found: list[int] = right(self, others)
        for stream in self._delivery.streams:
            if stream.ring != self._own_ring:
                found[stream.ring] = max(found[stream.ring], stream.held)
        return found

    return known


@site_mutant((ViewChange, "_known_deliverable"))
def safe_at_the_end_from_one_holding(right: Right) -> Right:
    """When a view ends, a ring can deliver what one of its daemons can."""

    def known(self: ViewChange, others: list[int]) -> list[int]:
        found: list[int] = right(self, others)
        found[self._own_ring] = max(found[self._own_ring], self._delivery.order.deliverable.own)
        return found

    return known


@site_mutant((WalkLimits, "is_safe"))
def the_boundary_stops_at_what_a_ring_has_passed(_right: Right) -> Right:
    """When a view ends, its regular part ends before a SAFE message that its ring has delivered."""

    def is_safe(self: WalkLimits, packet: DataPacket) -> bool:
        return packet.time <= self.frontier

    return is_safe


BUGS = (
    causal_passes_local_packets,
    causes_without_what_local_packets_followed,
    joins_leave_no_mark,
    local_packets_wait_for_nothing,
    members_of_wide_groups_are_local,
    narrow_while_others_have_rights,
    numbers_of_another_ring_united,
    one_boundary_for_both_lines,
    right_used_after_it_was_given_back,
    rights_before_marks,
    safe_at_the_end_from_one_holding,
    safe_before_its_ring_holds_it,
    safe_without_v,
    sends_without_a_right,
    the_boundary_stops_at_what_a_ring_has_passed,
)
