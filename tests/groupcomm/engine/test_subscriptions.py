"""A daemon subscribes to a group before it joins; what waits for that, and what does not."""

import pytest

from groupcomm.engine.backlog import Backlog, Subscriptions
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    WITHOUT_VIEWS,
    Bundle,
    BundleKind,
    decode_body_untrusted,
    encode_body,
)

JOIN, LEAVE, MESSAGES = BundleKind.JOIN, BundleKind.LEAVE, BundleKind.MESSAGES
SUBSCRIBE, UNSUBSCRIBE = BundleKind.SUBSCRIBE, BundleKind.UNSUBSCRIBE

Said = tuple[int, int, str]
"""A bundle's session, kind and group."""


def bundle(session: int, kind: int, group: str) -> Bundle:
    made = Bundle(kind, ServiceLevel.AGREED, 0, 1, 0, 1, (group,), 0, b"", 14)
    made.address(session, "u", ())
    return made


class Daemon:
    """Subscriptions over a backlog whose bundles are numbered when they are looked at."""

    def __init__(self, *, several: bool = True, groups: tuple[str, ...] = ()) -> None:
        self.backlog = Backlog()
        self.subscriptions = Subscriptions(self.backlog)
        self.subscriptions.begin(groups, several=several)

    def give(self, session: int, kind: int, group: str) -> None:
        self.subscriptions.admit(bundle(session, kind, group))

    def numbered(self) -> list[Said]:
        return [(one.session, one.kind, one.groups[0]) for one in self.backlog.clear()]


def test_the_first_join_waits_and_so_does_what_its_session_gives_next() -> None:
    daemon = Daemon()
    daemon.give(1, JOIN, "g")
    daemon.give(1, MESSAGES, "h")
    daemon.give(2, MESSAGES, "g")
    assert daemon.numbered() == [(0, SUBSCRIBE, "g"), (2, MESSAGES, "g")]
    assert daemon.subscriptions.waiting == 2
    daemon.subscriptions.on_known("g")
    assert daemon.numbered() == [(1, JOIN, "g"), (1, MESSAGES, "h")]
    assert daemon.subscriptions.waiting == 0


def test_later_joins_of_the_group_do_not_wait() -> None:
    daemon = Daemon(groups=("g",))
    daemon.give(1, JOIN, "g")
    assert daemon.numbered() == [(1, JOIN, "g")]


def test_several_groups_are_asked_for_at_once() -> None:
    daemon = Daemon()
    for group in ("g", "h", "g"):
        daemon.give(1, JOIN, group)
    daemon.give(2, JOIN, "h")
    assert daemon.numbered() == [(0, SUBSCRIBE, "g"), (0, SUBSCRIBE, "h")]
    daemon.subscriptions.on_known("h")
    assert daemon.numbered() == [(2, JOIN, "h")]
    daemon.subscriptions.on_known("g")
    assert daemon.numbered() == [(1, JOIN, "g"), (1, JOIN, "h"), (1, JOIN, "g")]


def test_in_a_view_of_one_ring_nothing_waits_and_nothing_is_said() -> None:
    daemon = Daemon(several=False)
    daemon.give(1, JOIN, "g")
    daemon.subscriptions.on_joined("g")
    daemon.subscriptions.on_unwanted("g")
    assert daemon.numbered() == [(1, JOIN, "g")]


def test_a_group_without_own_members_is_unsubscribed_and_asked_for_anew() -> None:
    daemon = Daemon(groups=("g",))
    daemon.subscriptions.on_unwanted("g")
    daemon.give(1, JOIN, "g")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "g"), (0, SUBSCRIBE, "g")]


def test_a_join_under_way_keeps_the_subscription() -> None:
    daemon = Daemon(groups=("g",))
    daemon.give(1, JOIN, "g")
    assert daemon.numbered() == [(1, JOIN, "g")]
    daemon.subscriptions.on_unwanted("g")
    assert daemon.numbered() == []
    daemon.subscriptions.on_joined("g")
    daemon.subscriptions.on_unwanted("g")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "g")]


def test_a_new_view_looks_at_everything_anew() -> None:
    daemon = Daemon()
    daemon.give(1, MESSAGES, "a")
    daemon.give(1, JOIN, "g")
    daemon.give(1, MESSAGES, "b")
    daemon.give(2, JOIN, "h")
    daemon.subscriptions.on_known("h")
    daemon.subscriptions.begin(["g"], several=True)
    assert daemon.numbered() == [
        (1, MESSAGES, "a"),
        (0, SUBSCRIBE, "h"),
        (1, JOIN, "g"),
        (1, MESSAGES, "b"),
    ]
    daemon.subscriptions.begin([], several=False)
    assert daemon.numbered() == [(2, JOIN, "h")]


@pytest.mark.parametrize("known", [True, False])
def test_a_join_without_views_is_a_plain_one_where_a_daemon_does_not_know_them(known: bool) -> None:
    """An earlier daemon would refuse the whole packet."""
    backlog = Backlog()
    subscriptions = Subscriptions(backlog)
    body = encode_body(BundleKind.JOIN, ServiceLevel.AGREED, WITHOUT_VIEWS, 7, ("g",), b"")
    waiting, later = (decode_body_untrusted(body) for _ in range(2))
    for bundle in (waiting, later):
        bundle.address(1, "u", ())
    subscriptions.admit(waiting)
    assert waiting.flags == WITHOUT_VIEWS, "before any view nobody knows"
    subscriptions.begin([], several=False, readers=known)
    subscriptions.admit(later)
    assert list(backlog) == [waiting, later]
    for bundle in (waiting, later):
        again = decode_body_untrusted(bundle.body)
        assert (again.flags, again.groups, again.message) == (bundle.flags, ("g",), 7)
        assert bundle.flags == (WITHOUT_VIEWS if known else 0)
        assert sum(map(len, bundle.record())) == bundle.size
