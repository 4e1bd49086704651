"""Packets that stay in the own ring, by the subscriptions of daemons."""

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.groups.announcement import Announcement
from groupcomm.groups.pruning import Reach
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind

VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "abc"),
    rings=((0, 1), (2,)),
    links=((0, 2),),
)


def to(*groups: str, kind: int = BundleKind.MESSAGES) -> Bundle:
    return Bundle(kind, ServiceLevel.FIFO, 0, 1, 0, 1, groups, 0, b"")


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


def test_a_view_begins_with_what_daemons_announce() -> None:
    reach = Reach(VIEW, 0)
    inside = Announcement(b"", (), ((1, "u"),), (("g", (1,)),))
    outside = Announcement(b"", (), ((1, "u"),), (("h", (1,)),))
    reach.begin({0: inside, 1: inside, 2: outside})
    assert reach.is_local_only(to("g"))
    assert not reach.is_local_only(to("h"))
