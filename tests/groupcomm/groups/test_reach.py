"""Packets that stay in the own ring, by the subscriptions of daemons."""

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.events import MemberId
from groupcomm.groups.pruning import Reach
from groupcomm.groups.table import GroupTable
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind

VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "abc"),
    rings=((0, 1), (2,)),
    links=((0, 2),),
)


def to(*groups: str, kind: int = BundleKind.MESSAGES) -> Bundle:
    return Bundle(kind, ServiceLevel.FIFO, 0, 1, 0, 1, groups, 0, b"", 14)


def test_what_nobody_outside_has_subscribed_to_stays() -> None:
    reach = Reach(VIEW, 0)
    reach.subscribe(1, "g")
    assert reach.is_local_only(to("g"))
    assert reach.is_local_only(to("unknown"))
    reach.subscribe(2, "h")
    assert not reach.is_local_only(to("g", "h"))
    assert not reach.all_local_only([to("g"), to("h")])
    reach.subscribe(2, "g")
    assert not reach.is_local_only(to("g"))
    reach.unsubscribe(2, "g")
    assert reach.is_local_only(to("g"))


def test_private_names_say_where_they_are() -> None:
    reach = Reach(VIEW, 0)
    assert reach.is_local_only(to("#u#b"))
    assert not reach.is_local_only(to("#u#c"))
    assert reach.is_local_only(to("#u#gone")), "nobody gets it"


def test_only_messages_stay() -> None:
    reach = Reach(VIEW, 0)
    assert reach.is_local_only(to("g", kind=BundleKind.FRAGMENT))
    for kind in BundleKind:
        if kind > BundleKind.FRAGMENT:
            assert not reach.is_local_only(to("g", kind=kind))


def test_a_view_begins_with_what_sessions_bring_along() -> None:
    reach, table = Reach(VIEW, 0), GroupTable(0)
    start = Position(VIEW.id, 0, 0, 0, 0)
    for daemon, group, enter in ((1, "g", table.join), (2, "h", table.join), (2, "i", table.read)):
        member = table.connect(daemon, MemberId(f"#{group}#x", 1))
        enter(member, group, start)
        reach.add(member)
    assert reach.is_local_only(to("g"))
    assert not reach.is_local_only(to("h"))
    assert not reach.is_local_only(to("i"))
